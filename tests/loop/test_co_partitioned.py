"""Questions on one topic, answers on another, and a group: partitions of one number belong together."""

from __future__ import annotations

import contextlib
import json
import os
import time
from itertools import pairwise

import numpy as np
import pytest
from support.pair_worker import Pair, work

from fwonline.exceptions import CheckpointError, SourceError
from fwonline.loop import MergedModel, PartitionStates
from fwonline.stream import KafkaSource
from tools.soak.worker import CONTEXT

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(120)]

PARTITIONS = 4


@pytest.fixture
def pair(real_kafka, make_topic, tmp_path):
    topics = make_topic(PARTITIONS), make_topic(PARTITIONS)
    return Pair(topics, real_kafka.bootstrap, f"fwonline-test-pair-{os.urandom(4).hex()}", tmp_path)


@pytest.fixture
def hasty(monkeypatch):
    monkeypatch.setattr("fwonline.stream.kafka.group._REBALANCE", 0.3)


@contextlib.contextmanager
def producer(pair, **options):
    from kafka import KafkaProducer

    with contextlib.closing(KafkaProducer(bootstrap_servers=pair.bootstrap, acks="all", **options)) as client:
        yield client
        client.flush(30)


def write(pair, count, *, first=0, delay=0, seconds=0.0):
    """Write questions, and the answer of each when `delay` more were asked; the keys say which partition."""
    rng = np.random.default_rng(first)
    due, began = [], time.monotonic()
    with producer(pair) as client:

        def send(topic, time, key, fields):
            client.send(pair.topics[topic], key=key, value=json.dumps(fields).encode(), timestamp_ms=1000 * time)

        def answer(time, key, y):
            send(1, time, key, {"y": y})

        for i in range(first, first + count):
            a, b = rng.normal(size=2).round(6)
            key = f"k{i}".encode()
            send(0, i, key, {"id": i, "a": a, "b": b})
            due.append((key, bool(a > b)))
            if len(due) > delay:
                answer(i, *due.pop(0))
            time.sleep(max(0.0, began + (i - first) * seconds / count - time.monotonic()))
        for key, y in due:
            answer(first + count, key, y)


def learn(pair, **options):
    """Let a worker in this process learn what is there."""
    with pair.source(end="latest") as source:
        return pair.worker(source, **options).run()


def places(pair):
    with pair.source() as source:
        return source.committed()


def books(pair):
    """What the states that count say: samples learned, the sum of their ids, and what was joined wrongly."""
    states = PartitionStates(pair.states, pair.group)
    found = [states.read(name, place.metadata) for name, place in places(pair).items()]
    ledgers = [state["monitors"][0] for state in found]
    assert all(state["position"] == place.offsets for state, place in zip(found, places(pair).values(), strict=True))
    wrong = sum(ledger.wrong for ledger in ledgers) + sum(state["counts"]["n_unmatched"] for state in found)
    return sum(ledger.count for ledger in ledgers), sum(ledger.total for ledger in ledgers), wrong


def predicted(pair):
    source = KafkaSource(
        pair.out, pair.bootstrap, end="latest", gaps="allow", client={"isolation_level": "read_committed"}
    )
    with source:
        return [item.x for item in source]


@pytest.mark.parametrize("transactional", [False, True])
def test_each_answer_meets_its_question_once_though_workers_die_and_come(pair, make_topic, transactional):
    pair = Pair(
        pair.topics, pair.bootstrap, pair.group, pair.states, make_topic(), options={"transactional": transactional}
    )
    count = 240
    running = [CONTEXT.Event() for _ in range(3)]
    workers = [CONTEXT.Process(target=work, args=(pair, event), daemon=True) for event in running]
    try:
        for worker in workers[:2]:
            worker.start()
        write(pair, count // 2, delay=15, seconds=1.5)
        workers[0].kill()
        workers[2].start()
        write(pair, count - count // 2, first=count // 2, delay=15, seconds=1.5)
        with pair.source() as source:
            deadline = time.monotonic() + 60
            while sum(place.total_offset for place in source.committed().values()) < 2 * count:
                assert time.monotonic() < deadline, source.committed()
                assert all(worker.is_alive() for worker in workers[1:])
                time.sleep(0.1)
        for worker, event in zip(workers[1:], running[1:], strict=True):
            assert event.wait(60)
            worker.terminate()
            worker.join(15)
            assert worker.exitcode == 0
    finally:
        for worker in workers:
            if worker.pid is not None:
                worker.kill()

    assert books(pair) == (count, count * (count - 1) // 2, 0)
    records = predicted(pair)
    assert {record["key"] for record in records} == {f"k{i}" for i in range(count)}
    assert all(record["origin"].startswith(pair.topics[0]) for record in records)
    if transactional:
        assert len(records) == count


def test_a_run_to_the_end_and_the_next_one_goes_on(pair):
    questions, answers = pair.topics
    write(pair, 40, delay=40)
    seen = []
    with pair.source(end="latest") as source:
        loop = pair.worker(source, merge_every=0.1)
        learn_partition, poll = loop._learn, source.poll

        def looked():
            seen.append([])
            return poll()

        def noted(items):  # one by one: a checkpoint amid them is of those that were taken
            for item in items:
                seen[-1].append(item.origin.rpartition("[")[0])
                yield item

        def fed(partition, items, *rest):
            learn_partition(partition, noted(items), *rest)

        source.poll, loop._learn = looked, fed
        summary = loop.run()
        assert source.progress == 1.0
        lags = source.lags()
    assert (summary.n, summary.n_predicted, summary.n_learned, summary.n_pending) == (80, 40, 40, 0)
    assert all(earlier <= later for look in seen for earlier, later in pairwise(map(pair.topics.index, look)))
    names = [f"{topic}[{number}]" for number in range(PARTITIONS) for topic in pair.topics]
    assert lags == dict.fromkeys(names, 0)
    assert summary.position.keys() == set(names)
    assert books(pair) == (40, 780, 0)

    folders = sorted(path.name for path in (pair.states / pair.group).iterdir())
    assert folders == [f"{questions}%2B{answers}-{number}" for number in range(PARTITIONS)]

    write(pair, 10, first=40)
    assert learn(pair).n_learned == 10
    assert books(pair) == (50, 1225, 0)

    serving = MergedModel(pair.source(), PartitionStates(pair.states, pair.group))
    assert serving.refresh()
    assert (serving.n_partitions, serving.model["FWClassifier"].n_samples) == (PARTITIONS, 50)
    serving._source.close()


def test_no_topic_runs_ahead_while_there_is_much_to_catch_up_with(pair):
    write(pair, 1000, delay=40)
    with pair.source(end="latest", client={"max_poll_records": 20}) as source:
        summary = pair.worker(source, max_early=20, max_pending=80).run()
    assert (summary.n_learned, summary.n_unmatched, summary.n_expired) == (1000, 0, 0)
    assert books(pair) == (1000, 499_500, 0)


def test_topics_written_by_transactions_have_gaps_and_an_end(pair):
    with producer(pair, transactional_id=pair.group) as client:
        client.init_transactions()
        for i in range(20):
            client.begin_transaction()
            for topic, fields in enumerate(({"id": i, "a": i % 3, "b": 1.5}, {"y": i % 3 > 1.5})):
                client.send(pair.topics[topic], key=b"k%d" % i, value=json.dumps(fields).encode())
            client.commit_transaction()
    with pair.source(end="latest", gaps="allow", client={"isolation_level": "read_committed"}) as source:
        assert pair.worker(source).run().n_learned == 20
        assert not any(source.lags().values())
    assert books(pair) == (20, 190, 0)


def test_models_travel_by_the_name_of_what_belongs_together(pair, make_topic):
    write(pair, 20)
    learn(pair, merge_every=0.1, merge_topic=make_topic(cleanup_policy="compact"))
    assert books(pair) == (20, 190, 0)


def test_the_ends_of_the_topics_are_where_a_late_group_begins(pair):
    write(pair, 20)
    with pair.source(start="latest", end="latest") as source:
        assert pair.worker(source).run().n == 0
    assert all(place.metadata == PartitionStates.beginning(place.offsets) for place in places(pair).values())
    write(pair, 20, first=20)
    assert learn(pair).n_learned == 20
    assert books(pair) == (20, 590, 0)


@pytest.mark.usefixtures("hasty")
def test_a_transaction_that_the_brokers_have_ended_is_begun_anew(pair, make_topic):
    from kafka import KafkaProducer

    write(pair, 30)
    pair = Pair(pair.topics, pair.bootstrap, pair.group, pair.states, make_topic())
    with pair.source(end="latest", client={"max_poll_records": 5}) as source:
        loop = pair.worker(source, transactional=True, checkpoint_every=None, checkpoint_samples=40)
        poll, ended = source.poll, []

        def and_end():
            if loop.counts.n >= 15 and not ended:  # as with one that takes too long
                ended.append(source._transaction._producer.config["transactional_id"])
                with contextlib.closing(
                    KafkaProducer(bootstrap_servers=pair.bootstrap, transactional_id=ended[0])
                ) as other:
                    other.init_transactions()
            return poll()

        source.poll = and_end
        summary = loop.run()
    assert ended
    assert summary.n > 60
    assert books(pair) == (30, 435, 0)
    assert len(predicted(pair)) == 30


# -- what is refused


def test_topics_of_different_sizes_are_refused(pair, make_topic):
    other = make_topic(2)
    uneven = Pair((pair.topics[0], other), pair.bootstrap, pair.group, pair.states)
    with pytest.raises(SourceError, match=rf"expected topics .*, found {pair.topics[0]} with 4, {other} with 2"):
        learn(uneven)
    assert not list(pair.states.iterdir())


@pytest.mark.usefixtures("hasty")
def test_a_topic_that_grows_alone_ends_the_stream_until_the_other_follows(pair, real_kafka):
    from kafka.admin import NewPartitions

    write(pair, 20)
    with pair.source(timeout=1.0, client={"metadata_max_age_ms": 300}) as source:
        loop = pair.worker(source)
        poll, grown = source.poll, []

        def and_grow():
            if loop.counts.n == 40 and not grown:
                with contextlib.closing(real_kafka.admin()) as admin:
                    admin.create_partitions({pair.topics[0]: NewPartitions(total_count=5)})
                grown.append(True)
            return poll()

        source.poll = and_grow
        with pytest.raises(SourceError, match=f"found {pair.topics[0]} with 5, {pair.topics[1]} with 4"):
            loop.run()
    assert grown
    with contextlib.closing(real_kafka.admin()) as admin:
        admin.create_partitions({pair.topics[1]: NewPartitions(total_count=5)})
    write(pair, 20, first=20)
    assert learn(pair).n_learned >= 20
    assert books(pair)[:2] == (40, 780)


def test_offsets_of_one_topic_set_by_hand_are_refused(pair, real_kafka):
    from kafka.structs import OffsetAndMetadata, TopicPartition

    write(pair, 20)
    learn(pair)
    before = books(pair)
    with contextlib.closing(real_kafka.admin()) as admin:
        admin.alter_group_offsets(pair.group, {TopicPartition(pair.topics[1], 2): OffsetAndMetadata(0, "", -1)})
    for one in (learn, places):
        with pytest.raises(SourceError, match=r"\[2\]: expected the same metadata with the group's offsets, found"):
            one(pair)
    with contextlib.closing(real_kafka.admin()) as admin:  # as if all had been set
        told = admin.list_group_offsets(pair.group)[pair.group]
        admin.alter_group_offsets(pair.group, {tp: OffsetAndMetadata(0, "", -1) for tp in told})
    with pytest.raises(CheckpointError, match="the offset was set by something else"):
        learn(pair)
    assert before == (20, 190, 0)


def test_a_topic_that_was_made_anew_is_refused_with_both_offsets_where_they_were(pair, real_kafka):
    write(pair, 20)
    learn(pair)
    with contextlib.closing(real_kafka.admin()) as admin:
        told = admin.list_group_offsets(pair.group)[pair.group]
        real_kafka.delete_topic(pair.topics[1])
        while pair.topics[1] in admin.list_topics():
            time.sleep(0.05)
        real_kafka.create_topic(pair.topics[1], PARTITIONS)
        write(pair, 100, first=100)
        admin.alter_group_offsets(pair.group, told)  # as of a member that committed behind the deletion
    with pytest.raises(SourceError, match=rf"^{pair.topics[1]}: this is not the topic .* another group, or del"):
        learn(pair)
    assert {place.metadata for place in places(pair).values()} == {offset.metadata for offset in told.values()}


def test_offsets_moved_with_their_notes_are_refused(pair, real_kafka):
    from kafka.structs import OffsetAndMetadata, TopicPartition

    write(pair, 40)
    learn(pair)
    number = 2
    with contextlib.closing(real_kafka.admin()) as admin:
        tps = [TopicPartition(topic, number) for topic in pair.topics]
        told = admin.list_group_offsets(pair.group)[pair.group]
        moved = {tp: OffsetAndMetadata(told[tp].offset - 1, told[tp].metadata, -1) for tp in tps}
        admin.alter_group_offsets(pair.group, moved)
    with pytest.raises(CheckpointError, match=rf"\[{number}\]: the group's offset is .*, and the note beside it is of"):
        learn(pair)


def test_a_group_that_was_not_co_partitioned_is_refused(pair):
    write(pair, 20)
    with pair.source(co_partitioned=False, end="latest") as source:
        pair.worker(source).run()
    with pytest.raises(SourceError, match="or are of a group that was not co_partitioned"):
        learn(pair)


@pytest.fixture
def stranger(pair):
    """A member of the group that somebody else has written."""
    from kafka import KafkaConsumer

    @contextlib.contextmanager
    def stranger(*topics, **options):
        options = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 200, "enable_auto_commit": False, **options}
        # Who leads a group and has not heard of its partitions yet gives nobody any, until it hears of them.
        options["metadata_max_age_ms"] = 300
        with contextlib.closing(KafkaConsumer(bootstrap_servers=pair.bootstrap, group_id=pair.group, **options)) as one:
            one.subscribe(topics)
            while not one.assignment():
                one.poll(100)
            yield one

    return stranger


@pytest.mark.usefixtures("hasty")
def test_a_partition_torn_apart_is_refused_and_not_learned(pair, stranger):
    write(pair, 20)
    with stranger(pair.topics[0]) as other, pair.source(timeout=1.0, patience=5.0) as source:
        loop, poll = pair.worker(source), source.poll

        def both():
            other.poll(0)
            return poll()

        source.poll = both
        with pytest.raises(
            SourceError, match=rf"was given a part of .*\+.*, without {pair.topics[0]}\[\d\]: some member"
        ):
            loop.run()
        assert loop.counts.n == 0
    assert not list(pair.states.iterdir())


def test_a_group_that_shares_out_in_another_way_is_refused(pair, stranger):
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

    with (
        stranger(*pair.topics, partition_assignment_strategy=[RoundRobinPartitionAssignor]),
        pair.source(patience=5.0) as source,
        pytest.raises(SourceError, match="has members that share out partitions in another way"),
    ):
        pair.worker(source).run()
