"""``fwonline run`` as a person meets it: on a terminal, in a pipe, with Ctrl-C."""

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import time

import pytest
from support.waiting import wait_until

from fwonline.checkpoint import Checkpoint
from fwonline.cli import main

fcntl = pytest.importorskip("fcntl")
pty = pytest.importorskip("pty")
termios = pytest.importorskip("termios")

COMMAND = [sys.executable, "-m", "fwonline"]

ENDLESS = """
source = { class = "SparseLinear", n_features = 20, n_informative = 3 }
monitors = ["MAE", "Gap"]
run = { seed = 1, report_every = 0.1 }
[model]
class = "FWRegressor"
constraint = { class = "L1Ball", radius = 10.0 }
optimizer = { class = "SFW", memory = 100, batch_size = 2 }
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "endless.toml").write_text(ENDLESS)
    return tmp_path


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, *arguments, columns, **environment):
        self.screen = ""
        # not what C code of this process put there behind Python's back: COLUMNS would overrule the terminal
        known = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(COMMAND[0], [*COMMAND, *arguments], {**known, "TERM": "xterm-256color", **environment})
        self.resize(columns)

    def resize(self, columns):
        import struct

        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def wait_for(self, pattern, seconds=60):
        """Read until `pattern` shows, behind what was read before, and return what was read."""
        before = len(self.screen)
        end = time.monotonic() + seconds
        while not re.search(pattern, plain(self.screen[before:])):
            assert time.monotonic() < end, f"{pattern!r} did not show in {self.screen[before:]!r}"
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.screen += os.read(self.fd, 65536).decode()
                except OSError:  # Linux's way to say that the other side is closed
                    break
        return self.screen[before:]

    def press_ctrl_c(self):
        os.write(self.fd, b"\x03")

    def end(self):
        while True:
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                break
            if not data:
                break
            self.screen += data.decode()
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.fixture
def terminal():
    opened = []

    def start(*arguments, columns=80, **environment):
        opened.append(Terminal(*arguments, columns=columns, **environment))
        return opened[-1]

    yield start
    for one in opened:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(one.pid, signal.SIGKILL)
            os.waitpid(one.pid, 0)


def plain(screen):
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen).replace("\r", "")


def frames(screen):
    """The pictures that a live view drew, one after another, as lists of lines."""
    pictures = re.split(r"(?=\x1b\[1mendless)", screen)[1:]
    return [[line.rstrip() for line in plain(picture).split("\n")] for picture in pictures]


@pytest.mark.parametrize("columns", [40, pytest.param(120, marks=pytest.mark.slow)])
def test_the_live_view_fits_the_terminal(terminal, columns):
    run = terminal("run", "endless.toml", "--limit", "90000", columns=columns)
    assert run.end() == 0
    pictures = frames(run.screen)
    assert len(pictures) >= 3
    assert all(len(line) <= columns for picture in pictures[1:-1] for line in picture)
    last = "\n".join(pictures[-1])
    assert re.search(r"endless +(SparseLinear +)?done \d:\d\d", last)
    for label, value in [
        ("samples", "90,000"),
        ("rate", r"[\d,]+/s"),
        ("MAE", r"0\.\d+"),
        ("gap_estimate", r"[\d.e-]+"),
        ("gap_estimate_mean", r"[\d.e-]+"),
    ]:
        assert re.search(rf"{label} +{value}", last), label
    assert "100%" in last
    assert "finished: 90,000 samples; to draw it: fwonline report runs/endless" in last
    assert run.screen.count("\x1b[?25l") == run.screen.count("\x1b[?25h") == 1  # the cursor comes back
    rows = max(len(picture) for picture in pictures[1:-1])  # the first ones have no numbers yet
    assert rows > 7 if columns == 40 else rows <= 5


def test_the_live_view_follows_the_terminal_and_ctrl_c_ends_it_cleanly(terminal, here):
    run = terminal("run", "endless.toml", columns=120)
    run.wait_for("samples")
    run.resize(40)
    time.sleep(0.5)
    picture = frames(run.wait_for(r"(?s)gap_estimate_mean.*gap_estimate_mean.*gap_estimate_mean"))[-2]
    assert max(map(len, picture)) <= 40
    run.press_ctrl_c()
    assert run.end() == 130
    last = plain(run.screen)[-600:]
    assert re.search(r"stopped \d:\d\d", last)
    assert re.search(r"stopped at [\d,]+ samples; to go on: fwonline run endless.toml --resume\n$", last)
    summary = json.loads((here / "runs" / "endless" / "summary.json").read_text())
    assert summary["state"] == "interrupted"
    assert Checkpoint(here / "runs" / "endless" / "checkpoint").load()["counts"]["n"] == summary["n"]


@pytest.mark.slow
def test_no_color_means_no_color(terminal):
    run = terminal("run", "endless.toml", "--limit", "2000", NO_COLOR="1")
    assert run.end() == 0
    colors = re.findall(r"\x1b\[(?:[0-9;]*;)?(?:3[0-7]|38|9[0-7])[0-9;]*m", run.screen)
    assert "samples" in run.screen
    assert colors == []


def test_a_dumb_terminal_gets_plain_lines(terminal):
    run = terminal("run", "endless.toml", "--limit", "2000", TERM="dumb")
    assert run.end() == 0
    assert "\x1b" not in run.screen
    assert run.screen.startswith("endless: learning from SparseLinear\r\n")


def test_head_ends_the_run_quietly_and_it_can_go_on(here):
    command = f"set -o pipefail; '{sys.executable}' -m fwonline run endless.toml 2>err.txt | head -3"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=True)
    first, *others = done.stdout.splitlines()
    assert first == "endless: learning from SparseLinear"
    assert len(others) == 2
    assert all(line.startswith(("samples ", "compiling, once")) for line in others)
    assert done.stderr == (here / "err.txt").read_text() == ""
    assert json.loads((here / "runs" / "endless" / "summary.json").read_text())["state"] == "interrupted"


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
def test_a_stopped_and_resumed_run_ends_as_one_that_was_not(here, number, capsys):
    (here / "limited.toml").write_text(ENDLESS.replace("seed = 1", "seed = 1, limit = 40_000"))
    arguments = [*COMMAND, "run", "limited.toml", "--output"]
    assert main(["run", "limited.toml", "--quiet", "--output", "whole"]) == 0
    run = subprocess.Popen([*arguments, "parts"], stdout=subprocess.PIPE, text=True)
    log = here / "parts" / "log.jsonl"
    wait_until(lambda: log.exists() and log.stat().st_size > 0, seconds=60)
    run.send_signal(number)
    out, _ = run.communicate(timeout=30)
    assert run.returncode == (130 if number == signal.SIGINT else 0)
    assert f"{number.name}: stopping\n" in out
    stopped_at = json.loads((here / "parts" / "summary.json").read_text())["n"]
    assert 0 < stopped_at < 40_000
    assert f"stopped at {stopped_at:,} samples; to go on: fwonline run limited.toml --resume --output parts" in out
    capsys.readouterr()
    assert main(["run", "limited.toml", "--resume", "--output", "parts"]) == 0
    assert f"limited: learning from SparseLinear, from {stopped_at:,} on\n" in capsys.readouterr().out
    whole, parts = (Checkpoint(here / name / "checkpoint").load() for name in ("whole", "parts"))
    assert parts["model"].weights == whole["model"].weights
    assert parts["model"].gap == whole["model"].gap
    assert parts["counts"] == whole["counts"]
    assert [m.get() for m in parts["monitors"]] == [m.get() for m in whole["monitors"]]


def test_a_second_ctrl_c_ends_at_once(here):
    (here / "stuck.toml").write_text(
        """
        source = { class = "CSVSource", path = "-", target = "y" }
        model = { class = "FWRegressor", constraint = { class = "L1Ball", radius = 1.0 } }
        """
    )
    run = subprocess.Popen(
        [*COMMAND, "run", "stuck.toml"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert run.stdout.readline() == "stuck: learning from standard input\n"
    time.sleep(0.3)
    run.send_signal(signal.SIGINT)
    time.sleep(0.1)  # the wait for standard input may last half a second more
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=10)
    assert (run.returncode, err) == (130, "fwonline: ended at once\n")


def test_the_command_starts_fast():
    code = "import sys, fwonline.cli\nprint(*(m for m in ('numpy', 'numba', 'river', 'rich') if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
