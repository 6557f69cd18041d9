"""The long trials, made small: they find what they look for, and they say how it went."""

from __future__ import annotations

import os

import pytest

from fwonline.loop import GroupLoop
from tools.soak import cli, poison, speed
from tools.soak.trial import Trial
from tools.soak.worker import make_model, make_monitors

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]


@pytest.fixture
def name():
    return f"fwonline-test-soak-{os.getpid()}-{os.urandom(3).hex()}"


@pytest.mark.slow
def test_poison_is_kept_whole_and_the_model_is_the_clean_one(real_kafka, name):
    figures = poison.poison(real_kafka, name, samples=1300)
    assert figures["ok"]
    assert figures["kinds"] == len(poison.POISON) == 12
    assert figures["rejected"] == figures["dead letters whole"] == figures["poison"] >= 12


@pytest.mark.slow
def test_speed_and_memory_are_measured(real_kafka, name, tmp_path):
    said = []
    figures = speed.throughput(real_kafka, tmp_path, name, 300, 1, said.append)
    assert figures["messages"] == 300
    assert 180 <= figures["bytes each"] <= 220
    assert len(said) == 1
    figures = speed.memory(real_kafka, tmp_path / "m", f"{name}-m", 500, said.append)
    assert figures["messages"] == 500
    assert figures["ok"] in (True, False)


def test_a_bounded_group_ends_by_itself_and_the_books_find_what_is_missing(real_kafka, name, tmp_path):
    with Trial(real_kafka, tmp_path, name) as trial:
        trial.write(40)
        with trial.job.source("latest") as source:
            summary = GroupLoop(source, make_model(), make_monitors(), states=trial.job.states).run()
        assert summary.n >= 40  # what was not committed before a rebalance is taken again
        assert not summary.interrupted
        assert trial.check()["ok"]
        trial.written[0] += 1
        assert not trial.check(0)["ok"]
        trial.written[0] -= 1
        trial.total += 1
        assert not trial.check(0)["ok"]


@pytest.mark.parametrize(("passed", "code", "word"), [(True, 0, "PASS"), (False, 1, "FAIL")])
def test_the_command_prints_a_table_and_its_verdict(monkeypatch, capsys, kafka, passed, code, word):
    class Broker:
        description = "a broker"

        def __enter__(self):
            return self

        def __exit__(self, *exc_info):
            pass

    monkeypatch.setattr(cli, "start_cluster", Broker)
    monkeypatch.setattr(poison, "poison", lambda *_: {"samples": 12345, "kinds": "twelve", "ok": passed})
    assert cli.main(["--seed", "7", "poison", "--samples", "12345"]) == code
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "poison on a broker, seed 7"
    assert shown[1].split() == ["samples", "12,345"]
    assert shown[-1] == word
