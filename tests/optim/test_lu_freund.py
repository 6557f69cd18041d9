"""LuFreundFW and the per-sample form of MomentumFW against appendix G of Negiar et al. 2020."""

from __future__ import annotations

import numpy as np
import pytest
from river import checks
from river import optim as river_optim
from scipy import sparse
from support.draws import Draws
from support.oracles import Oracle, OwnSquared, SFWOracle, Translated, atom_of
from support.streams import D, stream

from fwonline import optim, sets
from fwonline.checkpoint import codec
from fwonline.exceptions import CheckpointError
from fwonline.linear_model import FWClassifier, FWRegressor
from fwonline.optim.hindsight import best_fixed_point
from fwonline.optim.schedules import Harmonic

SETS = {
    "l1": sets.L1Ball(2.0),
    "l2": sets.L2Ball(1.5),
    "linf": sets.LInfBall(0.5),
    "box": sets.Box(0.5, 2.0),
    "simplex": sets.ProbabilitySimplex(1.5),
    "unit-simplex": sets.UnitSimplex(1.5),
    "own-set": Translated(1.0, 0.25),
}


class LuFreundOracle(Oracle):
    """Algorithm 3, on the last samples."""

    def __init__(self, *args, memory, batch_size=1, steps=1, seed=None, by_parts=False, **kwargs):
        super().__init__(*args, **kwargs)
        self.memory, self.batch_size, self.steps = memory, batch_size, steps
        self.draws = Draws(seed, steps * batch_size)
        self.by_parts = by_parts
        self.slots = []  # [x, y, sigma, alpha]

    def enter(self, x, y, alpha):
        self.newest = (len(self.seen) - 1) % self.memory
        self.slots[self.newest : self.newest + 1] = [[x, y, float(x @ self.w), alpha]]

    def act(self):
        if not self.by_parts:
            self.draws.need(self.steps * self.batch_size)
        for k in range(self.steps):
            size = min(self.batch_size, len(self.slots))
            self.draws.need(size)
            self.algorithm(self.draws.batch(len(self.slots), size, self.newest if k == 0 else None))

    def algorithm(self, batch):
        n, t = len(self.slots), self.t
        m = n / len(batch)
        r = sum(alpha * x for x, _, _, alpha in self.slots) / n
        s = atom_of(self.constraint, r, self.w)
        if t == 0 and isinstance(self.constraint, Translated) and not self.constraint.contains(self.w):
            self.w = s
        self.gap = float(r @ (self.w - s))
        for i in batch:
            x, y, sigma, _ = self.slots[i]
            sigma += 2.0 * m / (2.0 * m + t + 1.0) * (float(x @ s) - sigma)
            self.slots[i][2:] = sigma, self.loss.gradient(y, sigma + self.b)
        gamma = 2.0 * (2.0 * m + t) / ((t + 1.0) * (4.0 * m + t))
        self.w = (1.0 - gamma) * self.w + gamma * s
        self.t += 1

    def offline(self, X, y, count, first_gradient=False):
        self.slots = [[x, label, float(x @ self.w), 0.0] for x, label in zip(X, y, strict=True)]
        for slot in self.slots if first_gradient else ():
            slot[3] = self.loss.gradient(slot[1], slot[2] + self.b)
        for _ in range(count):
            self.draws.need(self.batch_size)
            self.algorithm(self.draws.batch(len(self.slots), self.batch_size))
        return self.w


class MomentumMemoryOracle(SFWOracle):
    """alpha_i <- alpha_i + rho (f_i' - alpha_i), rho = gamma^(2/3), gamma = 2 / (t + 8); or rho = c / (t + 8)^(2/3)."""

    c = 2.0 ** (2.0 / 3.0)

    def renew(self, batch):
        rho = min(self.c / (self.t + 8.0) ** (2.0 / 3.0), 1.0)
        for i in batch:
            x, y, alpha = self.slots[i]
            self.slots[i][2] = alpha + rho * (self.slope(x, y) - alpha)


class PaperMomentumOracle(MomentumMemoryOracle):
    c = 4.0


EIGHT = Harmonic(offset=8.0)
ALGORITHMS = {
    "lf": (lambda: optim.LuFreundFW(memory=7), lambda *a, **k: LuFreundOracle(*a, memory=7, **k), None),
    "lf-replays": (
        lambda: optim.LuFreundFW(memory=9, batch_size=3, steps_per_sample=4),
        lambda *a, **k: LuFreundOracle(*a, memory=9, batch_size=3, steps=4, **k),
        None,
    ),
    "momentum": (
        lambda: optim.MomentumFW(batch_size=3, memory=9),
        lambda *a, **k: MomentumMemoryOracle(*a, memory=9, batch_size=3, **k),
        EIGHT,
    ),
    "momentum-paper": (
        lambda: optim.MomentumFW(batch_size=3, memory=9, rho=4.0),
        lambda *a, **k: PaperMomentumOracle(*a, memory=9, batch_size=3, **k),
        EIGHT,
    ),
    "momentum-1": (
        lambda: optim.MomentumFW(memory=9),
        lambda *a, **k: MomentumMemoryOracle(*a, memory=9, **k),
        EIGHT,
    ),
}


@pytest.mark.parametrize("loss", [river_optim.losses.Squared(), OwnSquared()], ids=["compiled", "own"])
@pytest.mark.parametrize("where", SETS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_online(algorithm, where, loss):
    make, oracle, schedule = ALGORITHMS[algorithm]
    by_parts = where == "own-set" or isinstance(loss, OwnSquared)
    model = FWRegressor(SETS[where], make(), loss=loss, intercept=not by_parts, seed=3)
    literal = oracle(SETS[where], loss, schedule, D, seed=3, by_parts=by_parts, intercept=not by_parts)
    X, y = stream()
    for x, label in zip(X, (y + 3.0).tolist(), strict=True):
        model.learn_one(dict(enumerate(x.tolist())), label)
        literal.learn(x, label)
        np.testing.assert_allclose(model._run.weights, literal.w, rtol=0, atol=1e-10)
        np.testing.assert_allclose(model.gap, literal.gap, rtol=1e-8, atol=1e-9)
    assert model.violation < 1e-12
    assert model.exact_gap >= -1e-12


@pytest.mark.parametrize("loss", [river_optim.losses.Log(), river_optim.losses.Squared(), OwnSquared()])
@pytest.mark.parametrize("where", ["l1", "l2", "simplex", "linf"])
@pytest.mark.parametrize("algorithm", ["lf-replays", "momentum", "momentum-paper"])
def test_offline(algorithm, where, loss):
    make, oracle, schedule = ALGORITHMS[algorithm]
    X, y = stream(n=40, density=0.6, labels=isinstance(loss, river_optim.losses.Log))
    literal = oracle(SETS[where], loss, schedule, D, seed=8)
    optimizer = make()
    result = optimizer.minimize(sparse.csr_array(X), y, loss=loss, constraint=SETS[where], steps=200, seed=8)
    np.testing.assert_allclose(result.x, literal.offline(X, y, 200), rtol=0, atol=1e-10)
    assert (result.nit, result.n_gradients, result.n_lmo) == (200, 200 * optimizer.batch_size, 200)


@pytest.mark.parametrize("loss", [river_optim.losses.Log(), OwnSquared()], ids=["log", "own"])
@pytest.mark.parametrize("where", ["l1", "l2", "simplex"])
def test_a_whole_gradient_comes_first_as_in_the_paper(where, loss):
    X, y = stream(n=40, density=0.6, labels=isinstance(loss, river_optim.losses.Log))
    literal = LuFreundOracle(SETS[where], loss, None, D, memory=40, batch_size=3, seed=8)
    optimizer = optim.LuFreundFW(batch_size=3, first_gradient=True)
    result = optimizer.minimize(sparse.csr_array(X), y, loss=loss, constraint=SETS[where], steps=150, seed=8)
    np.testing.assert_allclose(result.x, literal.offline(X, y, 150, first_gradient=True), rtol=0, atol=1e-10)
    assert (result.n_gradients, result.n_exact_gradients) == (40 + 150 * 3, 1)


def test_the_steps_are_those_of_a_weighted_mean_of_atoms():
    """Lu and Freund's gamma_t gives atom i the weight (2n + i) of their sum."""
    X, y = stream(n=20)
    seen = []
    optim.LuFreundFW().minimize(
        X, y, constraint=SETS["l1"], steps=12, seed=0, callback=lambda state: seen.append(state.x) and None
    )
    gammas = [2.0 * (40 + t) / ((t + 1.0) * (80 + t)) for t in range(12)]
    before = [np.zeros(D), *seen[:-1]]
    atoms = [(new - (1.0 - g) * old) / g for new, old, g in zip(seen, before, gammas, strict=True)]
    weights = 40.0 + np.arange(12)
    np.testing.assert_allclose(seen[-1], weights @ np.array(atoms) / weights.sum(), atol=1e-12)
    np.testing.assert_allclose(np.abs(atoms[1:]).sum(axis=1), SETS["l1"].radius, atol=1e-9)


WIDE = {
    "sfw": (lambda: optim.SFW(memory=30, batch_size=25), SFWOracle, Harmonic()),
    "lf": (lambda: optim.LuFreundFW(memory=30, batch_size=25), LuFreundOracle, None),
    "momentum": (lambda: optim.MomentumFW(batch_size=25, memory=30), MomentumMemoryOracle, EIGHT),
}


@pytest.mark.parametrize("where", ["l1", "simplex", "unit-simplex", "l2"])
@pytest.mark.parametrize("algorithm", WIDE)
def test_batches_that_change_most_of_the_gradient(algorithm, where):
    """Bounds of the argmax are then made anew at once."""
    make, oracle, schedule = WIDE[algorithm]
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 300)) * (rng.random((60, 300)) < 0.3)
    y = X[:, 0] - X[:, 4] + 0.1 * rng.normal(size=60)
    loss = river_optim.losses.Squared()
    literal = oracle(SETS[where], loss, schedule, 300, memory=30, batch_size=25, seed=8)
    result = make().minimize(X, y, loss=loss, constraint=SETS[where], steps=300, seed=8)
    np.testing.assert_allclose(result.x, literal.offline(X, y, 300), rtol=0, atol=1e-10)
    assert result.gap_estimate == pytest.approx(literal.gap, abs=1e-9)


@pytest.mark.parametrize("make", [lambda: optim.LuFreundFW(50, 5), lambda: optim.MomentumFW(5, memory=50)])
def test_reaches_the_best_fixed_point(make):
    X, y = stream(n=100)
    result = make().minimize(X, y, constraint=sets.L1Ball(1.0), steps=40_000, seed=0, tol=1e-2)
    assert result.success, result.message
    best = best_fixed_point(X, y, loss=None or river_optim.losses.Squared(), constraint=sets.L1Ball(1.0), tol=1e-9)
    assert best.lower - 1e-9 <= result.fun <= best.upper + result.gap


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_saved_state_goes_on_the_same(algorithm):
    X, y = stream(density=0.4)
    model = FWRegressor(sets.L1Ball(2.0), ALGORITHMS[algorithm][0](), seed=3, intercept=False)
    copy = None
    for i, (x, label) in enumerate(zip(X, y.tolist(), strict=True)):
        sample = {j: value for j, value in enumerate(x.tolist()) if value}
        model.learn_one(sample, label)
        if copy is not None:
            copy.learn_one(sample, label)
            assert copy.weights == model.weights
        if i == 30:
            copy = codec.loads(codec.dumps(model))


def test_a_bad_saved_state_is_refused():
    model = FWRegressor(sets.L1Ball(2.0), optim.LuFreundFW(memory=5), intercept=False)
    model.learn_one({"a": 1.0}, 1.0)
    model._run.own = model._run.own._replace(sigma=np.zeros(3))
    with pytest.raises(CheckpointError, match=r"LuFreundRun\.sigma"):
        codec.loads(codec.dumps(model))


def test_counters_and_mistakes():
    X, y = stream(n=30)
    lf = FWRegressor(
        sets.L1Ball(1.0), optim.LuFreundFW(memory=10, batch_size=2, steps_per_sample=3), seed=0, intercept=False
    )
    lf.learn_arrays(X, y)
    # Every sample's own derivative, and those of the batches: the first sample is alone in its three.
    assert lf.optimizer.n_gradients == 30 + 3 * 1 + 29 * 3 * 2
    assert (lf.optimizer.n_steps, lf.optimizer.n_lmo) == (90, 90)
    momentum = FWRegressor(sets.L1Ball(1.0), optim.MomentumFW(batch_size=3, memory=10), seed=0, intercept=False)
    momentum.learn_arrays(X, y)
    assert momentum.optimizer.n_gradients == 30 + 0 + 1 + 28 * 2
    for make in (optim.LuFreundFW, optim.MomentumFW):
        with pytest.raises(ValueError, match="batch_size must be at most memory = 3"):
            make(memory=3, batch_size=4)
        with pytest.raises(ValueError, match="memory must be an integer >= 1"):
            make(memory=0)
    with pytest.raises(ValueError, match="steps_per_sample must be an integer >= 1"):
        optim.LuFreundFW(steps_per_sample=0)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [FWRegressor, FWClassifier])
@pytest.mark.parametrize("algorithm", ["lf-replays", "momentum"])
def test_rivers_suite(algorithm, estimator):
    model = estimator(sets.L1Ball(5.0), ALGORITHMS[algorithm][0](), seed=1, intercept=False)
    for check in checks.yield_checks(model):
        check(model.clone())
