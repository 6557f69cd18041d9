"""A bound of the names: what is given up, by literal models that forget the same, and that nothing else changes."""

import copy
import math
import pickle
import random

import numpy as np
import pandas as pd
import pytest
from river import optim as river_optim
from scipy import sparse
from support.catalogue import OPTIMIZERS, SETS, state_of
from support.oracles import (
    AdaptiveOFWOracle,
    AdversarialOFWOracle,
    MomentumOracle,
    OFWOracle,
    OneSampleOracle,
    SFWOracle,
)
from support.pairwise_oracle import PairwiseOracle

from fwonline import optim, sets
from fwonline.checkpoint import codec
from fwonline.exceptions import SampleError
from fwonline.features import rank_of
from fwonline.linear_model import FWClassifier, FWRegressor, FWSoftmax
from fwonline.optim import schedules

MOST = 24


def words(n, seed=0):
    """Three names that matter, a few that come back, two new ones every sample: none of them is named twice."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        x = {name: float(rng.normal()) for name in ("bias", "good", "bad")}
        x |= {f"w{j}": float(rng.normal()) for j in rng.choice(30, 4, replace=False)}
        x |= {f"new{i}-{j}": float(rng.normal()) for j in range(rng.integers(3))}
        if i % 7 == 0:
            x[f"silent{i % 5}"] = 0.0
        names = list(x)
        rng.shuffle(names)
        yield {name: x[name] for name in names}, x["good"] - x["bad"] + 0.3 * float(rng.normal())


class Vocabulary:
    """Which names are held, by the rule of the documentation, written out."""

    def __init__(self, most, slack=16):
        self.most, self.slack = most, slack
        self.seen = {}  # name -> the sample that showed it last
        self.count = 0

    def admit(self, x, weighs, gives_weights_up):
        """The names of x that are taken in, and those that are given up for them."""
        self.count += 1
        new = [name for name in x if name not in self.seen]
        gone = []
        if len(self.seen) + len(new) > self.most:
            new = [name for name in new if x[name] != 0.0]
            needed = len(self.seen) + len(new) - self.most
            if needed > 0:
                gone = self.leaving(x, weighs, gives_weights_up, needed)
                new = sorted(new, key=rank_of)[: len(new) - max(needed - len(gone), 0)]
        for name in gone:
            del self.seen[name]
        for name in new:
            self.seen[name] = 0
        for name in x:
            if name in self.seen and x[name] != 0.0:
                self.seen[name] = self.count
        return [name for name in x if name in self.seen], gone

    def leaving(self, x, weighs, gives_weights_up, needed):
        def age(name):
            return self.seen[name], rank_of(name)

        others = [name for name in self.seen if name not in x]
        weightless = sorted((name for name in others if not weighs(name)), key=age)
        if len(weightless) >= needed:
            return weightless[: max(needed, self.most // self.slack)]
        if gives_weights_up:
            return weightless + sorted((name for name in others if weighs(name)), key=age)[: needed - len(weightless)]
        return weightless


class Named:
    """A literal model over columns, each of which stands for one stay of one name."""

    def __init__(self, oracle, most, gives_weights_up, weighs=None):
        self.oracle, self.solid = oracle, gives_weights_up
        self.names = Vocabulary(most)
        self.column = {}
        self.used = 0
        self.weighs = weighs or (lambda oracle, j: oracle.w[j] != 0.0)

    def learn(self, x, y):
        taken, gone = self.names.admit(x, lambda name: self.weighs(self.oracle, self.column[name]), self.solid)
        for name in gone:
            forget(self.oracle, self.column.pop(name))
        row = np.zeros(self.oracle.w.size)
        for name in taken:
            if name not in self.column:
                self.column[name] = self.used
                self.used += 1
            row[self.column[name]] = x[name]
        self.oracle.learn(row, y)

    @property
    def weights(self):
        return {name: self.oracle.w[j] for name, j in self.column.items()}


def forget(oracle, j):
    """As if no sample had ever shown the column."""
    for name in ("w", "old", "y", "estimate", "start", "key"):
        array = getattr(oracle, name, None)
        if isinstance(array, np.ndarray):
            array = array.copy()
            array[j] = 0.0
            setattr(oracle, name, array)
    for name in ("slots", "seen", "batch", "gradients", "samples"):
        rows = getattr(oracle, name, ())
        for held in rows if isinstance(rows, list) else ():
            row = held if isinstance(held, np.ndarray) else held[0]
            row[j] = 0.0


def touched_atom(oracle, j):
    """The point before the last step is known by its atom."""
    return oracle.w[j] != 0.0 or oracle.old[j] != 0.0


class FWOracle(SFWOracle):
    """All derivatives taken anew at every step."""

    def act(self):
        self.renew(range(len(self.slots)))
        self.step(self.estimate())


SQUARED = river_optim.losses.Squared()
HARMONIC, MOMENTUM = schedules.Harmonic(), schedules.Harmonic(offset=8.0)
LITERAL = {
    "sfw": (
        lambda: optim.SFW(memory=20),
        lambda c, d: SFWOracle(c, SQUARED, HARMONIC, d, memory=20, seed=1),
        ("l1", "unit-simplex", "l2", "linf", "box"),
    ),
    "sfw-replays": (
        lambda: optim.SFW(memory=20, batch_size=3, steps_per_sample=2),
        lambda c, d: SFWOracle(c, SQUARED, HARMONIC, d, memory=20, batch_size=3, steps=2, seed=1),
        ("l1", "l2", "box"),
    ),
    "momentum": (
        lambda: optim.MomentumFW(batch_size=2),
        lambda c, d: MomentumOracle(c, SQUARED, MOMENTUM, d, batch_size=2),
        ("l1", "l2"),
    ),
    "one-sample": (
        optim.OneSampleFW,
        lambda c, d: OneSampleOracle(c, SQUARED, schedules.Power(1.0), d),
        ("l1", "l2", "box"),
    ),
    "fw": (
        lambda: optim.FW(memory=20, schedule=HARMONIC),
        lambda c, d: FWOracle(c, SQUARED, HARMONIC, d, memory=20),
        ("l1", "unit-simplex", "l2"),
    ),
    "exact batches": (
        lambda: optim.HazanLuoFW(memory=20, batch_size=20),
        lambda c, d: FWOracle(c, SQUARED, HARMONIC, d, memory=20),
        ("l1", "l2"),
    ),
    "ofw": (optim.OFW, lambda c, d: OFWOracle(c, SQUARED, schedules.Power(0.5), d), ("l1", "l2", "linf")),
    "ofw-adversarial": (
        optim.AdversarialOFW,
        lambda c, d: AdversarialOFWOracle(c, SQUARED, schedules.Power(0.5, factor=2.0), d),
        ("l1", "l2"),
    ),
    "adaptive": (
        lambda: optim.AdaptiveOFW(horizon=50),
        lambda c, d: AdaptiveOFWOracle(c, SQUARED, None, d, horizon=50, block=8, tolerance=0.05 / math.sqrt(50)),
        ("l1", "l2"),
    ),
}
PAIRS = [(name, where) for name in LITERAL for where in LITERAL[name][2]]


@pytest.mark.parametrize(("name", "where"), PAIRS)
def test_a_literal_model_that_forgets_the_same(name, where):
    optimizer, oracle, _ = LITERAL[name]
    model = FWRegressor(SETS[where](), optimizer(), seed=1, max_names=MOST, intercept=False)
    solid = where in ("l2", "linf", "box")
    literal = Named(oracle(SETS[where](), 700), MOST, solid, touched_atom if name == "one-sample" else None)
    for x, y in words(150):
        model.learn_one(x, y)
        literal.learn(x, y)
        assert set(model._features.names) == set(literal.column)
        held = model._run.weights[[model._features.positions[name] for name in literal.column]]
        np.testing.assert_allclose(held, list(literal.weights.values()), atol=1e-7)
    assert literal.used > 3 * MOST


@pytest.mark.parametrize("where", ["l1", "unit-simplex", "linf", "box"])
def test_a_literal_quadratic_memory_that_forgets_the_same(where):
    """In a set so large that no exchange leaves two slopes equal but for rounding."""
    constraint = {"l1": sets.L1Ball(50.0), "unit-simplex": sets.UnitSimplex(50.0)}.get(where) or SETS[where]()
    model = FWRegressor(
        constraint,
        optim.StochasticPairwiseFW(memory=8, steps_per_sample=4, forgetting=False),
        seed=3,
        max_names=MOST,
        intercept=False,
    )
    oracle = PairwiseOracle(constraint, SQUARED, 8, 4, 0.3, 3, 250)
    literal = Named(oracle, MOST, where in ("linf", "box"))
    for x, y in words(50):
        model.learn_one(x, y)
        oracle.c = 0.3 * math.sqrt(math.log(1 + model._run.n_features))
        literal.learn(x, y)
        assert set(model._features.names) == set(literal.column)
        held = model._run.weights[[model._features.positions[name] for name in literal.column]]
        np.testing.assert_allclose(held, list(literal.weights.values()), atol=1e-8)
    assert literal.used > 2 * MOST


FAMILY = {
    **OPTIMIZERS,
    "ofw-samples": lambda: optim.OFW(memory=30),
    "momentum-memory": lambda: optim.MomentumFW(memory=20),
    "lu-freund": lambda: optim.LuFreundFW(memory=20),
    **{
        cls.__name__: lambda cls=cls: cls(memory=20)
        for cls in (
            *(optim.FW, optim.AwayFW, optim.PairwiseFW, optim.RandomizedFW, optim.RandomizedAwayFW),
            *(optim.HazanLuoFW, optim.SVRF, optim.SCGS, optim.STORC, optim.ProjectedSVRG),
        )
    },
}


def model_of(optimizer, where, kind=FWClassifier, most=MOST, **given):
    given = {"intercept": False} | given
    return kind(SETS[where](), FAMILY[optimizer](), seed=1, max_names=most, **given)


def fits(optimizer, where):
    """Whether the optimizer has a use for the set."""
    try:
        return model_of(optimizer, where) is not None
    except ValueError:
        return False


def everywhere(*where):
    pairs = [(o, s) for o in FAMILY for s in where if fits(o, s)]
    quick = [o == "pairwise-memory" or s == "l1" for o, s in pairs]
    given = [pytest.param(*p, marks=() if q else pytest.mark.slow) for p, q in zip(pairs, quick, strict=True)]
    return pytest.mark.parametrize(("optimizer", "where"), given)


def seen_last(model):
    return dict(zip(model._features.names, model._features.seen.tolist(), strict=False))


def learn(model, samples):
    for x, y in samples:
        model.learn_one(x, y > 0.0 if isinstance(model, FWClassifier) else y)
    return model


@everywhere("l1", "simplex", "l2", "k-sparse")
def test_a_bound_that_is_never_reached_changes_nothing(optimizer, where):
    free, bound = (model_of(optimizer, where, FWRegressor, most) for most in (None, 1_000))
    for x, y in words(40):
        free.learn_one(x, y)
        bound.learn_one(x, y)
    assert state_of(free) == state_of(bound)


@everywhere("l1", "simplex", "l2", "box")
def test_every_optimizer_keeps_to_the_bound(optimizer, where):
    """Names, positions and arrays agree, predictions need no name that is gone, and a copy goes on the same."""
    model, turned = model_of(optimizer, where), model_of(optimizer, where)
    rng = random.Random(0)
    samples = list(words(70))
    for i, (x, y) in enumerate(samples):
        before = {name: model.weights.get(name, 0.0) for name in model._features.names}
        model.learn_one(x, y > 0.0)
        items = list(x.items())
        rng.shuffle(items)
        turned.learn_one(dict(items), y > 0.0)
        run, features = model._run, model._features
        assert run.n_features == len(features.names) == len(features.positions) <= MOST
        assert [features.positions[name] for name in features.names] == list(range(run.n_features))
        if i % 15 == 14:
            codec.loads(codec.dumps(model))  # which looks at all that it holds
        # A mixture gives up what its sparse expert does not use.
        if where == "simplex" or (where == "l1" and optimizer != "mixture"):
            assert not any(weight for name, weight in before.items() if name not in features.positions)
        assert model.violation <= 1e-9 or i < 3  # until the first step, where the origin lies outside
        if i == 40:
            model = pickle.loads(pickle.dumps(model))
            turned = copy.deepcopy(turned)
    assert state_of(model) == state_of(turned)
    x = samples[-1][0]
    known = {name: value for name, value in x.items() if name in features.positions}
    assert model.predict_proba_one(x) == model.predict_proba_one(known)
    assert math.isfinite(model.cumulative_loss)


@everywhere("l1", "l2")
def test_a_checkpoint_keeps_what_decides_who_leaves(optimizer, where):
    model = learn(model_of(optimizer, where, FWRegressor), words(40))
    copied = codec.loads(codec.dumps(model))
    rest = list(words(75))[40:]
    assert state_of(learn(model, rest)) == state_of(learn(copied, rest))
    assert seen_last(model) == seen_last(copied)


BAD = {
    "nan": ({"new": 1.0, "worse": float("nan")}, 1.0),
    "text": ({"new": 1.0, "worse": "a"}, 1.0),
    "huge": ({"new": 1e99, "worse": 1.0, "good": 1e100}, 1e100),
    "target": ({"new": 1.0, "worse": 1.0}, float("inf")),
}


@everywhere("l1", "l2")
def test_a_refused_sample_gives_nothing_up(optimizer, where):
    model = learn(model_of(optimizer, where, FWRegressor), words(40))
    known = learn(model_of(optimizer, where, FWRegressor), words(40))
    for bad, y in BAD.values():
        x = {f"fresh{j}": 1.0 for j in range(MOST)} | bad
        before = state_of(model)
        try:
            model.learn_one(x, y)
        except SampleError:
            assert state_of(model) == before
            assert not model._run.s.crowded
        else:
            known.learn_one(x, y)  # some losses take numbers that are near the largest
    rest = list(words(60))[40:]
    assert state_of(learn(model, rest)) == state_of(learn(known, rest))


@everywhere("l1", "l2")
def test_sums_are_those_of_what_is_held(optimizer, where):
    model = model_of(optimizer, where, FWRegressor)
    for x, y in words(60):
        model.learn_one(x, y)
        run, positions = model._run, model._features.positions
        known = model.state_summary()["optimizer"]
        X = np.zeros((len(known["samples"]), run.n_features))
        for i, (held, _) in enumerate(known["samples"]):
            X[i, [positions[name] for name in held]] = list(held.values())
        if optimizer in ("sfw", "sfw-replays", "momentum-memory", "lu-freund"):
            np.testing.assert_allclose(run.it.u[: run.n_features], known["derivatives"] @ X, atol=1e-9)
        if getattr(getattr(run, "method", None), "memory", None):
            np.testing.assert_allclose(known["gradient_sum"], known["derivatives"] @ X, atol=1e-9)
        if hasattr(run, "active") and hasattr(run.active, "point"):
            np.testing.assert_allclose(run.it.v[: run.n_features], run.active.point(run.n_features), atol=1e-9)
        if optimizer == "pairwise-memory" or hasattr(getattr(run, "own", ()), "place"):
            listed, place = run.own.active[: run.s.nonzeros], run.own.place[: run.n_features]
            assert place[listed].tolist() == list(range(len(listed)))
            assert (place >= 0).sum() == len(listed)


def test_the_longest_unseen_leave_and_those_that_weigh_something_stay():
    model = FWRegressor(sets.L1Ball(1.0), optim.SFW(memory=5), max_names=4, intercept=False)
    model.learn_one({"kept": 2.0, "old": 0.5}, 1.0)
    assert set(model.weights) == {"kept"}
    model.learn_one({"young": 0.1}, 0.0)
    model.learn_one({"old": 0.0, "younger": 0.1}, 0.0)  # a value of 0 shows nothing
    model.learn_one({"newest": 0.1}, 0.0)
    assert set(model._features.names) == {"kept", "young", "younger", "newest"}


def test_names_are_passed_over_where_nothing_may_leave():
    model = FWRegressor(sets.ProbabilitySimplex(), optim.ProjectedSGD(0.01), max_names=3, intercept=False)
    model.learn_one({"a": 1.0, "b": 1.0, "c": 1.0}, 1.0)
    assert set(model.weights) == {"a", "b", "c"}
    model.learn_one({"d": 1.0, "a": 2.0}, 1.0)
    assert set(model.weights) == {"a", "b", "c"}
    assert model.last_sample.values.tolist() == [2.0]
    assert model.predict_one({"d": 5.0}) == 0.0


def test_a_sample_of_more_names_than_there_may_be():
    model = FWRegressor(sets.L2Ball(5.0), optim.SFW(memory=5), max_names=5, intercept=False)
    x = {f"w{j}": 1.0 for j in range(30)}
    model.learn_one(x, 1.0)
    assert set(model._features.names) == set(sorted(x, key=rank_of)[:5])


def test_names_of_the_value_0_wait_for_room():
    model = FWRegressor(sets.L1Ball(5.0), max_names=3, intercept=False)
    model.learn_one({"a": 1.0, "b": 0.0, "c": 0.0}, 1.0)
    assert set(model._features.names) == {"a", "b", "c"}
    model.learn_one({"d": 1.0, "e": 0.0}, 1.0)
    assert set(model._features.names) in ({"a", "b", "d"}, {"a", "c", "d"})


@pytest.mark.parametrize("kind", ["dense", "csr", "frame"])
@pytest.mark.parametrize("optimizer", ["sfw", "one-sample", "pairwise-memory", "FW", "SVRF"])
def test_matrices_learn_as_their_rows_do(optimizer, kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 60)) * (rng.random((90, 60)) < 0.1)
    X[:40, 30:] = 0.0
    y = X[:, 0] - X[:, 35]
    model, loop = (model_of(optimizer, "l1", FWRegressor) for _ in range(2))
    names = [f"w{j}" for j in range(60)] if kind == "frame" else range(60)
    for x, label in zip(X, y.tolist(), strict=True):
        loop.learn_one({name: value for name, value in zip(names, x.tolist(), strict=True) if value}, label)
    if kind == "frame":
        frame = pd.DataFrame(X, columns=names)
        model.learn_many(frame[:50], pd.Series(y[:50]))
        model.learn_many(frame[50:], pd.Series(y[50:]))
    else:
        matrix = X if kind == "dense" else sparse.csr_array(X)
        model.learn_arrays(matrix[:50], y[:50])
        model.learn_arrays(matrix[50:], y[50:])
    assert state_of(model) == state_of(loop)
    assert len(model._features) <= MOST
    assert seen_last(model) == seen_last(loop)


def test_columns_that_fit_are_dated_by_their_rows():
    X = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    model = FWRegressor(sets.L1Ball(1.0), max_names=3, intercept=False)
    model.learn_arrays(X, [1.0, 1.0, 1.0])
    assert dict(zip(model._features.names, model._features.seen.tolist(), strict=False)) == {0: 1, 1: 2, 2: 3}


def test_a_row_that_cannot_be_learned_is_named():
    X = np.eye(8)
    X[5, 2] = np.nan
    model = FWRegressor(sets.L1Ball(1.0), max_names=3, intercept=False)
    with pytest.raises(SampleError, match=r"row 5: feature 2 is nan"):
        model.learn_arrays(X, np.ones(8))
    assert model.n_samples == 5


def test_models_whose_names_do_not_fit_together_are_merged_all_the_same():
    parts = [FWRegressor(sets.L1Ball(3.0), seed=1, max_names=MOST, intercept=False) for _ in range(2)]
    for k, part in enumerate(parts):
        learn(part, words(40, seed=k))
    whole = parts[0].merged(parts[1:])
    for name in {**parts[0].weights, **parts[1].weights}:
        mean = np.mean([part.weights.get(name, 0.0) for part in parts])
        assert whole.weights.get(name, 0.0) == pytest.approx(mean)
    learn(whole, words(40, seed=5))
    assert len(whole._features) <= MOST


@pytest.mark.parametrize("constraint", [sets.L1Ball(9.0), sets.L2Ball(9.0), sets.NuclearBall(10.0)], ids=str)
@pytest.mark.parametrize("optimizer", [None, "one-sample", "sfw", "SVRF", "FW", "ofw-adversarial", "adaptive"])
def test_several_classes(optimizer, constraint):
    model, turned = (
        FWSoftmax(constraint, FAMILY[optimizer]() if optimizer else None, seed=1, max_names=MOST) for _ in range(2)
    )
    for i, (x, y) in enumerate(words(60)):
        label = "abc"[int(np.clip(y, -1, 1)) + 1]
        model.learn_one(x, label)
        turned.learn_one(dict(reversed(x.items())), label)
        assert model._run.x.shape[1] == len(model._features.names) == model._run.n_features <= MOST
        if i == 30:
            model = codec.loads(codec.dumps(model))
    assert state_of(model) == state_of(turned)
    assert model._run.x.tolist() == turned._run.x.tolist()
    assert model.violation <= 1e-6
    both = model.merged([turned])
    assert both.predict_proba_one(x) == pytest.approx(model.predict_proba_one(x))


def test_what_cannot_be_asked_for():
    for wrong in (0, -1, 2.5, "many"):
        with pytest.raises((ValueError, TypeError), match="max_names"):
            FWRegressor(sets.L1Ball(1.0), max_names=wrong, intercept=False)
    with pytest.raises(ValueError, match="max_names is for sets of any dimension"):
        FWRegressor(sets.Box([-1.0, -1.0], [1.0, 1.0]), max_names=2, intercept=False)
    with pytest.raises(ValueError, match="more than max_names"):
        FWSoftmax(max_names=2).minimize(np.eye(3), [0, 1, 2])
    assert FWRegressor(sets.L1Ball(1.0), max_names=7, intercept=False).clone().max_names == 7
