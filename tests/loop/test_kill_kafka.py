"""kill -9 at any moment, on a Kafka topic: every message is learned once, and the model is the same to the bit."""

import json
import multiprocessing
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from river import metrics, preprocessing
from support.loop_worker import result

from fwonline import optim, sets
from fwonline.linear_model import FWClassifier
from fwonline.loop import EventLoop
from fwonline.monitors import Gap, Metric
from fwonline.stream import JSONLinesSink, KafkaSink, KafkaSource

# Half a minute on a machine of its own; much longer where two cores are shared with much else.
pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]

MANY = 6_000
# Children come from a clean process that has imported everything: no broker's threads, and no time lost to imports.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload([__name__])


def make_loop(folder: Path, topic: str, bootstrap: str, client: dict, **options) -> EventLoop:
    model = preprocessing.StandardScaler() | FWClassifier(
        sets.L1Ball(5.0), optim.SFW(50, steps_per_sample=3), seed=1, intercept=False
    )
    return EventLoop(
        KafkaSource(topic, bootstrap, target="y", key="id", end="latest", client=client),
        model,
        [Metric(metrics.Accuracy()), Gap(every=100)],
        [JSONLinesSink(folder / "predictions.jsonl")],
        checkpoint=folder / "run.ckpt",
        checkpoint_samples=50,
        **options,
    )


def work(folder: Path, topic: str, bootstrap: str, client: dict) -> None:
    """Learn to the end of the topic, or until killed; the end leaves a file `result`."""
    loop = make_loop(folder, topic, bootstrap, client)
    loop.run()
    for sink in loop.sinks:
        sink.close()
    (folder / "result.new").write_bytes(result(loop))
    os.replace(folder / "result.new", folder / "result")


@pytest.mark.parametrize(("partitions", "times"), [(1, 20), (3, 6)])
def test_killed_at_random_moments(kafka, make_topic, tmp_path, partitions, times):
    topic, rng = make_topic(partitions), np.random.default_rng(17)
    with KafkaSink(topic, kafka.bootstrap, key="id", client=kafka.client) as sink:
        for i in range(MANY):
            a, b = rng.normal(size=2)
            sink.write({"id": i, "a": a, "b": b, "y": bool(a > b)})
    job = (topic, kafka.bootstrap, kafka.consumer)

    whole = tmp_path / "whole"
    whole.mkdir()
    work(whole, *job)

    kills = rounds = 0
    while kills < times:
        folder = tmp_path / f"killed{rounds}"
        folder.mkdir()
        rounds += 1
        while not (folder / "result").exists():
            process = CONTEXT.Process(target=work, args=(folder, *job))
            process.start()
            checkpoint = folder / "run.ckpt"
            before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
            deadline = time.monotonic() + 60
            # A moment counts from when the learner has gone on: its connection takes longer than its learning.
            while process.is_alive() and (not checkpoint.exists() or checkpoint.stat().st_mtime_ns == before):
                assert time.monotonic() < deadline, "the learner did not go on"
                time.sleep(0.001)
            time.sleep(rng.uniform(0.0, 0.05))
            process.kill()
            process.join()
            assert process.exitcode in (0, -signal.SIGKILL)
            kills += process.exitcode != 0
        lines = [json.loads(line) for line in (folder / "predictions.jsonl").read_text().splitlines()]
        keys = [line["key"] for line in lines]
        assert len(keys) == MANY
        assert sum(map(int, keys)) == MANY * (MANY - 1) // 2
        if partitions == 1:  # the order of messages is a partition's own
            assert (folder / "result").read_bytes() == (whole / "result").read_bytes()
            assert (folder / "predictions.jsonl").read_bytes() == (whole / "predictions.jsonl").read_bytes()
