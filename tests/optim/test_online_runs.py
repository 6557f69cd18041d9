"""Every optimizer, sample by sample, against its paper's pseudocode on dense vectors."""

import warnings

import numpy as np
import pytest
from river import optim as river_optim
from support.oracles import (
    AdaptiveOFWOracle,
    AdversarialOFWOracle,
    MomentumOracle,
    OFWOracle,
    OneSampleOracle,
    OwnSquared,
    ProjectedOracle,
    SFWOracle,
    Translated,
)
from support.streams import D, as_dict, stream

from fwonline import losses, optim, sets
from fwonline.checkpoint import codec
from fwonline.exceptions import CheckpointError, SampleError
from fwonline.linear_model import FWClassifier, FWRegressor
from fwonline.optim.schedules import AdaGradStep, Harmonic, Power, Schedule, ShortStep

RNG = np.random.default_rng(5)
LOWER, UPPER = np.array([-1.0, 0.0, 0.5, -2.0, -1.0, 0.0]), np.array([1.0, 0.4, 1.5, -0.5, 0.0, 0.0])

SETS = {
    "l1": sets.L1Ball(2.0),
    "l2": sets.L2Ball(1.5),
    "linf": sets.LInfBall(0.5),
    "box": sets.Box(-1.0, 2.0),
    "box-off-origin": sets.Box(0.5, 2.0),
    "box-arrays": sets.Box(LOWER, UPPER),
    "simplex": sets.ProbabilitySimplex(1.5),
    "unit-simplex": sets.UnitSimplex(1.5),
    "own-set": Translated(1.0, 0.25),
    "k-sparse": sets.KSparseBall(2, 1.5),
    "hull": sets.ConvexHull(np.random.default_rng(1).normal(size=(9, D))),
}
TWO = Harmonic()
ALGORITHMS = {
    "sfw": (lambda: optim.SFW(memory=7), lambda *a, **k: SFWOracle(*a, memory=7, **k), TWO),
    "sfw-replays": (
        lambda: optim.SFW(memory=9, batch_size=3, steps_per_sample=4),
        lambda *a, **k: SFWOracle(*a, memory=9, batch_size=3, steps=4, seed=3, **k),
        TWO,
    ),
    "sfw-memory-1": (
        lambda: optim.SFW(memory=1, steps_per_sample=2),
        lambda *a, **k: SFWOracle(*a, memory=1, steps=2, seed=3, **k),
        TWO,
    ),
    "momentum": (optim.MomentumFW, MomentumOracle, Harmonic(offset=8.0)),
    "momentum-batches": (
        lambda: optim.MomentumFW(batch_size=3),
        lambda *a, **k: MomentumOracle(*a, batch_size=3, **k),
        Harmonic(offset=8.0),
    ),
    "one-sample": (optim.OneSampleFW, OneSampleOracle, Power(1.0)),
    "one-sample-1": (
        lambda: optim.OneSampleFW(a=1.0, schedule=TWO),
        lambda *a, **k: OneSampleOracle(*a, exponent=1.0, **k),
        TWO,
    ),
    "ofw": (optim.OFW, OFWOracle, Power(0.5)),
    "ofw-a": (lambda: optim.OFW(a=0.75), lambda *a, **k: OFWOracle(*a, a=0.75, **k), Power(0.75)),
    "ofw-adversarial": (optim.AdversarialOFW, AdversarialOFWOracle, Power(0.5, 2.0)),
    "ofw-adversarial-bounded": (
        lambda: optim.AdversarialOFW(a=0.6, horizon=50, gradient_bound=2.0),
        lambda *a, **k: AdversarialOFWOracle(*a, horizon=50, bound=2.0, **k),
        Power(0.6, 2.0),
    ),
    "adaptive": (
        lambda: optim.AdaptiveOFW(horizon=20),
        lambda *a, **k: AdaptiveOFWOracle(*a, horizon=20, block=5, tolerance=0.05 / np.sqrt(20), **k),
        None,
    ),
    "adaptive-bounded": (
        lambda: optim.AdaptiveOFW(horizon=10, block=3, tolerance=1e-3, gradient_bound=1.0),
        lambda *a, **k: AdaptiveOFWOracle(*a, horizon=10, block=3, tolerance=1e-3, bound=1.0, **k),
        None,
    ),
    "projected": (
        lambda: optim.ProjectedSGD(0.3),
        lambda *a, **k: ProjectedOracle(*a, step=0.3, **k),
        None,
    ),
    "projected-batches": (
        lambda: optim.ProjectedSGD(0.3, batch_size=4),
        lambda *a, **k: ProjectedOracle(*a, step=0.3, batch_size=4, **k),
        None,
    ),
}
ONE_SET_EACH = [
    "sfw-replays",
    "momentum",
    "one-sample",
    "ofw",
    "ofw-adversarial",
    "adaptive",
    "projected",
    "projected-batches",
]


def follow(model, oracle, X, y, atol=1e-10):
    """Learn a stream with both, and compare them after every sample."""
    for i, (x, label) in enumerate(zip(X, y.tolist(), strict=True)):
        z = float(x @ oracle.w) + oracle.b
        loss = oracle.loss(label, z)
        model.learn_one(as_dict(x), label)
        oracle.learn(x, label)
        np.testing.assert_allclose(model._run.weights, oracle.w, rtol=0, atol=atol, err_msg=f"sample {i}")
        assert model.last_sample.prediction == pytest.approx(z, abs=1e-9)
        assert model.last_sample.loss == pytest.approx(loss, abs=1e-9)
        np.testing.assert_allclose(model.gap, oracle.gap, rtol=1e-8, atol=1e-9)
        assert model.intercept_ == pytest.approx(oracle.b, abs=1e-9)
        assert model.violation < 1e-12 or not oracle.t  # a batch may take a few samples to its first step
    assert model.n_samples == len(y)


def allowed(name, constraint):
    return not name.startswith("projected") or constraint.can_project


CASES = [(a, s) for a in ALGORITHMS for s in SETS if allowed(a, SETS[s])]


@pytest.mark.parametrize(("algorithm", "where"), CASES)
def test_each_on_every_set(algorithm, where):
    make, oracle, schedule = ALGORITHMS[algorithm]
    constraint, loss = SETS[where], river_optim.losses.Squared()
    by_parts = {"by_parts": True} if algorithm.startswith("sfw") and where in ("own-set", "k-sparse", "hull") else {}
    X, y = stream()
    follow(
        FWRegressor(constraint, make(), seed=3, intercept=False),
        oracle(constraint, loss, schedule, D, **by_parts),
        X,
        y,
    )


@pytest.mark.parametrize(("algorithm", "where"), [(a, s) for a, s in CASES if s in ("l1", "l2", "simplex", "own-set")])
def test_a_loss_of_ones_own_runs_by_parts_and_learns_the_same(algorithm, where):
    make = ALGORITHMS[algorithm][0]
    constraint = SETS[where]
    X, y = stream(seed=1)
    own = FWRegressor(constraint, make(), loss=OwnSquared(), seed=3, intercept=False)
    compiled = FWRegressor(constraint, make(), seed=3, intercept=False)
    for x, label in zip(X, y.tolist(), strict=True):
        own.learn_one(as_dict(x), label)
        compiled.learn_one(as_dict(x), label)
        np.testing.assert_allclose(own._run.weights, compiled._run.weights, rtol=0, atol=1e-9)
        assert own.last_sample.loss == pytest.approx(compiled.last_sample.loss, abs=1e-9)
    assert own.cumulative_loss == pytest.approx(compiled.cumulative_loss)


# Not a memory of one on a simplex: there all but a few derivatives are 0 up to rounding, and any atom will do.
@pytest.mark.parametrize(
    ("algorithm", "where"),
    [
        (a, s)
        for a in ALGORITHMS
        for s in ("l1", "l2", "simplex", "unit-simplex")
        if not (a == "sfw-memory-1" and s.endswith("simplex"))
    ],
)
def test_sparse_samples(algorithm, where):
    """Features absent from a sample, empty samples, and features that first appear along the way."""
    make, oracle, schedule = ALGORITHMS[algorithm]
    constraint = SETS[where]
    X, y = stream(density=0.4, seed=2)
    X[:20, 3:] = 0.0
    X[30] = 0.0
    model = FWRegressor(constraint, make(), seed=3, intercept=False)
    seen = oracle(constraint, river_optim.losses.Squared(), schedule, D)
    for i, (x, label) in enumerate(zip(X, y.tolist(), strict=True)):
        # On a simplex a feature of weight 0 is not the same as none, so there they are all named at once.
        named_at_once = i == 0 and where.endswith("simplex")
        model.learn_one(dict(enumerate(x.tolist())) if named_at_once else as_dict(x), label)
        seen.learn(x, label)
        weights = np.array([model.weights.get(j, 0.0) for j in range(D)])
        np.testing.assert_allclose(weights, seen.w, rtol=0, atol=1e-10)


@pytest.mark.parametrize("where", ["l1", "box", "l2"])
def test_a_batch_under_way_is_saved(where):
    """A feature may enter, and a sample be refused, within a batch of gradient steps."""
    X, y = stream(density=0.4, seed=5)
    X[:10, 3:] = 0.0
    model = FWRegressor(SETS[where], optim.ProjectedSGD(0.3, batch_size=4), seed=3, intercept=False)
    oracle = ProjectedOracle(SETS[where], river_optim.losses.Squared(), None, D, step=0.3, batch_size=4)
    for i, (x, label) in enumerate(zip(X, y.tolist(), strict=True)):
        model.learn_one(as_dict(x), label)
        oracle.learn(x, label)
        with pytest.raises(SampleError):
            model.learn_one({0: 1.0, "new": np.nan}, 1.0)
        if i % 4 != 3:
            model = codec.loads(codec.dumps(model))
        np.testing.assert_allclose([model.weights.get(j, 0.0) for j in range(D)], oracle.w, rtol=0, atol=1e-10)
    assert model.optimizer.n_steps == oracle.t == 17
    assert model.optimizer.n_gradients == 70
    state = model._run.__getstate__()
    assert state["scalars"]["pending"] > 0
    assert model._run.it.v.size > D  # so that a list may name what is no feature
    for wrong in ({"changed": state["changed"] + D}, {"listed": 1 - state["listed"]}, {"changed": np.zeros(2, int)}):
        damaged = codec.loads(codec.dumps(model))
        damaged._run.own = damaged._run.own._replace(**wrong)
        with pytest.raises(CheckpointError, match="ProjectedSGDRun"):
            codec.loads(codec.dumps(damaged))


LOSSES = {
    "huber": (river_optim.losses.Huber(0.5), False),
    "absolute": (river_optim.losses.Absolute(), False),
    "quantile": (river_optim.losses.Quantile(0.3), False),
    "poisson": (river_optim.losses.Poisson(), False),
    "epsilon": (losses.EpsilonInsensitive(0.2), False),
    "log": (river_optim.losses.Log(weight_pos=2.0), True),
    "hinge": (river_optim.losses.Hinge(), True),
    "squared-hinge": (losses.SquaredHinge(), True),
    "smooth-hinge": (losses.SmoothHinge(0.5), True),
}


class Verbatim:
    """A loss whose value the test does not look at: river's value of `Quantile` belongs to another quantile."""

    def __init__(self, loss, value):
        self.gradient, self.value = loss.gradient, value

    def __call__(self, y_true, y_pred):
        return float(self.value(np.array([float(y_true)]), np.array([y_pred]))[0])


@pytest.mark.parametrize("algorithm", ONE_SET_EACH)
@pytest.mark.parametrize("which", LOSSES)
def test_losses(which, algorithm):
    loss, binary = LOSSES[which]
    make, oracle, schedule = ALGORITHMS[algorithm]
    X, y = stream(seed=4, labels=binary, n=40)
    kind = FWClassifier if binary else FWRegressor
    written = Verbatim(loss, losses.vector_loss(loss)[0])
    follow(kind(SETS["l1"], make(), loss=loss, seed=3, intercept=False), oracle(SETS["l1"], written, schedule, D), X, y)


@pytest.mark.parametrize("where", ["l1", "linf", "own-set"])
@pytest.mark.parametrize("algorithm", [a for a in ALGORITHMS if a != "sfw-memory-1"])
def test_intercept(algorithm, where):
    """An online Newton step outside the constraint: for the squared loss, a running mean of residuals."""
    if not allowed(algorithm, SETS[where]):
        pytest.skip("a set without a projection")
    make, oracle, schedule = ALGORITHMS[algorithm]
    by_parts = {"by_parts": True} if algorithm.startswith("sfw") and where == "own-set" else {}
    X, y = stream(seed=6)
    follow(
        FWRegressor(SETS[where], make(), intercept=True, seed=3),
        oracle(SETS[where], river_optim.losses.Squared(), schedule, D, intercept=True, **by_parts),
        X,
        y + 100.0,
        atol=1e-9,
    )


def test_intercept_of_a_classifier():
    X, _ = stream(seed=7, n=200)
    y = np.random.default_rng(8).random(200) < 0.8
    loss = river_optim.losses.Log()
    model = FWClassifier(sets.L1Ball(1.0), optim.SFW(memory=20), intercept=True)
    follow(model, SFWOracle(sets.L1Ball(1.0), loss, TWO, D, memory=20, intercept=True), X, y)
    assert 0.7 < model.predict_proba_one({})[True] < 0.9


class Constant(Schedule):
    def gamma(self, t, gap, dist_sq):
        return 0.1


class Remembering(Schedule):
    """A schedule that reads all it is told."""

    def gamma(self, t, gap, dist_sq):
        return min(1.0, max(gap, 0.0) / (1.0 + dist_sq + t))


SCHEDULES = {
    "floor": Harmonic(floor=0.3),
    "restart": Harmonic(restart=5),
    "always-whole": Harmonic(restart=1),
    "restart-and-floor": Harmonic(offset=3.0, floor=0.1, restart=7),
    "power": Power(0.8),
    "whole": Power(0.0),
    "short": ShortStep(4.0),
    "adagrad": AdaGradStep(0.5),
    "constant": Constant(),
    "reads-all": Remembering(),
}


@pytest.mark.parametrize("where", ["l1", "l2", "box-arrays", "simplex", "unit-simplex"])
@pytest.mark.parametrize("which", SCHEDULES)
@pytest.mark.parametrize("algorithm", ["sfw", "momentum", "one-sample"])
def test_schedules(algorithm, which, where):
    schedule = SCHEDULES[which]
    kind = {"sfw": optim.SFW, "momentum": optim.MomentumFW, "one-sample": optim.OneSampleFW}[algorithm]
    make = {"memory": 10, "batch_size": 2} if algorithm == "sfw" else {}
    oracle = {"sfw": SFWOracle, "momentum": MomentumOracle, "one-sample": OneSampleOracle}[algorithm]
    told = {"memory": 10, "batch_size": 2, "seed": 3} if algorithm == "sfw" else {}
    X, y = stream(seed=9, n=40)
    follow(
        FWRegressor(SETS[where], kind(schedule=schedule, **make), seed=3, intercept=False),
        oracle(SETS[where], river_optim.losses.Squared(), schedule.clone(), D, **told),
        X,
        y,
    )


@pytest.mark.parametrize("where", ["l1", "l2", "simplex", "box"])
@pytest.mark.parametrize("loss", [river_optim.losses.Huber(0.5), OwnSquared()], ids=["compiled", "own"])
def test_ofw_forgets_its_samples_beyond_the_cap_and_goes_on_by_recursion(loss, where):
    model = FWRegressor(SETS[where], optim.OFW(memory=25), loss=loss, intercept=False)
    oracle = OFWOracle(SETS[where], loss, Power(0.5), D, memory=25)
    X, y = stream(seed=10)
    exact = []
    for x, label in zip(X, y.tolist(), strict=True):
        model.learn_one(as_dict(x), label)
        oracle.learn(x, label)
        exact.append(model.optimizer.is_exact)
        np.testing.assert_allclose(model._run.weights, oracle.w, rtol=0, atol=1e-10)
    assert exact == [True] * 25 + [False] * 45
    assert model.exact_gap is None
    assert len(model._run.mem.idx) == 0


@pytest.mark.parametrize("where", ["l1", "l2", "own-set"])
def test_ofw_knows_the_same_gradient_from_statistics_and_from_samples(where):
    X, y = stream(seed=11, n=150, density=0.7)
    models = [FWRegressor(SETS[where], optim.OFW(), loss=loss, intercept=True) for loss in (None, OwnSquared())]
    for x, label in zip(X, y.tolist(), strict=True):
        for model in models:
            model.learn_one(as_dict(x), label)
        np.testing.assert_allclose(models[0]._run.weights, models[1]._run.weights, rtol=0, atol=1e-9)
        assert models[0].exact_gap == pytest.approx(models[1].exact_gap, abs=1e-8)
        assert all(model.optimizer.is_exact for model in models)


def test_ofw_lets_its_statistics_go_when_there_are_too_many_features():
    model = FWRegressor(sets.L1Ball(1.0), optim.OFW(max_features=3), intercept=False)
    for t in range(20):
        model.learn_one({0: 1.0, 1: t % 2, 2: t % 3}, t % 2)
    assert model.optimizer.is_exact
    weights, gap = model.weights, model.exact_gap
    assert gap >= 0.0
    for t in range(200):
        model.learn_one({0: 1.0, 1: t % 2, 2: t % 3, 3: t % 5}, t % 2)
        assert not model.optimizer.is_exact
        assert model.exact_gap is None
        assert model.violation < 1e-12
    assert model._run.own.H.size == 0
    assert model.weights[1] > 0.6
    assert abs(model.weights.get(3, 0.0)) < 0.1
    assert weights.keys() <= {0, 1, 2}


def test_projected_sgd_has_no_gap_and_refuses_a_set_it_cannot_project_on():
    with pytest.raises(ValueError, match="no projection"):
        FWRegressor(Translated(), optim.ProjectedSGD(), intercept=False)
    model = FWRegressor(sets.L1Ball(1.0), optim.ProjectedSGD(), intercept=False)
    model.learn_one({"a": 1.0}, 1.0)
    assert np.isnan(model.gap)
    assert model.exact_gap is None


def test_counters():
    X, y = stream(n=30)
    sfw = FWRegressor(sets.L1Ball(1.0), optim.SFW(memory=10, batch_size=2, steps_per_sample=3), seed=0, intercept=False)
    momentum = FWRegressor(sets.L1Ball(1.0), optim.MomentumFW(batch_size=4), intercept=False)
    one = FWRegressor(sets.L1Ball(1.0), optim.OneSampleFW(), intercept=False)
    ofw = FWRegressor(sets.L1Ball(1.0), optim.OFW(), intercept=False)
    projected = FWRegressor(sets.L1Ball(1.0), optim.ProjectedSGD(), intercept=False)
    for model in (sfw, momentum, one, ofw, projected):
        assert (model.optimizer.n_steps, model.optimizer.n_gradients, model.optimizer.n_lmo) == (0, 0, 0)
        model.learn_arrays(X, y)
    # The first sample is alone in its batches; of the others' first batch one derivative is that of entering.
    assert sfw.optimizer.n_gradients == (1 + 0 + 1 + 1) + 29 * (1 + 1 + 2 + 2)
    assert (sfw.optimizer.n_steps, sfw.optimizer.n_lmo) == (90, 90)
    assert (momentum.optimizer.n_steps, momentum.optimizer.n_gradients) == (7, 30)
    assert (one.optimizer.n_steps, one.optimizer.n_gradients) == (30, 60)
    assert (ofw.optimizer.n_steps, ofw.optimizer.n_gradients, ofw.optimizer.n_exact_gradients) == (30, 30, 30)
    assert (projected.optimizer.n_steps, projected.optimizer.n_gradients, projected.optimizer.n_lmo) == (30, 30, 0)


def test_counters_do_not_depend_on_how_a_step_runs():
    X, y = stream(n=30)
    for make in (
        lambda: optim.SFW(memory=10, batch_size=2, steps_per_sample=3),
        lambda: optim.MomentumFW(2),
        optim.OneSampleFW,
        optim.ProjectedSGD,
    ):
        counts = []
        for loss in (None, OwnSquared()):
            model = FWRegressor(sets.L1Ball(1.0), make(), loss=loss, seed=1, intercept=False)
            model.learn_arrays(X, y)
            counts.append((model.optimizer.n_steps, model.optimizer.n_gradients, model.optimizer.n_lmo))
        assert counts[0] == counts[1]


def test_a_floor_too_high_for_the_memory_is_met_by_a_warning():
    with pytest.warns(UserWarning, match=r"floor \* memory / batch_size is 10, expected at most 0.5"):
        optim.SFW(memory=1000, schedule=Harmonic(floor=0.01))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optim.SFW(memory=1000, schedule=Harmonic())
        steady = optim.SFW(memory=1000, batch_size=20, schedule=Harmonic(floor=0.01))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 20))
    y = X[:, :4] @ [2.0, -1.5, 1.0, 2.0] + 0.5 * rng.normal(size=3000)
    model = FWRegressor(sets.L1Ball(8.0), steady, seed=0, intercept=False)
    model.learn_arrays(X[:2000], y[:2000])
    before = model.cumulative_loss
    model.learn_arrays(X[2000:], y[2000:])
    assert model.cumulative_loss - before < 0.5 * 1000
