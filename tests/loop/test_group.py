"""A worker of a group: what is learned belongs to partitions, and only what was committed has happened."""

from __future__ import annotations

import re
import shutil

import pytest
from river import compose, metrics, preprocessing
from support.shared_fake import CommittedOffsets, Group, Member, PartitionsLost, samples

from fwonline import sets
from fwonline.checkpoint import codec
from fwonline.exceptions import CheckpointError, SampleError, SourceError
from fwonline.linear_model import FWClassifier
from fwonline.loop import EventLoop, GroupLoop, MergedModel, Observer, PartitionStates
from fwonline.monitors import Metric
from fwonline.stream import CallbackSink, Rejected


def model(radius=3.0):
    return (
        compose.Discard("id")
        | preprocessing.StandardScaler()
        | FWClassifier(sets.L1Ball(radius), seed=1, intercept=False)
    )


@pytest.fixture
def worker(tmp_path):
    def worker(source, **options):
        options = {"states": tmp_path, "checkpoint_samples": 10, **options}
        return GroupLoop(source, options.pop("model", model()), [Metric(metrics.Accuracy())], **options)

    return worker


@pytest.fixture
def states(tmp_path):
    return PartitionStates(tmp_path, "g")


def committed(group, states, partition="t[0]"):
    place = group.places[partition]
    state = states.read(partition, place.metadata)
    assert state["position"] == place.offsets
    assert place.total_offset == state["counts"]["n"]
    return state


def committed_offset(group, states, partition="t[0]"):
    place = group.places[partition]
    assert states.read(partition, place.metadata)["position"] == place.offsets
    return place.total_offset


def replayed(items):
    loop = EventLoop([(item.x, item.y) for item in items], model(), [Metric(metrics.Accuracy())])
    loop.run()
    return codec.dumps(codec.loads(codec.dumps((loop.model, loop.monitors))))


def learned(state):
    return codec.dumps((state["model"], state["monitors"]))


def test_each_partition_learns_its_own_samples_and_nothing_else(worker, states):
    items = samples(30), samples(25, 100)
    group = Group(p0=items[0], p1=items[1])
    member = Member(group, ("gain", "t[0]", "t[1]"), ("read", "t[0]", 12), ("read", "t[1]", 25), ("read", "t[0]", 18))

    summary = worker(member).run()

    assert (summary.n, summary.n_learned, summary.interrupted) == (55, 55, False)
    assert summary.position == {"t[0]": 30, "t[1]": 25}
    for k, partition in enumerate(("t[0]", "t[1]")):
        assert learned(committed(group, states, partition)) == replayed(items[k])
        assert len(states.files(partition)) == 1


def test_what_was_not_committed_is_forgotten_with_the_partition(worker, states):
    group = Group(p0=samples(40))

    def elsewhere():
        worker(Member(group, ("gain", "t[0]"), ("read", "t[0]", 15))).run()

    member = Member(
        group,
        ("gain", "t[0]"),
        ("read", "t[0]", 10),  # committed
        ("read", "t[0]", 7),  # not
        ("lose",),
        (elsewhere,),  # 15 samples behind the 10
        ("gain", "t[0]"),
        ("read", "t[0]", 15),
    )

    summary = worker(member).run()

    assert summary.n == 32  # 7 of them for nothing
    state = committed(group, states)
    assert state["counts"]["n_learned"] == 40
    assert learned(state) == replayed(samples(40))


@pytest.fixture
def restless(monkeypatch):
    monkeypatch.setattr("fwonline.loop.group.group_loop._LOOK", 0.0)


def test_a_rebalance_makes_the_worker_commit_and_poll_at_once(worker, states, restless):
    group = Group(p0=samples(40), p1=samples(40, first=40))
    member = Member(group, ("gain", "t[0]", "t[1]"), ("read", "t[0]", 20))
    member.calls.extend([False, True])
    seen = []

    def look():
        seen.append((member.offsets["t[0]"], group.places["t[0]"].total_offset))
        member.script.append(("read", "t[0]", 40 - member.offsets["t[0]"]))

    member.script.append((look,))

    summary = worker(member).run()

    ((taken, committed_then),) = seen
    assert 1 < taken == committed_then < 20  # it had not taken all that there was
    assert summary.n == 40
    assert learned(committed(group, states)) == replayed(samples(40))


def test_a_checkpoint_amid_a_turn_finds_that_the_rest_is_somebody_elses(worker, states, restless):
    group = Group(p0=samples(40))

    def elsewhere():
        worker(Member(group, ("gain", "t[0]"), ("read", "t[0]", 20))).run()

    member = Member(group, ("gain", "t[0]"), (elsewhere,), ("read", "t[0]", 8), ("gain", "t[0]"), ("read", "t[0]", 20))
    summary = worker(member, checkpoint_samples=3).run()

    # Three were learned in vain, or a few more where the clock is looked at later, and the rest was not begun.
    assert 3 <= summary.n - 20 < 8
    assert learned(committed(group, states)) == replayed(samples(40))


def test_a_worker_that_slept_cannot_commit_and_begins_where_the_others_are(worker, states):
    group = Group(p0=samples(40))

    def elsewhere():  # while this worker is frozen: its partition is given away, and it is not told
        worker(Member(group, ("gain", "t[0]"), ("read", "t[0]", 20))).run()

    member = Member(group, ("gain", "t[0]"), ("read", "t[0]", 5), (elsewhere,), ("read", "t[0]", 8), ("gain", "t[0]"))
    member.script.append(("read", "t[0]", 20))

    worker(member).run()

    assert committed(group, states)["counts"]["n_learned"] == 40
    assert learned(committed(group, states)) == replayed(samples(40))
    assert len(states.files("t[0]")) == 1


def test_a_file_stays_until_a_later_commit_is_known(worker, states):
    group = Group(p0=samples(30))
    member = Member(group, ("gain", "t[0]"), ("read", "t[0]", 10), ("read", "t[0]", 10))
    member.answers.extend([True, True, False])  # the beginning, the first ten, and nobody knows
    files = []
    member.script.append((lambda: files.append(len(states.files("t[0]"))),))
    member.script.append(("read", "t[0]", 10))

    worker(member).run()

    assert files == [2]
    assert len(states.files("t[0]")) == 1
    assert learned(committed(group, states)) == replayed(samples(30))


def test_a_beginning_is_committed_before_anything_is_learned(worker, states):
    group = Group(p0=samples(20))
    member = Member(group, ("gain", "t[0]"), ("read", "t[0]", 10))
    member.answers.extend([False, False, True, PartitionsLost])  # nobody knows, nobody knows, known; then given away
    worker(member).run()
    assert group.places["t[0]"] == CommittedOffsets({"t[0]": 0}, f"{PartitionStates.NEW} 0")
    worker(Member(group, ("gain", "t[0]"), ("read", "t[0]", 20))).run()  # the state that nobody names is no obstacle
    assert learned(committed(group, states)) == replayed(samples(20))


def test_a_refused_commit_drops_everything(worker, states):
    group = Group(p0=samples(20))
    member = Member(group, ("gain", "t[0]"), ("read", "t[0]", 10), ("gain", "t[0]"), ("read", "t[0]", 20))
    member.answers.extend([True, PartitionsLost])
    reports = []

    class Watch(Observer):
        on_report = reports.append

    assert worker(member, observers=[Watch()]).run().n == 30
    assert (reports[-1].n_rebalances, reports[-1].n_commits_refused) == (2, 1)
    assert committed(group, states)["counts"]["n_learned"] == 20


def test_a_partition_lost_in_the_middle_of_a_turn_ends_the_turn(worker):
    group = Group(p0=samples(20), p1=samples(20))
    member = Member(group, ("gain", "t[0]", "t[1]"), ("read", "t[0]", 10))
    member.answers.extend([True, True, PartitionsLost])
    both = member.poll

    def poll():
        turn = both()
        return turn._replace(items=[*turn.items, ("t[1]", iter(()))]) if turn.items else turn

    member.poll = poll
    assert worker(member).run().n == 10


def test_questions_wait_with_their_partition(worker, states):
    from fwonline.stream import Sample

    asked = [Sample({"id": 1, "a": 0.5}, None, key="q"), Sample({}, True, key="q")]
    group = Group(p0=asked)
    first = worker(Member(group, ("gain", "t[0]"), ("read", "t[0]", 1)))
    assert first.run().n_pending == 1
    second = worker(Member(group, ("gain", "t[0]"), ("read", "t[0]", 1)))
    summary = second.run()
    assert (summary.n_learned, summary.n_pending, summary.n_unmatched) == (1, 0, 0)


def test_questions_and_answers_of_two_topics_move_as_one(worker, states):
    from fwonline.stream import Sample

    asked = [Sample({"id": i, "a": i / 7}, None, key=i, origin=f"q@{i}") for i in range(30)]
    told = [Sample({}, i % 3 == 0, key=i, origin=f"a@{i}") for i in range(30)]
    both, names = "q+a[0]", ("q[0]", "a[0]")
    group = Group({both: names}, q0=asked, a0=told)

    def elsewhere():  # 8 questions and 3 answers were committed; 2 questions and 4 answers are forgotten
        assert group.places[both].offsets == {"q[0]": 8, "a[0]": 3}
        worker(Member(group, ("gain", both), ("read", "q[0]", 12), ("read", "a[0]", 10))).run()

    member = Member(group, ("gain", both), ("read", "q[0]", 8), ("read", "a[0]", 3))
    member.script += [("read", "q[0]", 2), ("read", "a[0]", 4), (elsewhere,), ("gain", both)]
    member.script += [("read", "q[0]", 10), ("read", "a[0]", 17)]
    summary = worker(member, checkpoint_samples=11).run()

    assert summary.position == {"q[0]": 30, "a[0]": 30}
    assert (summary.n_pending, summary.n_unmatched) == (0, 0)
    place, (file,) = group.places[both], states.files(both)
    state = states.read(both, place.metadata)
    assert file.parent.name == "q%2Ba-0"
    assert file.name[11:31] == f"{place.total_offset:020d}" == f"{60:020d}"
    assert state["position"] == place.offsets
    assert state["counts"]["n_learned"] == 30


def test_a_bad_item_ends_the_run_behind_a_commit_and_is_tried_again(worker, states):
    items = samples(12)
    items[7] = Rejected(b"{", "t[0]@7: not JSON", "t[0]@7")
    group = Group(p0=items)
    for _ in range(2):  # nothing moves on by itself
        with pytest.raises(SampleError, match=r"t\[0\]@7: not JSON"):
            worker(Member(group, ("gain", "t[0]"), ("read", "t[0]", 12))).run()
        assert group.places["t[0]"].total_offset == 8
    kept, seen = [], []

    class Watch(Observer):
        def on_rejected(self, rejected, reason):
            seen.append(reason)

    loop = worker(
        Member(group, ("gain", "t[0]"), ("read", "t[0]", 4)),
        on_error="dead-letter",
        dead_letter=CallbackSink(kept.append),
        observers=[Watch()],
    )
    summary = loop.run()
    assert [record["raw"] for record in kept] == ["{"]
    assert (summary.n_rejected, seen) == ({"malformed": 1}, ["malformed"])
    assert states.read("t[0]", group.places["t[0]"].metadata)["counts"]["n_learned"] == 11


def test_a_limit_is_of_this_worker(worker):
    group = Group(p0=samples(30))
    assert worker(Member(group, ("gain", "t[0]"), ("read", "t[0]", 30))).run(12).n == 12
    assert group.places["t[0]"].total_offset == 12


def test_the_merge_predicts_and_is_not_learned(worker, states, tmp_path):
    items = samples(60), samples(60, 500)
    predicted = []
    group = Group(p0=items[0], p1=items[1])
    member = Member(group, ("gain", "t[0]", "t[1]"), ("read", "t[0]", 50), ("read", "t[1]", 50))
    member.script += [("read", "t[0]", 0), ("read", "t[0]", 10), ("read", "t[1]", 10)]
    loop = worker(member, merge_every=1e-9, sinks=[CallbackSink(predicted.append)], checkpoint_samples=1)
    loop.run()

    for k, partition in enumerate(("t[0]", "t[1]")):  # what is learned does not depend on it
        state = committed(group, states, partition)
        alone = EventLoop([(item.x, item.y) for item in items[k]], model())
        alone.run()
        assert state["model"]["FWClassifier"].weights == alone.model["FWClassifier"].weights

    outside = MergedModel(Member(group), states)
    assert outside.model is None
    assert outside.refresh()
    assert not outside.refresh()
    assert outside.n_partitions == 2
    assert outside.model["FWClassifier"].n_samples == 120
    assert loop.merged.model["FWClassifier"].weights == outside.model["FWClassifier"].weights
    assert len(predicted) == 120


def test_models_are_shown_to_those_who_do_not_see_the_states(worker, states):
    group = Group(p0=samples(40), p1=samples(40, 500))
    member = Member(group, ("gain", "t[0]", "t[1]"), ("read", "t[0]", 30), ("read", "t[1]", 30))
    worker(member, merge_every=1.0, merge_topic="models").run()
    through_topic = MergedModel(Member(group), merge_topic=group.board)
    through_states = MergedModel(Member(group), states)
    assert through_topic.refresh()
    assert through_states.refresh()
    assert not through_topic.refresh()
    weights = [merged.model["FWClassifier"].weights for merged in (through_topic, through_states)]
    assert weights[0] == weights[1] != {}

    group.board.is_open = False
    member = Member(group, ("gain", "t[0]"), ("read", "t[0]", 10))
    with pytest.warns(UserWarning, match="no room"):
        worker(member, merge_every=1.0, merge_topic="models").run()
    assert group.places["t[0]"].total_offset == 40

    with pytest.raises(ValueError, match="merge_topic: expected merge_every with it"):
        worker(Member(group), merge_topic="models")
    with pytest.raises(ValueError, match="expected states or a merge topic"):
        MergedModel(Member(group))


def shown(group, **options):
    """What a process that predicts makes of what is shown; two partitions have learned."""
    return MergedModel(Member(group), merge_topic=group.board, **options)


@pytest.fixture
def board(worker):
    group = Group(p0=samples(40), p1=samples(40, 500))
    member = Member(group, ("gain", "t[0]", "t[1]"), ("read", "t[0]", 30), ("read", "t[1]", 30))
    worker(member, merge_every=1.0, merge_topic="models").run()
    return group


def turned_model():
    other = model()
    other.steps.move_to_end("StandardScaler")
    return codec.dumps(other)


def strange_model():
    other = model()
    other["StandardScaler"].means["a"] = "far"
    other["StandardScaler"].counts["a"] = 1
    other["StandardScaler"].vars["a"] = 1.0
    return codec.dumps(other)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (b"nonsense", "the checkpoint is cut short"),
        (codec.dumps({"a": 1}), "expected a model, found dict"),
        (codec.dumps(preprocessing.StandardScaler()), r"the model is of another kind: model was .*StandardScaler"),
        (
            codec.dumps(
                compose.Discard("id")
                | preprocessing.StandardScaler()
                | FWClassifier(sets.L1Ball(4.0), seed=1, intercept=False)
            ),
            r"the model is of another kind: model.FWClassifier.constraint.radius was 4.0 and is 3.0 now",
        ),
        (turned_model(), "the model is of another kind: its steps are in another order"),
        (strange_model(), "unsupported operand"),
    ],
)
@pytest.mark.parametrize("is_known", [True, False])
def test_what_is_no_model_of_the_groups_is_refused_and_counted(board, document, said, is_known):
    merged = shown(board, **({"model": model()} if is_known else {}))
    assert merged.refresh()
    weights = merged.model["FWClassifier"].weights
    board.board.documents["t[0]"] = (99, document)
    for _ in range(2):  # it is looked at once
        assert not merged.refresh()
        assert merged.n_refused == 1
    assert re.match(rf"t\[0\]@99: .*{said}", merged.refusal)
    assert merged.n_partitions == 2
    assert merged.model["FWClassifier"].weights == weights

    late = shown(board, model=model())  # one that begins now has the others
    assert late.refresh()
    assert (late.n_partitions, late.n_refused) == (1, 1)


def test_a_good_model_beside_a_strange_one_is_taken(board, states):
    merged = shown(board)
    merged.refresh()
    again = codec.dumps(states.read("t[1]", board.places["t[1]"].metadata)["model"])
    board.board.documents.update({"t[0]": (98, strange_model()), "t[1]": (99, again)})
    assert merged.refresh()
    assert (merged.n_partitions, merged.n_refused) == (2, 1)
    board.board.documents.clear()
    board.board.documents["t[0]"] = (1, strange_model())
    alone = shown(board)
    assert not alone.refresh()
    assert (alone.model, alone.n_partitions, alone.n_refused) == (None, 0, 1)


def test_a_worker_tells_of_what_it_refused_and_goes_on(worker, board, states):
    board.board.documents["t[0]"] = (99, b"nonsense")
    board.board.n_refused, board.board.refusal = 2, "models[0]@7: expected a partition"
    member = Member(board, ("gain", "t[0]", "t[1]"), ("read", "t[1]", 5), ("read", "t[0]", 5), ("read", "t[1]", 5))
    with pytest.warns(UserWarning, match=r"3 models on the merge topic were refused; the last: t\[0\]@99: ") as told:
        worker(member, merge_every=1e-9, merge_topic="models").run()
    assert len(told) == 1
    assert committed(board, states, "t[1]")["counts"]["n_learned"] == 40


def test_what_cannot_be_merged_is_told_at_once(worker):
    with pytest.raises(TypeError, match="StandardScaler over a window cannot be merged"):
        worker(Member(Group()), merge_every=1.0, model=preprocessing.StandardScaler(window_size=3) | model())
    with pytest.raises(TypeError, match="RobustScaler has a state that cannot be merged: expected an estimator with"):
        worker(Member(Group()), merge_every=1.0, model=preprocessing.RobustScaler() | model())
    with pytest.raises(ValueError, match="merge_every must be positive, found 0"):
        worker(Member(Group()), merge_every=0)


# -- pointers and files


def test_an_offset_that_something_else_has_set_is_refused(worker, states):
    group = Group(p0=samples(10))
    group.places["t[0]"] = CommittedOffsets({"t[0]": 4}, "")
    with pytest.raises(CheckpointError, match=r"t\[0\]: expected the name of a state beside the group's offset, found"):
        worker(Member(group, ("gain", "t[0]"))).run()


def test_an_offset_with_the_note_of_another_one_is_refused(worker, states):
    group = Group(p0=samples(50))
    worker(Member(group, ("gain", "t[0]"), ("read", "t[0]", 30))).run()
    note = group.places["t[0]"].metadata
    for offset in (0, 29, 31, 50):
        group.places["t[0]"] = CommittedOffsets({"t[0]": offset}, note)
        told = rf"t\[0\]: the group's offset is {offset}, and the note beside it is of 30: the offset was set by"
        with pytest.raises(CheckpointError, match=told):
            worker(Member(group, ("gain", "t[0]"), ("read", "t[0]", 10))).run()
        assert group.places["t[0]"] == CommittedOffsets({"t[0]": offset}, note)
    group.places["t[0]"] = CommittedOffsets({"t[0]": 30}, note)
    worker(Member(group, ("gain", "t[0]"), ("read", "t[0]", 20))).run()
    assert learned(committed(group, states)) == replayed(samples(50))


def test_each_offset_of_topics_that_belong_together_is_its_own(worker, states):
    both, names = "q+a[0]", ("q[0]", "a[0]")
    group = Group({both: names}, q0=samples(20), a0=samples(20))
    worker(Member(group, ("gain", both), ("read", "q[0]", 12), ("read", "a[0]", 5))).run()
    note = group.places[both].metadata
    group.places[both] = CommittedOffsets({"q[0]": 11, "a[0]": 6}, note)  # of the same sum
    with pytest.raises(CheckpointError, match="the group's offset is 11, 6, and the note beside it is of 12, 5"):
        worker(Member(group, ("gain", both))).run()


def test_a_beginning_is_of_its_own_offset(worker, states):
    group = Group(p0=samples(20))
    group.places["t[0]"] = CommittedOffsets({"t[0]": 5}, states.beginning({"t[0]": 0}))
    with pytest.raises(CheckpointError, match="the group's offset is 5, and the note beside it is of 0"):
        worker(Member(group, ("gain", "t[0]"), ("read", "t[0]", 15))).run()
    group.places["t[0]"] = CommittedOffsets({"t[0]": 5}, "fwonline new")  # as version 0.1.0 wrote it
    with pytest.raises(CheckpointError, match="found 'fwonline new'"):
        worker(Member(group, ("gain", "t[0]"), ("read", "t[0]", 15))).run()


@pytest.mark.parametrize(
    "damage",
    [
        {"kind": 7},
        {"position": 10},
        {"position": None},
        {"position": {"t[0]": 10.5}},
        {"position": {"t[1]": 10}},
        {"counts": {"n": -1}},
        {"pending": None},
        {"held": ("sample", (1,))},
        {"model": {"a": 1}},
        {"model": preprocessing.StandardScaler()},
        {"monitors": []},
        {"monitors": 3},
        {"rejections": 5},
        {"source": None},
    ],
)
def test_a_damaged_state_is_refused_and_left_where_it_is(worker, states, damage):
    group = Group(p0=samples(30))
    worker(Member(group, ("gain", "t[0]"), ("read", "t[0]", 10))).run()
    state = committed(group, states) | damage
    place = group.places["t[0]"] = CommittedOffsets({"t[0]": 10}, states.write("t[0]", 1, 10, state))
    with pytest.raises(CheckpointError):
        worker(Member(group, ("gain", "t[0]"), ("read", "t[0]", 10))).run()
    group.places["t[0]"] = CommittedOffsets({"t[0]": 10}, states.write("t[0]", 1, 10, "no state at all"))
    with pytest.raises(CheckpointError):
        worker(Member(group, ("gain", "t[0]"), ("read", "t[0]", 10))).run()
    assert states.is_there("t[0]", place.metadata)


def test_a_partition_of_another_stream_by_the_same_name_is_refused(worker, states):
    group = Group(p0=samples(30))
    worker(Member(group, ("gain", "t[0]"), ("read", "t[0]", 10))).run()
    assert committed(group, states)["identity"] == {"t[0]": "first"}
    place = group.places["t[0]"]
    group.made = "second"
    with pytest.raises(SourceError, match=r"t\[0\]: not what it was"):
        worker(Member(group, ("gain", "t[0]"), ("read", "t[0]", 10))).run()
    assert group.places["t[0]"] == place
    group.made = "first"
    worker(Member(group, ("gain", "t[0]"), ("read", "t[0]", 20))).run()
    assert learned(committed(group, states)) == replayed(samples(30))


def test_lost_offsets_are_no_new_beginning(worker, states):
    group = Group(p0=samples(10))
    worker(Member(group, ("gain", "t[0]"), ("read", "t[0]", 10))).run()
    group.places.clear()
    with pytest.raises(CheckpointError, match=r"the group 'g' has no offset there, and .*t-0 holds 1 states of it"):
        worker(Member(group, ("gain", "t[0]"))).run()


def test_exactly_the_named_file_is_loaded(worker, states):
    group = Group(p0=samples(20), p1=samples(20))
    worker(Member(group, ("gain", "t[0]", "t[1]"), ("read", "t[0]", 10), ("read", "t[1]", 9))).run()
    (mine,), (other,) = states.files("t[0]"), states.files("t[1]")
    whole = mine.read_bytes()
    for content, said in (
        (other.read_bytes(), "expected the file of checksum"),
        (whole[:-1], "damaged: expected"),
        (whole[:99] + b"?" + whole[100:], "damaged: its checksum does not fit"),
    ):
        mine.write_bytes(content)
        with pytest.raises(CheckpointError, match=said):
            worker(Member(group, ("gain", "t[0]"))).run()
    mine.unlink()
    with pytest.raises(CheckpointError, match="cannot read the checkpoint"):
        worker(Member(group, ("gain", "t[0]"))).run()


def test_a_state_of_another_model_is_refused(worker):
    group = Group(p0=samples(10))
    worker(Member(group, ("gain", "t[0]"), ("read", "t[0]", 10))).run()
    other = worker(
        Member(group, ("gain", "t[0]")),
        model=preprocessing.StandardScaler() | FWClassifier(sets.L1Ball(9.0), intercept=False),
    )
    with pytest.raises(CheckpointError, match="the checkpoint is of another run: model"):
        other.run()


def test_a_file_cleared_away_by_a_later_owner_is_a_sign_of_that(worker, states):
    group = Group(p0=samples(30))
    worker(Member(group, ("gain", "t[0]"), ("read", "t[0]", 10))).run()
    old = group.places["t[0]"]

    member = Member(group, ("gain", "t[0]"))
    told = member.poll

    def poll():  # the place is read, and before its file is, somebody else has gone on
        turn = told()
        if turn.assigned and turn.assigned["t[0]"] == old:
            worker(Member(group, ("gain", "t[0]"), ("read", "t[0]", 10))).run()
        return turn

    member.poll = poll
    member.script.append(("gain", "t[0]"))
    member.script.append(("read", "t[0]", 10))
    worker(member).run()
    assert learned(committed(group, states)) == replayed(samples(30))


def test_a_writer_whose_file_was_cleared_away_gives_up(worker, states, monkeypatch):
    group = Group(p0=samples(30))
    member = Member(group, ("gain", "t[0]"), ("read", "t[0]", 10))
    write = PartitionStates.write

    def slow(self, partition, generation, offset, state):
        monkeypatch.setattr(PartitionStates, "write", write)
        worker(Member(group, ("gain", "t[0]"), ("read", "t[0]", 20))).run()
        raise CheckpointError("the temporary file is gone")

    monkeypatch.setattr(PartitionStates, "write", slow)
    worker(member).run()
    assert committed(group, states)["counts"]["n_learned"] == 20


def test_only_what_can_never_count_again_is_removed(states):
    notes = {
        generation: states.write("t[0]", generation, 10 * generation, {"generation": generation})
        for generation in (1, 2, 3)
    }
    again = states.write("t[0]", 2, 25, {"generation": 2})
    leftover = states.folder("t[0]") / "0000000001-00000000000000000007-00000000.state.tmp"
    leftover.write_bytes(b"torn")

    states.sweep("t[0]", again)

    assert not leftover.exists()
    assert [path.name[:10] for path in states.files("t[0]")] == ["0000000002", "0000000003"]
    assert states.read("t[0]", again) == {"generation": 2}
    assert states.is_there("t[0]", notes[3])
    assert not states.is_there("t[0]", notes[1])
    assert states.latest_generation("t[0]") == 3


def test_names_of_groups_and_topics_stay_inside_the_folder(tmp_path):
    states = PartitionStates(tmp_path, "../g/h")
    note = states.write("a-1[0]", 1, 0, {})
    assert states.folder("a-1[0]").parent.parent == tmp_path
    assert states.folder("a-1[0]") != states.folder("a[10]")
    assert states.read("a-1[0]", note) == {}
    with pytest.raises(CheckpointError, match="expected the name of a state"):
        states.read("a-1[0]", "fwonline ../../x.state " + "0" * 64)


def test_a_folder_of_states_that_disappears_is_not_made_anew(tmp_path):
    states = PartitionStates(tmp_path / "states", "g")
    states.write("t[0]", 1, 0, {})
    shutil.rmtree(states.path)
    with pytest.raises(CheckpointError, match=r"cannot write the state of t\[1\]: the folder has disappeared"):
        states.write("t[1]", 1, 0, {})
    assert not states.path.exists()
