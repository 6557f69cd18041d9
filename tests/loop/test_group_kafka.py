"""A group of workers on a real topic, through deaths, frozen workers and rebalances: `tools.soak`, made small."""

from __future__ import annotations

import contextlib
import os
import time

import pytest

from fwonline.loop import GroupLoop
from fwonline.stream import CallbackSink, KafkaGroupSource, KafkaSink
from tools.kafka import RealCluster
from tools.soak import trials
from tools.soak.trial import Trial
from tools.soak.worker import make_model, make_monitors

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]


@pytest.fixture
def trial(real_kafka, tmp_path):
    with Trial(real_kafka, tmp_path, f"fwonline-test-group-{os.getpid()}-{os.urandom(3).hex()}", seed=3) as trial:
        trial.watch()
        yield trial


def stand_still(trial):
    """The longest time without a commit beyond what Kafka itself waits for.

    Two seconds are promised, which `tools.soak` asks for; here other tests take the machine's time meanwhile.
    """
    assert trial.stills
    assert all(0.0 <= still.beyond <= still.seconds for still in trial.stills)
    return max(still.beyond for still in trial.stills)


def agree(trial, replays=4):
    books = trial.check(replays)
    assert books["learned"] == books["samples"]
    assert books["sum learned"] == books["sum of ids"]
    assert books["replays the same"] == f"{replays} of {replays}"
    assert books["files left"] == trial.partitions


@pytest.mark.slow
def test_workers_killed_at_random_moments_lose_and_double_nothing(trial):
    trials.kill(trial, kills=2, samples=800, pause=0.6, say=print)
    agree(trial)
    assert stand_still(trial) < 6.0


@pytest.mark.slow
def test_a_frozen_worker_wakes_up_and_does_no_harm(trial):
    trials.freeze(trial, times=1, samples=600, say=print)
    agree(trial, replays=1)
    assert stand_still(trial) < 6.0


@pytest.mark.slow
def test_workers_join_and_leave(trial):
    trials.rebalance(trial, times=2, samples=400, say=print)
    agree(trial, replays=1)
    assert stand_still(trial) < 6.0


@pytest.mark.slow
def test_a_slow_sink_costs_no_membership(trial):
    trial.write(80)
    client = {**trial.job.client, "session_timeout_ms": 6000, "max_poll_interval_ms": 2500}
    source = KafkaGroupSource(
        trial.job.topic, trial.job.bootstrap, "y", group=trial.job.group, end="latest", client=client
    )
    sink = CallbackSink(lambda record: time.sleep(0.045))  # one look at the stream brings 3.6 s of work
    with source:
        summary = GroupLoop(source, make_model(), make_monitors(), [sink], states=trial.job.states).run()
    assert summary.n == 80  # none was taken away and taken again
    agree(trial, replays=1)


@pytest.mark.slow
def test_with_transactions_predictions_come_once_to_who_reads_what_is_committed(real_kafka, tmp_path):
    name = f"fwonline-test-group-{os.getpid()}-{os.urandom(3).hex()}"
    with Trial(real_kafka, tmp_path, name, seed=4, predictions=True, transactional=True) as trial:
        trials.kill(trial, kills=1, samples=200, pause=0.5, say=print)
        agree(trial, replays=1)
        origins = trial.predicted()
    assert len(origins) == len(set(origins)) == 200


@pytest.mark.slow
def test_brokers_fall_and_transactions_go_on(real_kafka, tmp_path):
    with (
        RealCluster(3) as cluster,
        Trial(cluster, tmp_path, "three-nodes", seed=5, predictions=True, transactional=True) as trial,
    ):
        trial.watch()
        trials.nodes(trial, seconds=4.0, samples=600, say=print)
        agree(trial, replays=1)
        origins = trial.predicted()
        assert stand_still(trial) < 6.0
    assert len(origins) == len(set(origins)) == 600


@pytest.mark.slow
def test_who_is_told_to_go_does_not_wait_for_brokers_that_are_away(real_kafka, tmp_path):
    with (
        RealCluster(1) as cluster,
        Trial(cluster, tmp_path, "away", seed=6, predictions=True, transactional=True) as trial,
    ):
        trial.write(20_000)
        worker = trial.start()
        while not sum(trial.learned()):
            trial.look_after()
        cluster.kill_node(0)
        told = time.monotonic()
        worker.end()
        assert worker.join(20)
        assert time.monotonic() - told < 8.0  # three seconds for what may be saved, and what it takes to end


def test_a_transaction_wants_sinks_at_the_same_brokers(tmp_path):
    source = KafkaGroupSource("t", "127.0.0.1:1", group="g")
    for sink in (CallbackSink(print), KafkaSink("out", "127.0.0.1:2")):
        with pytest.raises(
            ValueError, match=r"transactional: expected sinks that write to Kafka at 127.0.0.1:1, found"
        ):
            GroupLoop(source, make_model(), sinks=[sink], states=tmp_path, transactional=True)


def test_the_latest_document_of_each_partition_is_had_from_a_compacted_topic(real_kafka, make_topic):
    from fwonline.exceptions import SourceError

    topic = make_topic(2, cleanup_policy="compact")
    source = KafkaGroupSource("t", real_kafka.bootstrap, group="g", client=dict(real_kafka.consumer))
    one, other = source.merge_topic(topic), source.merge_topic(topic)
    try:
        assert other.latest() == {}
        one.publish("t[0]", 10, b"ten")
        one.publish("t[1]", 7, b"seven")
        one.publish("t[0]", 20, b"twenty")
        one.publish("t[0]", 15, b"said too late")
        assert other.latest() == {"t[0]": (20, b"twenty"), "t[1]": (7, b"seven")}
        with pytest.raises(SourceError, match=rf"{topic}: the model of t\[1\] was not taken: .*TOO_LARGE|TooLarge"):
            one.publish("t[1]", 8, os.urandom(3_000_000))
        assert other.latest()["t[1]"] == (7, b"seven")
    finally:
        one.close()
        other.close()
    with pytest.raises(SourceError, match="has no topic fwonline-none: merge_topic must be there"):
        source.merge_topic("fwonline-none").latest()


def test_what_is_forged_on_the_topic_of_models_is_refused_and_counted(real_kafka, make_topic):
    from kafka import KafkaProducer

    stream, pair, models = make_topic(2), make_topic(2), make_topic(1)
    with contextlib.closing(KafkaProducer(bootstrap_servers=real_kafka.bootstrap.split(","))) as producer:
        for number in range(5):
            producer.send(stream, value=b"%d" % number, partition=0)
            producer.send(pair, value=b"%d" % number, partition=0)

        def show(key, offset, document=b"forged"):
            headers = [] if offset is None else [("offset", offset)]
            producer.send(models, key=key, value=document, headers=headers)
            producer.flush(10)

        alone = KafkaGroupSource(stream, real_kafka.bootstrap, group="g", client=dict(real_kafka.consumer))
        both = KafkaGroupSource(
            [stream, pair], real_kafka.bootstrap, group="g", client=dict(real_kafka.consumer), co_partitioned=True
        )
        first, together = f"{stream}[0]".encode(), f"{stream}+{pair}[0]".encode()
        with (
            contextlib.closing(alone.merge_topic(models)) as one,
            contextlib.closing(both.merge_topic(models)) as other,
        ):
            show(first, b"3", b"three")
            show(together, b"7", b"seven")
            assert one.latest() == {first.decode(): (3, b"three")}
            assert other.latest() == {together.decode(): (7, b"seven")}
            assert (one.n_refused, other.n_refused) == (1, 1)  # each takes the other's for a stranger's
            forged = [
                (first, b"9" * 5000, "expected an offset in the header"),
                (first, b"9" * 19, "ends at 5, and the header says"),
                (first, b"6", "ends at 5, and the header says offset 6"),
                (first, b"-1", "expected an offset"),
                (first, b"\xd9\xa3", "expected an offset"),  # a digit, and none of these
                (first, None, "expected an offset"),
                (f"{stream}[2]".encode(), b"0", "is no partition of what the group reads"),
                (f"{stream}[00]".encode(), b"0", "expected a partition of"),
                (f"{stream}[{'9' * 5000}]".encode(), b"0", "expected a partition of"),
                (b"elsewhere[0]", b"0", "expected a partition of"),
                (b"\xff\xfe", b"0", "expected a partition of"),
                (None, b"0", "expected a partition of"),
            ]
            for key, offset, said in forged:
                before = one.n_refused
                show(key, offset)
                assert one.latest() == {first.decode(): (3, b"three")}
                assert one.n_refused == before + 1
                assert said in one.refusal
                assert len(one.refusal) < 300
            show(together, b"11")
            assert other.latest() == {together.decode(): (7, b"seven")}
            assert "ends at 10, and the header says offset 11" in other.refusal
            show(first, b"5", b"five")
            assert one.latest() == {first.decode(): (5, b"five")}
            n_refused = one.n_refused
            one._disconnect()  # reads all of it once more, and counts nothing twice
            assert one.latest() == {first.decode(): (5, b"five")}
            assert one.n_refused == n_refused
            with contextlib.closing(real_kafka.admin()) as admin:
                admin.create_partitions({stream: 3})
            deadline = time.monotonic() + 10
            while f"{stream}[2]" not in one.latest() and time.monotonic() < deadline:
                show(f"{stream}[2]".encode(), b"0", b"new")
            assert one.latest()[f"{stream}[2]"] == (0, b"new")
