"""What a stream may bring by mistake: named, refused, and leaving no trace."""

import copy
import decimal
import fractions

import numpy as np
import pandas as pd
import pytest
from river import optim as river_optim
from scipy import sparse
from support.catalogue import OPTIMIZERS, PAIRS, SETS, regression, state_of

from fwonline import optim, sets
from fwonline.exceptions import SampleError
from fwonline.linear_model import FWClassifier, FWRegressor


class Thing:
    """No number; shown the same in every process, as the names of tests must be."""

    def __repr__(self):
        return "a thing"


VALUES = [
    float("nan"), float("inf"), -float("inf"), 1e200, -1e101, "text", "1.5", b"1.5", bytearray(b"1.5"), None,
    10**400, 1j, [1.0], {}, Thing(), np.array([1.0, 2.0]), np.float64("nan"), float,
]  # fmt: skip
TARGETS = [float("nan"), float("inf"), 1e200, "text", "1.5", b"1", None, 10**400, 1j, [1.0]]
LABELS = [None, float("nan"), np.float64("nan"), pd.NA, pd.NaT, "a third class", 2, -1]
X, Y = regression(n=30, d=4)


def trained(optimizer="sfw", where="l1", kind=FWRegressor, **given):
    model = kind(SETS[where](), OPTIMIZERS[optimizer](), **({"seed": 0, "intercept": False} | given))
    for x, y in zip(X, (Y > 0.0 if kind is FWClassifier else Y).tolist(), strict=True):
        model.learn_one(dict(zip("abcd", x.tolist(), strict=True)), y)
    return model


def refused(model, x, y, match):
    before, n, last = state_of(model), model.n_samples, model.last_sample.y
    with pytest.raises(SampleError, match=match):
        model.learn_one(x, y)
    assert state_of(model) == before
    assert model.n_samples == n
    assert model.last_sample is None or model.last_sample.y == last
    twin = copy.deepcopy(model)
    good = {"a": 1.0, "new": 2.0, "c": -1.0}
    for m in (model, twin):
        m.learn_one(good, 1.0 if isinstance(m, FWRegressor) else True)
    assert state_of(model) == state_of(twin)


@pytest.mark.parametrize("value", VALUES, ids=lambda v: f"{type(v).__name__}-{v!r}"[:30])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_values(optimizer, value):
    model = trained(optimizer)
    for name in ("b", "unseen"):
        refused(model, {"a": 1.0, name: value, "also unseen": 1.0}, 1.0, f"feature '{name}' is .*expected a")
    refused(model, {"a": 1.0, "b": value, "c": 1.0, "d": 1.0}, 1.0, "feature 'b' is .*expected a")
    assert "also unseen" not in model._features.positions


@pytest.mark.parametrize("target", TARGETS, ids=repr)
@pytest.mark.parametrize(("optimizer", "where"), PAIRS)
def test_targets(optimizer, where, target):
    model = trained(optimizer, where)
    refused(model, {"a": 1.0, "unseen": 1.0}, target, "the target is .*expected a")


@pytest.mark.parametrize("label", LABELS, ids=repr)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_labels(optimizer, label):
    model = trained(optimizer, kind=FWClassifier)
    refused(model, {"a": 1.0, "unseen": 1.0}, label, "the label is .*expected")


def test_a_refused_sample_brings_no_class():
    model = FWClassifier(sets.L1Ball(1.0), intercept=False)
    for x in ({"a": "text"}, {"a": float("nan")}, {"a": 1e200}):
        with pytest.raises(SampleError):
            model.learn_one(x, "wrong")
    model.learn_one({"a": 1.0}, "no")
    with pytest.raises(SampleError):
        model.learn_one({"a": None}, "wrong")
    model.learn_one({"a": -1.0}, "yes")
    assert model.classes == ("no", "yes")


def test_a_refused_sample_does_not_cost_ofw_its_statistics():
    model = FWRegressor(sets.L1Ball(1.0), optim.OFW(max_features=2), intercept=False)
    model.learn_one({"a": 1.0, "b": 2.0}, 1.0)
    gap = model.exact_gap
    with pytest.raises(SampleError):
        model.learn_one({"a": 1.0, "c": 2.0}, float("nan"))
    assert model.optimizer.is_exact
    assert model.exact_gap == gap
    model.learn_one({"a": 1.0, "c": 2.0}, 1.0)
    assert not model.optimizer.is_exact


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_derivative_that_cannot_be_summed(optimizer):
    """The loss itself may be what is too large."""
    model = trained(optimizer, loss=river_optim.losses.Poisson(), where="box")
    x = {name: 1e90 if weight > 0.0 else -1e90 for name, weight in model.weights.items()}
    refused(model, x | {"unseen": 1e90}, 1.0, "derivative of Poisson.* is not finite, or too large")


def test_what_a_loss_of_ones_own_raises_leaves_no_trace():
    class Picky(river_optim.losses.Squared):
        def gradient(self, y_true, y_pred):
            if y_true == 13.0:
                raise ArithmeticError("thirteen")
            return super().gradient(y_true, y_pred)

    model = trained(loss=Picky())
    before = state_of(model)
    with pytest.raises(ArithmeticError, match="thirteen"):
        model.learn_one({"a": 1.0, "unseen": 1.0}, 13.0)
    assert state_of(model) == before


@pytest.mark.parametrize("answer", [float("nan"), float("inf")])
def test_a_loss_of_ones_own_that_answers_nonsense(answer):
    class Broken:
        def __call__(self, y_true, y_pred):
            return 0.0

        def gradient(self, y_true, y_pred):
            return answer

    model = FWRegressor(sets.L1Ball(1.0), optim.SFW(memory=3), loss=Broken(), intercept=False)
    with pytest.raises(SampleError, match=r"derivative of .*Broken.* is not finite"):
        model.learn_one({"a": 1.0}, 1.0)
    assert model.n_samples == 0
    assert not model._features.names


def test_numbers_of_every_kind_are_numbers():
    plain, mixed = (FWRegressor(sets.L1Ball(1.0), optim.SFW(memory=3), seed=0, intercept=False) for _ in range(2))
    plain.learn_one({"a": 2.0, "b": 1.0, "c": 0.5, "d": 3.0, "e": 1.0, "f": 1e100}, 1.0)
    mixed.learn_one(
        {
            "a": 2,
            "b": True,
            "c": fractions.Fraction(1, 2),
            "d": decimal.Decimal(3),
            "e": np.float32(1.0),
            "f": 10**100,
        },
        np.int64(1),
    )
    assert state_of(plain) == state_of(mixed)


@pytest.mark.parametrize(
    "value", [v for v in VALUES if not isinstance(v, float | np.floating)], ids=lambda v: repr(v)[:20]
)
def test_predicting_refuses_what_is_no_number(value):
    model = trained()
    before = state_of(model)
    for name in ("b", "unseen"):
        with pytest.raises(SampleError, match=f"feature '{name}' is .*expected a"):
            model.predict_one({"a": 1.0, name: value})
        assert state_of(model) == before
    for nonsense in (float("nan"), float("inf")):
        with pytest.raises(SampleError, match="feature 'b' is"):
            model.predict_one({"b": nonsense})


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e200])
def test_a_bad_row_of_a_matrix(optimizer, bad, form):
    """The rows before it have been learned, and nothing else has happened."""
    good, model = (FWRegressor(SETS["l1"](), OPTIMIZERS[optimizer](), seed=0, intercept=False) for _ in range(2))
    matrix = X.copy()
    matrix[17, 2] = bad
    with pytest.raises(SampleError, match=r"row 17: feature 2 is .*expected a finite number"):
        model.learn_arrays(form(matrix), Y)
    good.learn_arrays(X[:17], Y[:17])
    assert state_of(model) == state_of(good)
    targets = Y.copy()
    targets[17] = bad
    with pytest.raises(SampleError, match="row 17: the target is"):
        model.learn_arrays(X, targets)
    good.learn_arrays(X[:17], Y[:17])
    assert state_of(model) == state_of(good)
    first = FWRegressor(SETS["l1"](), OPTIMIZERS[optimizer](), seed=0, intercept=False)
    empty = state_of(first)
    with pytest.raises(SampleError, match="row 0"):
        first.learn_arrays(form(matrix[17:]), Y[17:])
    assert state_of(first) == empty


def test_classes_of_rows_that_were_not_learned():
    model = FWClassifier(sets.L1Ball(1.0), seed=0, intercept=False)
    matrix = X.copy()
    matrix[2, 0] = np.nan
    with pytest.raises(SampleError, match="row 2: feature 0 is nan"):
        model.learn_arrays(matrix, ["no", "no", "bad", *["yes"] * 27])
    assert model.n_samples == 2
    model.learn_arrays(X[:3], ["no", "no", "yes"])
    assert model.classes == ("no", "yes")
    with pytest.raises(SampleError, match="row 1: the label is 'perhaps'"):
        model.learn_arrays(X[:2], ["yes", "perhaps"])
    assert model.n_samples == 6
    fresh = FWClassifier(sets.L1Ball(1.0), intercept=False)
    with pytest.raises(ValueError, match="one target for each of the 30 rows"):
        fresh.learn_arrays(X, ["a", "b"])
    fresh.learn_arrays(X[:2], ["c", "d"])
    assert fresh.classes == ("c", "d")


def test_shapes():
    model = trained()
    before = state_of(model)
    for bad in (np.ones(3), np.ones((2, 2, 2)), 1.0):
        with pytest.raises(ValueError, match="matrix of samples x features"):
            model.learn_arrays(bad, [1.0])
    with pytest.raises(ValueError, match="one target for each"):
        model.learn_arrays(X, Y[:3])
    assert state_of(model) == before
    frame = pd.DataFrame(X, columns=["a", "b", "a", "new"])
    with pytest.raises(ValueError, match=r"same name|unique column names"):
        model.learn_many(frame, pd.Series(Y))
    assert state_of(model) == before


FIXED = {
    "box": sets.Box([0.0, 0.0, 0.0], [1.0, 2.0, 3.0]),
    "hull": sets.ConvexHull([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]),
}


@pytest.mark.parametrize("constraint", FIXED.values(), ids=FIXED)
@pytest.mark.parametrize("optimizer", [o for o in OPTIMIZERS if not o.startswith("projected")])
def test_a_set_of_one_dimension_knows_its_features_by_number(optimizer, constraint):
    if optimizer in ("pairwise-memory", "mixture") and isinstance(constraint, sets.ConvexHull):
        with pytest.raises(ValueError, match="moves coordinates, which ConvexHull"):
            FWRegressor(constraint, OPTIMIZERS[optimizer](), intercept=False)
        return
    model = FWRegressor(constraint, OPTIMIZERS[optimizer](), seed=0, intercept=False)
    empty = state_of(model)
    for x in ({"a": 1.0}, {3: 1.0}, {0: 1.0, -1: 1.0}, {0.5: 1.0}):
        with pytest.raises(SampleError, match=r"has 3 coordinates, so features are the integers 0 to 2; .* brings"):
            model.learn_one(x, 1.0)
        assert state_of(model) == empty
    with pytest.raises(SampleError, match="the sample brings 3"):
        model.learn_arrays(np.ones((2, 4)), [1.0, 1.0])
    assert state_of(model) == empty
    model.learn_one({2: 1.0}, 1.0)
    assert model.violation == 0.0
    before = state_of(model)
    with pytest.raises(SampleError, match="the sample brings 'd'"):
        model.learn_one({2: 1.0, "d": 1.0}, 1.0)
    assert state_of(model) == before


def test_a_name_that_is_not_itself_is_no_feature():
    model = FWRegressor(sets.L1Ball(2.0), intercept=False)
    model.learn_one({"a": 1.0}, 1.0)
    before = state_of(model)
    with pytest.raises(SampleError, match="a feature is named nan; expected a name that is equal to itself"):
        model.learn_one({"b": 1.0, float("nan"): 1.0}, 1.0)
    assert state_of(model) == before
    assert model.predict_one({"a": 1.0, float("nan"): 1.0}) == model.predict_one({"a": 1.0})


def test_bounds_by_coordinate_hold_for_the_feature_of_that_number():
    model = FWRegressor(sets.Box([0.0, 0.0, 0.0], [1.0, 2.0, 3.0]), optim.SFW(memory=50), seed=0, intercept=False)
    for _ in range(200):  # the last one is seen first
        model.learn_one({2: 1.0}, 10.0)
        model.learn_one({0: 1.0}, 10.0)
    assert model.weights == pytest.approx({2: 3.0, 0: 1.0}, abs=1e-3)


def test_a_feature_never_seen_weighs_what_it_will_when_it_is():
    model = FWRegressor(sets.Box(1.0, 2.0), optim.SFW(memory=5), seed=0, intercept=False)
    x = {"a": 1.0, "b": 3.0}
    assert model.predict_one(x) == 4.0
    model.learn_one({"a": 1.0}, 2.0)
    expected = model.predict_one(x)
    model.learn_one(x, 2.0)
    assert model.last_sample.prediction == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"constraint": "l1"}, "constraint must be a set such as"),
        ({"constraint": sets.L1Ball}, "constraint must be a set such as"),
        ({"constraint": sets.L1Ball(1.0), "optimizer": "sfw"}, "optimizer must be one of fwonline.optim"),
        ({"constraint": sets.L1Ball(1.0), "optimizer": optim.SFW}, "optimizer must be one of fwonline.optim"),
        ({"constraint": sets.L1Ball(1.0), "loss": "log"}, "loss must be an object with"),
    ],
)
@pytest.mark.parametrize("kind", [FWRegressor, FWClassifier])
def test_construction(kind, given, message):
    with pytest.raises(TypeError, match=message):
        kind(**given)
