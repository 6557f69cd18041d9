"""``fwonline run --live``: the page of a run while it goes on."""

import io
import json
import re
import shutil
import socket
import subprocess
import types
import urllib.error
import urllib.request

import pytest

from fwonline.cli import main

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("vl_convert")
from starlette.testclient import TestClient

from fwonline._cli.report import live, process

SCRIPT = "<script>alert('x')</script>"


def line(n, **more):
    row = {"n": n, "elapsed": n / 100, "rate": 100.0, "MAE": 1 / n, "gap_upper": 1.0, SCRIPT: 7.0, "loss": 2.0}
    return json.dumps({**row, **more}) + "\n"


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "definition.toml").touch()
    return folder


def test_a_history_reads_what_is_new_and_stays_small(run):
    log = run / "log.jsonl"
    history = live.History(log)
    assert not history.read()  # no log yet
    log.write_text(line(1) + line(2)[:20])
    assert history.read()
    assert not history.read()
    with open(log, "a") as file:
        file.write(line(2)[20:] + "{broken\n" + line(3, drifts=1, drift_at=3))
    assert history.read()
    assert ([row["n"] for row in history.rows], history.drifts) == ([1, 2, 3], [3])
    with open(log, "a") as file:
        for n in range(4, 20_001):
            file.write(line(n, drifts=1, drift_at=3))
            if n % 1000 == 0:
                file.flush()
                history.read()
                assert len(history.rows) <= 2400
    assert history.rows[0]["n"] == 1
    assert history.rows[-1]["n"] == 20_000
    assert {row["loss"] for row in history.rows} == {2.0}
    assert history.drifts == [3]
    log.unlink()
    log.write_text(line(5))  # another run's
    assert history.read()
    assert [row["n"] for row in history.rows] == [5]


def test_what_was_written_while_nobody_read_is_not_put_behind_what_was_read(run, monkeypatch):
    monkeypatch.setattr(live, "WHOLE", 1 << 18)
    log = run / "log.jsonl"
    history = live.History(log)
    log.write_text("".join(line(n) for n in range(1, 1_001)))
    assert history.read()
    with open(log, "a") as file:
        file.writelines(line(n) for n in range(1_001, 8_001))
    assert history.read()
    at = [row["n"] for row in history.rows]
    assert at == sorted(at)
    assert (at[0], at[-1]) == (1, 8_000)


def events(answer):
    """What an answer sends, one after another."""
    for sent in answer:
        text = sent.decode()
        if text.startswith("data: {"):
            yield json.loads(text.removeprefix("data: "))
        elif text.startswith("event: "):
            yield text.strip()


def test_a_reader_sees_what_is_new_and_the_end(run):
    (run / "log.jsonl").write_text(line(1) + line(2))
    with process.showing(run, ("127.0.0.1", 0)) as address:
        with urllib.request.urlopen(address, timeout=60) as answer:
            page = answer.read().decode()
        assert "connect-src 'self'" in page
        assert "vegaEmbed" in page
        reader = urllib.request.urlopen(f"{address}events", timeout=60)
        sent = events(reader)
        first = next(sent)
        assert {"MAE", "Frank-Wolfe gap", SCRIPT} <= set(first["titles"])  # which the page takes for text
        assert "<script>" not in first["facts"]
        assert "&lt;script&gt;" in first["facts"]
        with open(run / "log.jsonl", "a") as log:
            log.write(line(3))
        points = next(sent)["charts"][0]["datasets"]["points"]
        assert [point["n"] for point in points] == [1, 2, 3]
        (run / "summary.json").write_text('{"state": "finished", "n": 3}')
    rest = list(sent)  # the run has ended: its last numbers, and word of it
    assert "finished" in rest[0]["facts"]
    assert rest[-1] == "event: end"
    reader.close()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=5)


def test_who_may_read(run):
    own = TestClient(live.application(run, None), base_url="http://127.0.0.1:9300")
    assert own.get("/nothing").status_code == 404
    assert own.post("/").status_code == 405
    assert own.get("/", headers={"Host": "evil.example"}).status_code == 400
    shared = TestClient(live.application(run, "word"), base_url="http://run.example")
    for path in ("/events", "/events?token=", "/events?token=wörd"):
        assert shared.get(path).status_code == 403


def test_nothing_is_made_for_who_may_not_read(run, monkeypatch):
    monkeypatch.setattr(live, "libraries", lambda: pytest.fail("the page is made"))
    shared = TestClient(live.application(run, "word"), base_url="http://run.example")
    assert shared.get("/").status_code == 403


def test_where_no_port_can_be_handed_on_the_run_does_not_begin(run, monkeypatch):
    monkeypatch.setattr(process, "os", types.SimpleNamespace(name="nt"))
    with pytest.raises(OSError, match="live: Windows hands no open port on"), process.showing(run, ("127.0.0.1", 0)):
        pass


def test_elsewhere_a_token_is_asked_for(run, monkeypatch):
    class Process:
        stdin = io.StringIO()
        wait = staticmethod(lambda timeout: 0)

    started = []
    monkeypatch.setattr(process.subprocess, "Popen", lambda command, **options: started.append(command) or Process)
    with process.showing(run, ("0.0.0.0", 0)) as address:
        token = re.fullmatch(r"http://0\.0\.0\.0:\d+/\?token=([\w-]{20,})", address)[1]
        assert Process.stdin.getvalue() == f"{token}\n"
    assert not any(token in word for word in started[0])  # which all who use the machine may see
    client = TestClient(live.application(run, token), base_url="http://run.example")
    assert client.get("/").status_code == 403
    assert client.get(f"/?token={token}").status_code == 200


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_a_browser_draws_what_it_is_sent_and_draws_it_again(run, tmp_path):
    sent = []
    for last in (3, 9):
        (run / "log.jsonl").write_text("".join(line(n, loss=last) for n in range(1, last)))
        history = live.History(run / "log.jsonl")
        history.read()
        titles, charts = zip(*live.curves_of([run], [live.log_of("a", history.rows, [])]), strict=True)
        sent.append(json.dumps({"facts": f"<b>{last}</b>", "titles": titles, "charts": charts}))
    page = TestClient(live.application(run, None), base_url="http://localhost").get("/").text
    stub = f"""<script>class EventSource {{ addEventListener(name, end) {{ this.end = end; }} close() {{}}
      constructor() {{ const sent = {json.dumps(sent).replace("<", chr(92) + "u003c")};
        setTimeout(() => this.onmessage({{ data: sent[0] }}), 10);
        setTimeout(() => {{ this.onmessage({{ data: sent[1] }}); this.end(); }}, 3000); }} }}</script></head>"""
    (tmp_path / "page.html").write_text(page.replace("</head>", stub, 1))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", "--dump-dom"]
    command = ["chromium", *flags, (tmp_path / "page.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    dom = re.sub(r"<script.*?</script>", "", done.stdout, flags=re.DOTALL)
    assert "<b>9</b>" in dom, done.stderr[-2000:]
    assert "The run has ended." in dom
    assert dom.count('data-drawn="yes"') == dom.count("<figure>") == 5
    assert SCRIPT not in dom
    first = re.search(r"<figure>.*?</figure>", dom, re.DOTALL)[0]
    assert first.count('aria-roledescription="point"') == 8  # of the second message


def test_a_port_that_is_taken_and_several_runs(tmp_path, capsys):
    (tmp_path / "a.toml").write_text('source = "Phishing"\nmodel = "GaussianNB"\nrun = { limit = 50 }\n')
    command = ["run", str(tmp_path / "a.toml"), "--output", str(tmp_path / "run"), "--live"]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main([*command, str(port)]) == 1
        assert f"fwonline: live: port {port} of 127.0.0.1 is taken" in capsys.readouterr().err
    assert main([*command, "--set", "run.seed=1,2"]) == 2
    assert "--live shows one run" in capsys.readouterr().err
