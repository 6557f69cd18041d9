"""The definitions in ``streams/`` load, run, and do what their comments say."""

import json
from pathlib import Path

import pytest

from fwonline.cli import main
from fwonline.definition import load_definition
from tools import customers

STREAMS = Path(__file__).parent.parent / "streams"
OFFLINE = ["covariance", "csv", "phishing", "portfolio", "ratings", "sparse-regression-drift"]


def test_all_definitions_are_tested():
    assert sorted(path.stem for path in STREAMS.glob("*.toml")) == sorted([*OFFLINE, "kafka", "kafka-group"])


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(name, *arguments):
        assert main(["run", str(STREAMS / f"{name}.toml"), "--quiet", *arguments]) == 0
        folder = tmp_path / "runs" / name
        return json.loads((folder / "summary.json").read_text()), [
            json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()
        ]

    return run


def test_phishing_learns_a_sparse_classifier(run, tmp_path):
    summary, log = run("phishing")
    assert summary["n_learned"] == 1250
    assert summary["monitors"]["ROCAUC"] > 0.94
    assert summary["monitors"]["Accuracy"] > 0.88
    assert summary["monitors"]["gap_over_memory"] < 0.05
    assert len(log) >= 50
    assert len((tmp_path / "runs/phishing/predictions.jsonl").read_text().splitlines()) == 1250


def test_the_table_is_learned(run):
    summary, _ = run("csv")
    assert summary["n_learned"] == 2000
    assert summary["monitors"]["ROCAUC"] > 0.84
    assert summary["monitors"]["support"] < 40


def test_the_table_and_its_definition_are_what_made_them(tmp_path, monkeypatch):
    folder = tmp_path / "streams"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    with open(folder / "customers.csv", "w", encoding="utf-8", newline="") as file:
        customers.write(file, 2000)
    assert (folder / "customers.csv").read_bytes() == (STREAMS / "customers.csv").read_bytes()
    assert main(["init", "streams/customers.csv", "--target", "churned", "--to", "streams/csv.toml"]) == 0
    assert (folder / "csv.toml").read_text() == (STREAMS / "csv.toml").read_text()


def test_the_covariance_comes_closer_to_its_constraint(run):
    summary, log = run("covariance", "--limit", "2000")
    violation = {row["n"]: row["violation"] for row in log}
    assert summary["n_learned"] == 2000
    assert 0 < violation[2000] < violation[200] / 2
    assert summary["monitors"]["gap_estimate"] > 0


def test_the_drifting_stream_is_followed(run):
    summary, log = run("sparse-regression-drift", "--limit", "8000")
    error = {row["n"]: row["RollingMAE"] for row in log}
    assert error[5750] > 0.25  # the truth has just moved
    assert max(error[5000], error[8000]) < 0.12
    assert summary["monitors"]["violation_worst"] < 1e-9


def test_the_portfolios_average_regret_falls(run):
    summary, log = run("portfolio", "--limit", "2048")
    averages = {row["regret_at"]: row["regret_average_hi"] for row in log if row["regret_at"]}
    assert averages[2048] < averages[512] / 2
    assert summary["monitors"]["regret_lo"] <= summary["monitors"]["regret_hi"]
    assert summary["monitors"]["violation_worst"] < 1e-9


def test_ratings_are_completed(run):
    summary, log = run("ratings", "--limit", "16000")
    assert summary["n_learned"] == 16_000
    assert log[-1]["RollingRMSE"] < 0.75 * log[0]["RollingRMSE"]


@pytest.mark.parametrize("name", ["kafka", "kafka-group"])
def test_the_kafka_definitions_are_sound(monkeypatch, name):
    pytest.importorskip("kafka")
    monkeypatch.setenv("KAFKA", "broker.example:9093")
    definition = load_definition(STREAMS / f"{name}.toml")
    definition.check()
    assert "broker.example" not in definition.text


@pytest.mark.kafka
def test_the_kafka_definition_resumes_where_it_was(make_topic, kafka, tmp_path, monkeypatch):
    if kafka.client:
        pytest.skip("this broker wants more than an address")
    topic = make_topic()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KAFKA", kafka.bootstrap)
    text = (STREAMS / "kafka.toml").read_text().replace('topics = "sparse"', f'topics = "{topic}"')
    (tmp_path / "kafka.toml").write_text(text)
    parameters = ["--param", "classification=true", "--param", "density=0.2", "--seed", "1", "--n", "3000"]
    assert main(["simulate", "SparseLinear", "--to", f"kafka://{kafka.bootstrap}/{topic}", *parameters]) == 0
    for limit in ("1000", "3000"):
        assert (
            main(["run", "kafka.toml", "--quiet", "--resume" if limit == "3000" else "--fresh", "--limit", limit]) == 0
        )
    folder = tmp_path / "runs" / "kafka"
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["n_learned"] == 3000
    assert sum(summary["position"][topic].values()) == 3000
    assert summary["monitors"]["ROCAUC"] > 0.8
    origins = [json.loads(line)["origin"] for line in (folder / "predictions.jsonl").read_text().splitlines()]
    assert len(origins) == len(set(origins)) == 3000


@pytest.mark.kafka
def test_workers_of_the_kafka_group_take_turns(make_topic, real_kafka, tmp_path, monkeypatch):
    if real_kafka.client:
        pytest.skip("this broker wants more than an address")
    topic = make_topic(4)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KAFKA", real_kafka.bootstrap)
    text = (STREAMS / "kafka-group.toml").read_text().replace('topics = "sparse"', f'topics = "{topic}"')
    (tmp_path / "kafka-group.toml").write_text(text.replace('"sparse-classifier"', f'"{topic}"'))
    parameters = ["--param", "classification=true", "--param", "density=0.2", "--seed", "1", "--n", "2000"]
    assert main(["simulate", "SparseLinear", "--to", f"kafka://{real_kafka.bootstrap}/{topic}", *parameters]) == 0
    folder = tmp_path / "runs" / "kafka-group"
    learned = 0
    for limit in (800, 1200):  # one after the other: the second takes up what the first left
        assert main(["run", "kafka-group.toml", "--quiet", "--limit", str(limit)]) == 0
        summary = json.loads((folder / "worker-1" / "summary.json").read_text())
        learned += summary["n_learned"]
    assert learned == 2000
    assert sum(summary["position"].values()) == 2000
    assert len(list((folder / "states").rglob("*.state"))) == 4
    origins = [
        json.loads(line)["origin"] for line in (folder / "worker-1" / "predictions.jsonl").read_text().splitlines()
    ]
    assert len(origins) == len(set(origins)) == 2000
