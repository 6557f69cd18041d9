"""``fwonline run --set``: other values, and several of them at once."""

import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from fwonline._cli import IncompleteError, interpreter
from fwonline._cli.compare import names_of, table
from fwonline._cli.folder import RunFolder
from fwonline._cli.sweep import Member, sweep
from fwonline._cli.view import Output
from fwonline.cli import main

SMALL = """
source = "Phishing"
model = ["StandardScaler", { class = "FWClassifier", constraint = { class = "L1Ball", radius = 5.0 } }]
monitors = ["Accuracy"]
run = { seed = 1, limit = 60 }
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "60")
    (tmp_path / "small.toml").write_text(SMALL)
    return tmp_path


def summary_of(folder):
    return json.loads((folder / "summary.json").read_text())


def test_a_value_that_was_set_has_a_folder_of_its_own(here, capsys):
    for more in (["--set", "model.1.constraint.radius=3.0"], []):
        assert main(["run", "small.toml", *more]) == 0
    out = capsys.readouterr().out
    assert "fwonline report 'runs/small-radius=3.0'" in out or "fwonline report runs/small-radius=3.0" in out
    assert (here / "runs" / "small-radius=3.0" / "definition.toml").read_text() == SMALL.replace("5.0", "3.0")
    assert (here / "runs" / "small" / "definition.toml").read_text() == SMALL
    assert main(["report", "runs/small", "runs/small-radius=3.0", "--output", "both.svg"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["small", "small-radius=3.0"]
    assert lines[1].split() == ["model[1].constraint.radius", "5.0", "3.0"]
    assert lines[2].split() == ["state", "finished", "finished"]
    assert any(line.startswith("Accuracy ") for line in lines)
    assert not any("seed" in line for line in lines)  # in which they do not differ
    assert lines[-2:] == ["drawn: both.svg", "written: both.html"]


@pytest.mark.parametrize(
    ("setting", "what"),
    [
        ("model.1.constraint.raduis=3", "model[1].constraint.raduis: unknown key. Did you mean 'radius'?"),
        ("model.1.constraint.radius=wide", "model[1].constraint.radius: expected a number, found the string 'wide'"),
        ("radius", "--set radius: expected KEY=VALUE, such as model.1.constraint.radius=3"),
        ("model.2.seed=3", "--set model.2.seed: model has no '2'; it has 0 (StandardScaler), 1 (FWClassifier)"),
    ],
)
def test_a_wrong_setting_is_told_before_anything_runs(here, capsys, setting, what):
    for more in ([], ["--set", "run.seed=1,2"]):
        assert main(["run", "small.toml", "--set", setting, *more]) == 2
        assert what in capsys.readouterr().err
    assert not (here / "runs").exists()


def test_several_values_run_at_once_and_are_shown_side_by_side(here, capsys):
    key = "model.FWClassifier.constraint.radius"
    arguments = ["run", "small.toml", "--set", f"{key}=1.0", "--set", f"{key}=9.0"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "radius=1.0: finished  60 samples  Accuracy 0." in out
    lines = out.splitlines()
    assert max(map(len, lines[1:-1])) <= 60
    assert ["model[1].constraint.radius", "1.0", "9.0"] in [line.split() for line in lines]
    assert lines[-1] == "to draw them: fwonline report runs/small-radius=1.0 runs/small-radius=9.0"
    found = [summary_of(here / "runs" / f"small-radius={radius}")["monitors"] for radius in ("1.0", "9.0")]
    assert main(["run", "small.toml", "--quiet", "--set", f"{key}=9.0", "--output", "alone"]) == 0
    assert summary_of(here / "alone")["monitors"] == found[1]
    assert main(arguments) == 0  # nothing is left to do
    assert capsys.readouterr().out.count("finished before; --fresh runs it again") == 2


def member(here, label, code):
    folder = here / label
    folder.mkdir()
    return Member(label, RunFolder(folder), None, [sys.executable, "-c", code])


def test_ctrl_c_is_handed_on_once(here, capsys):
    wait = "import signal, sys, time; signal.signal(signal.SIGINT, lambda *_: sys.exit(130)); print(); time.sleep(60)"
    # As in a terminal: what a shell starts in the background ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    members = [member(here, f"r{i}", wait) for i in range(5)]
    try:
        assert sweep("many", members, Output(sys.stdout)) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert "SIGINT: stopping" in capsys.readouterr().out
    started = [one for one in members if one.process is not None]
    assert 0 < len(started) < 5
    assert all(one.process.returncode == 130 for one in started)


def test_what_fails_is_told_with_its_reason_and_the_others_run(here):
    good, bad = member(here, "good", "pass"), member(here, "bad", "import sys; sys.exit('fwonline: no such file')")
    with pytest.raises(IncompleteError, match="1 of 2 runs failed\nbad: no such file"):
        sweep("both", [bad, good], None)
    assert good.process.returncode == 0


def test_a_wide_table_goes_on_below(here, capsys):
    runs = []
    for radius in range(1, 8):
        folder = RunFolder(here / f"small-radius={radius}")
        folder.start_new(SMALL.replace("5.0", f"{radius}.0"))
        folder.write_summary(state="finished", n=10, monitors={"Accuracy": radius / 10, "gap_at": 3})
        runs.append(folder.path)
    lines = list(table(runs, 60))
    assert max(map(len, lines)) <= 60
    assert sum(line.count("finished") for line in lines) == 7
    assert not any("gap_at" in line for line in lines)
    assert names_of(runs)[0] == "radius=1"


def test_another_python_looks_for_modules_where_this_one_does(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the folder of somebody else's definition
    (tmp_path / "argparse.py").write_text("raise SystemExit(7)")
    done = subprocess.run([*interpreter(), "-m", "fwonline", "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    monkeypatch.setattr(sys, "path", ["", *sys.path])  # as where this one was started by -m, or from a clone
    assert interpreter() == [sys.executable]
