"""The table [group] of a definition, and what a run of it does to its folder."""

from __future__ import annotations

import json

import pytest

from fwonline.cli import main
from fwonline.definition import load_definition
from fwonline.exceptions import DefinitionError, SourceError
from fwonline.loop import EventLoop, GroupLoop

pytest.importorskip("kafka")

GROUP = """
model = ["StandardScaler", { class = "FWClassifier", constraint = { class = "L1Ball", radius = 5.0 } }]
monitors = ["Accuracy"]
sinks = [{ class = "JSONLinesSink", path = "predictions.jsonl" }]
source = { class = "KafkaGroupSource", topics = "t", group = "g", target = "y", bootstrap_servers = "127.0.0.1:1" }
"""


@pytest.fixture
def load(tmp_path):
    def write_and_load(text):
        (tmp_path / "stream.toml").write_text(text)
        return load_definition(tmp_path / "stream.toml")

    return write_and_load


def test_a_table_group_makes_a_worker(load, tmp_path):
    definition = load(GROUP + '[group]\nstates = "kept"\nmerge_every = 5\n[run]\ncheckpoint_every = 2\n')
    assert definition.is_shared
    worker = definition.build_worker(tmp_path, shared=tmp_path / "all")
    assert isinstance(worker, GroupLoop)
    assert worker.states.path == tmp_path / "all" / "kept"
    assert worker.states.group == worker.source.group == "g"
    assert worker.sinks[0].append
    assert not worker.source.co_partitioned
    with pytest.raises(DefinitionError, match=r"a definition with a table \[group\] describes a worker"):
        definition.build(tmp_path)


def test_questions_and_answers_may_be_two_topics(load, tmp_path):
    two = GROUP.replace('topics = "t"', 'topics = ["q", "a"], co_partitioned = true, require_target = false')
    worker = load(two + "[group]\n[run]\nmax_early = 100\n").build_worker(tmp_path, shared=tmp_path)
    assert worker.source.topics == ("q", "a")
    assert worker.source.co_partitioned


def test_a_run_on_its_own_is_no_worker(load):
    definition = load('source = "Phishing"\nmodel = "LogisticRegression"\n')
    assert isinstance(definition.build(), EventLoop)
    with pytest.raises(DefinitionError, match=r"expected a table \[group\]"):
        definition.build_worker()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GROUP, r"the table \[group\] is missing: KafkaGroupSource shares a stream out among workers"),
        (
            'source = "Phishing"\nmodel = "LogisticRegression"\n[group]\n',
            "group: IterableSource is read by one process",
        ),
        (
            GROUP.replace("group =", 'co_partitioned = "yes", group =') + "[group]\n",
            "source.co_partitioned: expected true or false, found the string 'yes'",
        ),
        (
            GROUP.replace('topics = "t"', 'topics = ["t", "t"], co_partitioned = true') + "[group]\n",
            "topics: expected different ones, found t, t",
        ),
        (GROUP + "[group]\nmerge_evry = 1\n", "group.merge_evry: unknown key. Did you mean 'merge_every'?"),
        (GROUP + '[group]\nmerge_every = "often"\n', "group.merge_every: expected a number, found the string 'often'"),
        ("group = 3\n" + GROUP, "group: expected a table, found 3"),
        (
            GROUP.replace('"StandardScaler"', '"RobustScaler"') + "[group]\nmerge_every = 1\n",
            "RobustScaler has a state",
        ),
    ],
)
def test_mistakes_are_told_with_their_place(load, text, said):
    with pytest.raises(DefinitionError, match=said):
        load(text)


def test_a_run_that_finds_no_broker_says_so_and_leaves_a_workers_folder(load, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    load(GROUP.replace('group = "g"', 'group = "g", timeout = 0.2') + "[group]\n")
    assert main(["run", "stream.toml"]) == 1
    assert "t: no answer from 127.0.0.1:1 in 0.2 s" in capsys.readouterr().err
    worker = tmp_path / "runs" / "stream" / "worker-1"
    assert json.loads((worker / "summary.json").read_text())["state"] == "failed"


def test_another_definition_does_not_join(load, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = GROUP.replace('group = "g"', 'group = "g", timeout = 0.1') + "[group]\n"
    load(text)
    assert main(["run", "stream.toml", "--quiet"]) == 1
    load(text.replace("5.0", "6.0"))
    assert main(["run", "stream.toml", "--quiet"]) == 2
    said = capsys.readouterr().err
    assert "the definition is not the one this group was begun with" in said
    assert "model[1].constraint.radius: 5.0 before, 6.0 now" in said
    assert main(["run", "stream.toml", "--fresh"]) == 2
    assert "--fresh does not reset them" in capsys.readouterr().err


def test_what_a_group_decides_itself_is_not_set():
    from fwonline.stream import KafkaGroupSource

    with pytest.raises(ValueError, match="group: expected a name"):
        KafkaGroupSource("t", group="")
    with pytest.raises(ValueError, match="client: expected no 'partition_assignment_strategy'"):
        KafkaGroupSource("t", group="g", client={"partition_assignment_strategy": []})
    with pytest.raises(ValueError, match="client: 'group_id' is not set here"):
        KafkaGroupSource("t", group="g", client={"group_id": "other"})


def test_what_is_lost_is_told_before_the_brokers_are_asked():
    from kafka.structs import TopicPartition

    from fwonline.stream import KafkaGroupSource
    from fwonline.stream.group import PollResult

    class Consumer:
        def poll(self, timeout_ms):
            source._assignment.put({one})
            return {}

        def group_metadata(self):
            raise SourceError("the brokers say no")

    source, one = KafkaGroupSource("t", "127.0.0.1:1", group="g"), TopicPartition("t", 0)
    source._consumer, source._is_subscribed = Consumer(), True
    source._assigned, source._offsets = {"t[0]": (one,)}, {one: 3}
    assert source.poll() == PollResult(lost=True)
    with pytest.raises(SourceError, match="say no"):
        source.poll()


@pytest.mark.parametrize("now", [{}, {"generation_id": 4, "member_id": "m"}, {"generation_id": 5, "member_id": "n"}])
def test_nothing_is_committed_under_another_membership_or_none(now):
    from kafka.structs import ConsumerGroupMetadata, TopicPartition

    from fwonline.stream import KafkaGroupSource
    from fwonline.stream.group import CommittedOffsets, PartitionsLost

    class Consumer:
        def group_metadata(self):
            return ConsumerGroupMetadata("g", **now)

        def commit(self, *_, **__):
            pytest.fail("it was committed")

    source = KafkaGroupSource("t", "127.0.0.1:1", group="g")
    source._consumer = Consumer()
    source._assigned = {"t[0]": (TopicPartition("t", 0),)}
    member = {"generation_id": 5, "member_id": "m"} if now else {}
    source._member = ConsumerGroupMetadata("g", **member)
    with pytest.raises(PartitionsLost):
        source.commit({"t[0]": CommittedOffsets({"t[0]": 3}, "note")})
    assert source.lags() == {}  # all was let go
