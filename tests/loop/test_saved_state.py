"""What a checkpoint of a loop holds beside its model is looked at before anything of the loop is touched."""

import math

import pytest
from river import compose, preprocessing

from fwonline import sets
from fwonline.checkpoint import Checkpoint
from fwonline.exceptions import CheckpointError
from fwonline.linear_model import FWRegressor
from fwonline.loop import EventLoop
from fwonline.monitors import Gap
from fwonline.stream import Sample


def model(radius=2.0):
    return preprocessing.StandardScaler() | FWRegressor(sets.L1Ball(radius), intercept=False)


ITEMS = [
    Sample({"a": 1.0}, None, "q1", 1.0),
    Sample({"a": 2.0}, 2.0),
    Sample({"a": 3.0}, None, "q2", 2.0),
    Sample({"a": 1.0}, 1.0),
    Sample({"a": math.nan}, 1.0),
    Sample({"a": 2.5}, 1.0),
]
OPTIONS = {"on_error": "skip"}


def saved(path):
    """The state of a loop that has stopped after five items."""
    EventLoop(ITEMS, model(), [Gap()], checkpoint=path, **OPTIONS).run(limit=5)
    return Checkpoint(path).load()


def put(*places, value):
    def damage(state):
        for place in places[:-1]:
            state = state[place]
        state[places[-1]] = value

    return damage


def drop(*places):
    def damage(state):
        for place in places[:-1]:
            state = state[place]
        del state[places[-1]]

    return damage


def other_radius(state):
    state["model"]["FWRegressor"].constraint = sets.L1Ball(9.0)


def other_model(state):
    state["model"] = compose.Pipeline(*model().steps.items(), preprocessing.StandardScaler())


DAMAGES = [
    *(drop(name) for name in ("kind", "source", "position", "counts", "pending", "model", "monitors", "outputs")),
    drop("counts", "n"),
    drop("pending", "questions"),
    put("counts", value=None),
    put("counts", "n", value=-1),
    put("counts", "n", value=5.0),
    put("counts", "n_learned", value="5"),
    put("counts", "n_rejected", value={"value": None}),
    put("counts", "n_rejected", value=[1]),
    put("kind", value=[1, 2]),
    put("source", value=7),
    put("position", value=-1),
    put("position", value={"a": 1}),
    put("pending", value=()),
    put("pending", "now", value="late"),
    put("pending", "questions", value={"q1": ({"a": 1.0}, 0.0, 1)}),
    put("pending", "questions", value={"q1": (None, 0.0, 1, 1.0)}),
    put("pending", "early", value={"q1": (1.0, 1, None, 7)}),
    put("guard", "sizes", value=[1.0]),
    put("guard", "labels", value=[[]]),
    put("guard", "failed", value={"x": 1}),
    put("guard", "takes_nothing", value=1),
    put("rejections", "items", value=None),
    put("rejections", "first", value=[1]),
    put("held", value=("sample", ({"a": 1.0}, 1.0))),
    put("held", value=("thing", ({"a": 1.0}, 1.0, None, None, "", ()))),
    put("held", value=("sample", ([], 1.0, None, None, "", ()))),
    put("held", value=5),
    put("outputs", value=[1, 2]),
    put("monitors", value=[]),
    put("monitors", value={}),
    put("model", value=None),
    other_radius,
    other_model,
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_state_is_refused_and_nothing_is_touched(tmp_path, damage):
    path = tmp_path / "c"
    state = saved(path)
    damage(state)
    Checkpoint(path).discard()
    Checkpoint(path).save(state)
    mine = model()
    mine.learn_one({"a": 7.0}, 1.0)
    before = mine["StandardScaler"].means["a"], mine["FWRegressor"].weights
    loop = EventLoop(ITEMS, mine, [Gap()], checkpoint=path, **OPTIONS)
    # A place in the source is the source's to look at, behind all this.
    with pytest.raises(Exception, match=r"checkpoint|position") as caught:
        loop.run()
    if "position" not in str(caught.value):
        assert caught.type is CheckpointError
        assert (mine["StandardScaler"].means["a"], mine["FWRegressor"].weights) == before


def test_what_was_not_damaged_goes_on(tmp_path):
    path = tmp_path / "c"
    Checkpoint(path).save(saved(path))
    summary = EventLoop(ITEMS, model(), [Gap()], checkpoint=path, **OPTIONS).run()
    assert (summary.n, summary.n_learned, summary.n_pending, sum(summary.n_rejected.values())) == (6, 3, 2, 1)
