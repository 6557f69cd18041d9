"""``[metrics]``, ``--metrics-port`` and what stands in ``streams/prometheus``."""

import json
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from river import linear_model

from fwonline._cli.metrics import RunMetrics, serving, url
from fwonline.cli import main
from fwonline.loop import EventLoop
from fwonline.loop.report import Report, Start
from fwonline.monitors import Throughput
from fwonline.stream.base import Rejected

pytest.importorskip("prometheus_client")
from prometheus_client.parser import text_string_to_metric_families

PROMETHEUS = Path(__file__).parent.parent / "streams" / "prometheus"
COUNTS = {"n_predicted": 0, "n_learned": 0, "n_rejected": {}, "n_pending": 0, "n_expired": 0, "n_unmatched": 0}
MONITORS = {
    **{"gap_upper": 0.3, "gap_over_memory": 0.1, "gap_estimate": 0.2, "regret_lo": 1.0, "regret_hi": 2.0},
    **{"violation": 0.0, "violation_worst": None, "support": 4, "drifts": 5, "Accuracy": float("nan")},
}
NAMES = {
    *("fwonline_samples_total", "fwonline_rejected_total", "fwonline_consumer_lag", "fwonline_gap", "fwonline_regret"),
    *("fwonline_violation", "fwonline_support_size", "fwonline_loss", "fwonline_drift_total", "fwonline_monitor"),
    *("fwonline_step_seconds_sum", "fwonline_step_seconds_count", "fwonline_checkpoint_seconds_sum"),
    *("fwonline_checkpoint_seconds_count", "fwonline_checkpoint_age_seconds", "fwonline_rebalances_total"),
    *("fwonline_commit_rejected_total", "fwonline_info"),
}


def report(n, **more):
    counts = {**COUNTS, "n": n, "elapsed": 1.0, "rate": 1.0, "monitors": {}, "progress": None, "lag": None}
    return Report(**{**counts, **more})


def scraped(metrics):
    """Sample -> value, as a client reads them; a sample is a name and its labels."""
    with serving(("127.0.0.1", 0), metrics) as place, urllib.request.urlopen(url(place), timeout=10) as answer:
        text = answer.read().decode()
    found = {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("fwonline")
    }
    return found, text


@pytest.fixture
def full():
    """The metrics of a run of which everything is known: a worker that went on from 100 items and 2 drifts."""
    metrics = RunMetrics("full")
    metrics.on_start(Start("somewhere", "model", n=100))
    metrics.on_checkpoint("checkpoint", 100)
    metrics.on_report(report(110, monitors={"drifts": 2}))
    metrics.on_rejected(Rejected("x", "a", "b"), "features")
    group = {"n_rebalances": 3, "n_commits_refused": 1, "n_checkpoints": 2, "checkpoint_seconds": 0.5}
    lags = {"clicks[0]": 7, "clicks[11]": 8}
    metrics.on_report(report(150, monitors=MONITORS, lag=15, lags=lags, loss=0.25, **group))
    return metrics


def test_every_number_has_its_name_and_labels(full):
    found, _ = scraped(full)
    assert {name for name, *_ in found} == NAMES
    assert found["fwonline_samples_total",] == 50  # of this process
    assert found["fwonline_rejected_total", "features"] == 1
    assert found["fwonline_rejected_total", "malformed"] == 0  # there before the first, so that its rate is seen
    assert found["fwonline_consumer_lag", "11", "clicks"] == 8
    assert found["fwonline_gap", "upper"] == 0.3
    assert found["fwonline_gap", "over_memory"] == 0.1
    assert found["fwonline_gap", "estimate"] == 0.2
    assert (found["fwonline_regret", "lo"], found["fwonline_regret", "hi"]) == (1.0, 2.0)
    assert found["fwonline_drift_total",] == 3
    assert found["fwonline_support_size",] == 4
    assert found["fwonline_loss",] == 0.25
    assert (found["fwonline_checkpoint_seconds_sum",], found["fwonline_checkpoint_seconds_count",]) == (0.5, 2)
    assert 0 <= found["fwonline_checkpoint_age_seconds",] < 60
    assert (found["fwonline_rebalances_total",], found["fwonline_commit_rejected_total",]) == (3, 1)
    assert ("fwonline_monitor", "violation_worst") not in found  # not known yet


def test_what_no_monitor_says_is_left_out():
    metrics = RunMetrics("new")
    assert {name for name, *_ in scraped(metrics)[0]} == {
        *("fwonline_info", "fwonline_samples_total", "fwonline_rejected_total")
    }
    metrics.on_start(Start("somewhere", "model"))
    metrics.on_report(report(3, lag=4))
    found, _ = scraped(metrics)
    assert found["fwonline_consumer_lag", "", ""] == 4
    assert not {name for name, *_ in found} & {"fwonline_gap", "fwonline_loss", "fwonline_rebalances_total"}


def test_names_from_elsewhere_are_escaped():
    hostile = 'a"} 1\nfwonline_samples_total 99\\ <script>'
    metrics = RunMetrics(hostile)
    metrics.on_start(Start(hostile, "model"))
    metrics.on_report(report(1, lag=1, lags={f"{hostile}[0]": 1}, monitors={hostile: 2.0}))
    found, text = scraped(metrics)
    assert found["fwonline_samples_total",] == 1
    assert found["fwonline_consumer_lag", "0", hostile] == 1
    assert found["fwonline_monitor", hostile] == 2.0
    assert not any(line.startswith("fwonline_samples_total 99") for line in text.splitlines())


def test_a_run_is_counted():
    metrics = RunMetrics("run")
    items = [({"a": float(i)}, i / 2) for i in range(50)] + [({"a": float("nan")}, 1.0)]
    loop = EventLoop(items, linear_model.LinearRegression(), [Throughput()], observers=[metrics], on_error="skip")
    loop.run()
    found, _ = scraped(metrics)
    assert found["fwonline_samples_total",] == found["fwonline_step_seconds_count",] == 51
    assert found["fwonline_rejected_total", "features"] == 1
    assert found["fwonline_monitor", "samples"] == 50
    assert found["fwonline_step_seconds_sum",] > 0


@pytest.fixture
def taken():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_port_that_is_taken_stops_a_run_before_anything_is_read_or_removed(taken, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.toml").write_text(
        f'source = "Phishing"\nmodel = "GaussianNB"\nrun = {{ limit = 50 }}\nmetrics = {{ port = {taken} }}\n'
    )
    assert main(["run", "a.toml", "--metrics-port", "0"]) == 0
    assert re.search(r"^metrics: http://127\.0\.0\.1:\d+/metrics$", capsys.readouterr().out, re.MULTILINE)
    before = (tmp_path / "runs" / "a" / "summary.json").read_bytes()
    assert main(["run", "a.toml", "--fresh"]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"fwonline: metrics: port {taken} of 127.0.0.1 is taken: another run or program listens")
    assert (tmp_path / "runs" / "a" / "summary.json").read_bytes() == before
    assert main(["run", "a.toml", "--fresh", "--metrics-port", "192.0.2.1:9108"]) == 1
    assert "192.0.2.1 is no address of this machine" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["run", "a.toml", "--metrics-port", "http"])
    assert "expected a port from 1 to 65535 (0: any), or ADDRESS:PORT, found 'http'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("{ port = 70000 }", "4: metrics.port: expected a port, from 1 to 65535, or 0 for any, found 70000"),
        ('{ port = "9108" }', "4: metrics.port: expected an integer, found the string '9108'"),
        ('{ address = "::1" }', "4: metrics: the key 'port' is missing"),
        ("{ prot = 1 }", "4: metrics.prot: unknown key. Did you mean 'port'?"),
        (
            '{ port = 1, address = "0.0.0.0" }',
            "expected 127.0.0.1 or ::1, found '0.0.0.0': whoever runs the definition",
        ),
    ],
)
def test_a_definition_listens_on_this_machine_alone(table, said, tmp_path, capsys):
    (tmp_path / "a.toml").write_text(f'source = "Phishing"\nmodel = "GaussianNB"\n\nmetrics = {table}\n')
    assert main(["run", str(tmp_path / "a.toml")]) == 2
    assert said in capsys.readouterr().err


# What stands in streams/prometheus


def expressions():
    board = json.loads((PROMETHEUS / "dashboard.json").read_text())
    found = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    found += [variable["query"] for variable in board["templating"]["list"]]
    found += [note["expr"] for note in board["annotations"]["list"]]
    return [*found, (PROMETHEUS / "alerts.yml").read_text()]


def test_every_expression_names_metrics_that_exist(full):
    families = scraped(full)[0]
    there = {name for name, *_ in families}
    used = {name for text in expressions() for name in re.findall(r"\bfwonline_\w+", text)}
    assert used <= there
    assert there - used == {"fwonline_info"}  # and all that exists is looked at
    labels = {label for text in expressions() for label in re.findall(r'(?:kind|reason|bound)="(\w+)"', text)}
    assert labels <= {label for _, *values in families for label in values}


def needs(program):
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"{program} is not installed")


@needs("promtool")
def test_promtool_finds_no_mistake(full, tmp_path):
    def checked(*words, text=""):
        done = subprocess.run(["promtool", *words], input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    checked("check", "config", str(PROMETHEUS / "prometheus.yml"))  # the rules that it names, too
    checked("check", "metrics", text=scraped(full)[1])
    rules = (PROMETHEUS / "alerts.yml").read_text()
    (tmp_path / "rules.yml").write_text(re.sub(r" +annotations:\n.*\n", "", rules))  # which promtool would compare
    (tmp_path / "test.yml").write_text(f"rule_files: [rules.yml]\n{ALERTED}")
    checked("test", "rules", str(tmp_path / "test.yml"))


ALERTED = """
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'fwonline_samples_total{job="f",instance="a"}', values: '0+600x600'}
      - {series: 'fwonline_consumer_lag{job="f",instance="a",topic="t",partition="0"}', values: '0+100x600'}
      - {series: 'fwonline_rejected_total{job="f",instance="a",reason="features"}', values: '0+60x600'}
      - {series: 'fwonline_gap{job="f",instance="a",kind="upper"}', values: '1x400 9x200'}
      - {series: 'fwonline_checkpoint_age_seconds{job="f",instance="a"}', values: '5x400 0+60x200'}
      - {series: 'fwonline_samples_total{job="f",instance="idle"}', values: '600x600'}
      - {series: 'fwonline_checkpoint_age_seconds{job="f",instance="idle"}', values: '0+60x600'}
    alert_rule_test:
      - &alert
        eval_time: 1h
        alertname: FwonlineLagGrows
        exp_alerts: [{exp_labels: {severity: warning, job: f, instance: a}}]
      - {<<: *alert, alertname: FwonlineRejects}
      - {<<: *alert, alertname: FwonlineGapGrows, exp_alerts: []}
      - {<<: *alert, alertname: FwonlineCheckpointTooOld, exp_alerts: []}
      - {<<: *alert, alertname: FwonlineStandsStill, exp_alerts: []}
      - {<<: *alert, alertname: FwonlineCommitsRejected, exp_alerts: []}
      - {<<: *alert, eval_time: 8h, alertname: FwonlineGapGrows,
         exp_alerts: [{exp_labels: {severity: warning, job: f, instance: a, kind: upper}}]}
      - {<<: *alert, eval_time: 8h, alertname: FwonlineCheckpointTooOld,
         exp_alerts: [{exp_labels: {severity: critical, job: f, instance: a}}]}
"""


@needs("prometheus")
def test_a_prometheus_scrapes_a_run(full, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with serving(("127.0.0.1", 0), full) as (address, served):
        config = (PROMETHEUS / "prometheus.yml").read_text().replace("scrape_interval: 5s", "scrape_interval: 1s")
        config = config.replace("127.0.0.1:9108", f"{address}:{served}")
        (tmp_path / "prometheus.yml").write_text(config.replace("alerts.yml", str(PROMETHEUS / "alerts.yml")))
        command = ["prometheus", "--config.file=prometheus.yml", f"--web.listen-address=127.0.0.1:{port}"]
        with (
            open(tmp_path / "log", "w") as log,
            subprocess.Popen([*command, "--storage.tsdb.path=data"], cwd=tmp_path, stdout=log, stderr=log) as server,
        ):
            try:
                deadline = time.monotonic() + 60
                while not (found := asked(port, '{__name__=~"fwonline_.*"}')) and time.monotonic() < deadline:
                    time.sleep(0.2)
            finally:
                server.terminate()
    assert {result["metric"]["__name__"] for result in found} == NAMES, (tmp_path / "log").read_text()


def asked(port, query):
    where = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": query})
    try:
        with urllib.request.urlopen(where, timeout=5) as answer:
            return json.load(answer)["data"]["result"]
    except (urllib.error.URLError, ConnectionError):
        return []
