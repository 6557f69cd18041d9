"""Every message is learned once, however often the learner is killed."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fwonline.stream import KafkaSink

pytestmark = pytest.mark.kafka

_LEARNER = Path(__file__).with_name("kafka_learner.py")


@pytest.mark.slow
def test_killed_at_random_points_it_learns_every_message_once(kafka, make_topic, tmp_path):
    topic, path, rng, many = make_topic(3), tmp_path / "state.json", random.Random(17), 30_000
    with KafkaSink(topic, kafka.bootstrap, key="id", client=kafka.client) as sink:
        for i in range(many):
            sink.write({"id": i})
    command = [sys.executable, str(_LEARNER), topic, kafka.bootstrap, repr(kafka.consumer), str(path)]

    kills, learned_at_kills = 0, []
    while kills < 20 and learned(path)["n"] < many:
        before = learned(path)["n"]
        process = subprocess.Popen(command)
        try:
            # A kill counts from the moment the learner learns; its start takes far longer than a step of it.
            wait_for_progress(path, before, process)
            time.sleep(rng.uniform(0.0, 0.08))
        finally:
            process.kill()
            process.wait()
        kills += 1
        learned_at_kills.append(learned(path)["n"])

    process = subprocess.Popen(command)
    try:
        deadline = time.monotonic() + 60
        while learned(path)["n"] < many and time.monotonic() < deadline:
            assert process.poll() is None
            time.sleep(0.05)
        time.sleep(0.5)  # time for a message too many
    finally:
        process.kill()
        process.wait()

    assert kills == 20
    assert learned_at_kills[-1] < many
    assert learned(path)["n"] == many
    assert learned(path)["sum"] == many * (many - 1) // 2
    assert sum(learned(path)["position"][topic].values()) == many


def learned(path: Path) -> dict:
    return json.loads(path.read_text()) if path.exists() else {"n": 0, "sum": 0}


def wait_for_progress(path: Path, before: int, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 30
    while learned(path)["n"] == before:
        assert process.poll() is None, "the learner ended by itself"
        assert time.monotonic() < deadline, "the learner did not go on"
        time.sleep(0.005)
