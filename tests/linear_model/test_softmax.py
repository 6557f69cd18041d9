"""FWSoftmax: the pseudocode on matrices, river's suite, classes and features that come later, saved and refused."""

import math

import numpy as np
import pandas as pd
import pytest
from river import checks
from river import optim as river_optim
from scipy import sparse
from support import finite_sum_oracles as oracles

from fwonline import optim, sets
from fwonline.checkpoint import codec
from fwonline.exceptions import SampleError
from fwonline.linear_model import FWSoftmax
from fwonline.monitors import Feasibility, Gap, Regret

OPTIMIZERS = {
    "default": None,
    "one-sample": optim.OneSampleFW(),
    "fw": optim.FW(memory=20),
    "sfw": optim.SFW(memory=20, batch_size=3),
    "momentum": optim.MomentumFW(),
    "sgd": optim.ProjectedSGD(0.3),
    "sgd-batches": optim.ProjectedSGD(0.3, batch_size=4),
    "hazan-luo": optim.HazanLuoFW(memory=20),
    "svrf": optim.SVRF(memory=20, batch_size=3),
    "scgs": optim.SCGS(memory=20, lipschitz=3.0),
    "storc": optim.STORC(memory=20, lipschitz=3.0, diameter=2.0, batch_size=5),
    "svrg": optim.ProjectedSVRG(memory=20),
    "momentum-by-sample": optim.MomentumFW(memory=20, batch_size=3),
    "lu-freund": optim.LuFreundFW(memory=20, batch_size=3),
    "ofw": optim.OFW(memory=40),
    "ofw-adversarial": optim.AdversarialOFW(),
    "adaptive": optim.AdaptiveOFW(horizon=60),
}
SETS = {"nuclear": sets.NuclearBall(4.0), "l1": sets.L1Ball(4.0), "l2": sets.L2Ball(2.0), "box": sets.Box(0.1, 2.0)}


def data(n=120, d=5, k=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (X @ rng.normal(size=(d, k)) + 0.5 * rng.normal(size=(n, k))).argmax(axis=1)


@pytest.mark.parametrize("check", list(checks.yield_checks(FWSoftmax())), ids=lambda c: getattr(c, "__name__", str(c)))
def test_river_suite(check):
    check(FWSoftmax(sets.NuclearBall(5.0), seed=1))


@pytest.mark.slow
def test_river_suite_with_memory():
    model = FWSoftmax(sets.NuclearBall(5.0), OPTIMIZERS["svrf"].clone(), seed=1)
    for check in checks.yield_checks(model):
        check(model.clone())


PSEUDOCODE = {
    "hazan-luo": (optim.HazanLuoFW(), oracles.hazan_luo, {}),
    "svrf": (optim.SVRF(batch_size=9, epoch=11), oracles.svrf, {"batch": 9, "epoch": 11}),
    "scgs": (optim.SCGS(lipschitz=1.0, diameter=1.0), oracles.scgs, {"lipschitz": 1.0, "diameter": 1.0}),
    "storc": (
        optim.STORC(lipschitz=1.0, diameter=1.0, batch_size=20),
        oracles.storc,
        {"lipschitz": 1.0, "diameter": 1.0, "batch": 20},
    ),
    "svrg": (optim.ProjectedSVRG(batch_size=4, step=0.1), oracles.projected_svrg, {"batch": 4, "step": 0.1}),
}


@pytest.mark.parametrize("as_matrix", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("where", ["nuclear", "l1"])
@pytest.mark.parametrize("name", PSEUDOCODE)
def test_minimize_equals_the_pseudocode_on_matrices(name, where, as_matrix):
    optimizer, oracle, parameters = PSEUDOCODE[name]
    X, y = data()
    model = FWSoftmax(SETS[where], optimizer.clone(), seed=3)
    result = model.minimize(as_matrix(X), y, steps=30)
    expected = oracle(oracles.Problem(X, y, "softmax"), SETS[where], (3, 5), 30, 3, **parameters)
    np.testing.assert_allclose(result.x, expected, rtol=0, atol=1e-10)
    assert model.predict_arrays(X).tolist() == (X @ expected.T).argmax(axis=1).tolist()


def test_sfw_and_one_sample_steps_equal_their_formulas():
    X, y = data()
    problem, ball = oracles.Problem(X, y, "softmax"), sets.NuclearBall(4.0)
    for name in ("sfw", "default"):
        model = FWSoftmax(ball, OPTIMIZERS[name] and optim.SFW(memory=20), seed=3)
        working = model.optimizer or optim.OneSampleFW()
        W, estimate, gamma = np.zeros((3, 5)), np.zeros((3, 5)), 1.0
        table = {}
        old = W
        for t, (x, label) in enumerate(zip(X, y, strict=True)):
            model.learn_one(dict(enumerate(x.tolist())), "abc"[label])
            position = model.classes.index("abc"[label])
            problem.y[t] = position  # classes are counted as they come
            seen = len(model.classes)
            fresh = gradient(problem, W, t, seen)
            if name == "sfw":
                table[t] = fresh
                table.pop(t - 20, None)
                estimate = sum(table.values()) / len(table)
            else:
                kept = 0.0 if gamma >= 1.0 else 1.0 - (t + 1.0) ** -working.a
                estimate = fresh + kept * (estimate - gradient(problem, old, t, seen))
            gamma, old = (2.0 / (t + 2.0) if name == "sfw" else 1.0 / (t + 1.0)), W
            W = W.copy()
            W[:seen] = (1 - gamma) * W[:seen] + gamma * ball.lmo(estimate[:seen]).to_dense()
            np.testing.assert_allclose(model._run.weights, W[:seen], atol=1e-9)


def test_lu_freund_begins_with_a_whole_gradient():
    X, y = data()
    problem, ball = oracles.Problem(X, y, "softmax"), SETS["l2"]
    model = FWSoftmax(ball, optim.LuFreundFW(batch_size=3, first_gradient=True), seed=3)
    seen = []
    result = model.minimize(X, y, steps=2, callback=lambda state: seen.append((state.x, state.gap)) and None)
    start = problem.full(np.zeros((3, 5)))
    np.testing.assert_allclose(seen[0][0], ball.lmo(start).to_dense(), atol=1e-10)  # gamma_0 = 1
    assert seen[0][1] == pytest.approx(-ball.lmo(start).dot(start))
    assert (result.n_gradients, result.n_exact_gradients) == (120 + 6, 1)


def test_projected_mini_batches_equal_their_formula():
    X, y = data()
    problem, ball = oracles.Problem(X, y, "softmax"), SETS["l2"]
    model = FWSoftmax(ball, optim.ProjectedSGD(0.5, batch_size=4), seed=3)
    W, batch, steps = np.zeros((3, 5)), np.zeros((3, 5)), 0
    for t, (x, label) in enumerate(zip(X, y, strict=True)):
        model.learn_one(dict(enumerate(x.tolist())), "abc"[label])
        problem.y[t] = model.classes.index("abc"[label])
        batch = batch + gradient(problem, W, t, len(model.classes))
        if t % 4 == 3:
            W, batch, steps = ball.project(W - 0.5 / math.sqrt(steps + 1.0) * batch / 4), 0.0, steps + 1
        if t % 4 == 1:
            model = codec.loads(codec.dumps(model))
        np.testing.assert_allclose(model._run.weights, W[: len(model.classes)], atol=1e-10)
        assert model.optimizer.n_steps == steps


class Literal:
    """The matrix methods on a data set, one round after another, in numpy; batches by the library's own calls."""

    def __init__(self, X, y, ball, seed):
        self.problem, self.ball, self.n = oracles.Problem(X, y, "softmax"), ball, len(y)
        self.W, self.rng, self.order = np.zeros((3, 5)), np.random.default_rng(seed), []
        self.D = ball.diameter((3, 5))

    def next(self):
        if not len(self.order):
            self.order = self.rng.permutation(self.n)
        i, self.order = self.order[0], self.order[1:]
        return i

    def move(self, r, gamma):
        self.W = oracles.towards(self.W, gamma, self.ball.lmo(r))

    def momentum(self, steps, b):
        alpha = np.zeros((self.n, 3, 5))
        for t in range(steps):
            rho = (2.0 / (t + 8.0)) ** (2.0 / 3.0)
            for i in self.rng.choice(self.n, b, replace=False):
                alpha[i] += rho * (self.problem.sample(self.W, i) - alpha[i])
            self.move(alpha.mean(axis=0), 2.0 / (t + 8.0))

    def lu_freund(self, steps, b):
        sigma, alpha, m = np.zeros((self.n, 3)), np.zeros((self.n, 3, 5)), self.n / b
        for t in range(steps):
            s = self.ball.lmo(alpha.mean(axis=0)).to_dense()
            for i in self.rng.choice(self.n, b, replace=False):
                x = self.problem.X[i]
                sigma[i] += 2.0 * m / (2.0 * m + t + 1.0) * (s @ x - sigma[i])
                p = np.exp(sigma[i]) / np.exp(sigma[i]).sum()
                p[self.problem.y[i]] -= 1.0
                alpha[i] = np.outer(p, x)
            gamma = 2.0 * (2.0 * m + t) / ((t + 1.0) * (4.0 * m + t))
            self.W = (1.0 - gamma) * self.W + gamma * s

    def ofw(self, steps, memory):
        plays, d, old = [], 0.0, self.W
        for t in range(steps):
            i = self.next()
            plays.append(i)
            if t < memory:
                d = self.problem.mean(self.W, plays)
            else:
                d = self.problem.sample(self.W, i) + (1.0 - (t + 1.0) ** -0.5) * (d - self.problem.sample(old, i))
            old = self.W
            self.move(d, (t + 1.0) ** -0.5)

    def adversarial(self, steps):
        total, longest = np.zeros((3, 5)), 0.0
        for t in range(steps):
            g = self.problem.sample(self.W, self.next())
            r = (total + 4.0 * longest * (t + 1.0) ** 0.75 / self.D * self.W) / (t + 1.0)
            if r.any():
                self.move(r, min(1.0, 2.0 * (t + 1.0) ** -0.5))
            total, longest = total + g, max(longest, np.linalg.norm(g))

    def adaptive(self, steps, horizon, block):
        y, total, longest, eps = self.W, np.zeros((3, 5)), 0.0, 0.05 / np.sqrt(horizon) * self.D**2
        for t in range(steps):
            total = total + self.problem.sample(self.W, self.next())
            if (t + 1) % block:
                continue
            longest = max(longest, np.linalg.norm(total / block))
            y = y - self.D * np.sqrt(block / horizon) * total / block / longest
            total = np.zeros((3, 5))
            while np.sum((self.W - y) ** 2) > 3.0 * eps:
                away = self.W - self.ball.lmo(self.W - y).to_dense()
                gap = np.vdot(self.W - y, away)
                if gap <= eps:
                    y = y + 2.0 / 3.0 * (self.W - y)
                else:
                    self.W = self.W - min(1.0, gap / np.vdot(away, away)) * away


@pytest.mark.parametrize("where", ["nuclear", "l1"])
@pytest.mark.parametrize(
    ("optimizer", "method", "parameters"),
    [
        (optim.MomentumFW(memory=20, batch_size=4), "momentum", (4,)),
        (optim.LuFreundFW(memory=20, batch_size=4), "lu_freund", (4,)),
        (optim.OFW(memory=25), "ofw", (25,)),
        (optim.AdversarialOFW(), "adversarial", ()),
        (optim.AdaptiveOFW(horizon=40), "adaptive", (40, 7)),
    ],
    ids=lambda it: it if isinstance(it, str) else "",
)
def test_the_other_methods_on_matrices(optimizer, method, parameters, where):
    X, y = data(n=30)
    model = FWSoftmax(SETS[where], optimizer.clone(), seed=3)
    result = model.minimize(X, y, steps=60)
    literal = Literal(X, y, SETS[where], 3)
    getattr(literal, method)(60, *parameters)
    np.testing.assert_allclose(result.x, literal.W, rtol=0, atol=1e-9)


def gradient(problem, W, i, seen):
    out = np.zeros(W.shape)
    out[:seen] = problem.sample(W[:seen], i)
    return out


@pytest.mark.parametrize("where", SETS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_classes_and_features_that_come_later(name, where):
    X, y = data(n=90)
    optimizer = OPTIMIZERS[name]
    model = FWSoftmax(SETS[where], optimizer and optimizer.clone(), seed=0)
    assert model.predict_proba_one({"a": 1.0}) == {}
    assert model.predict_one({}) is None
    names = ["a", 2, ("b",), 3.5, None]
    right = 0
    y[:15] %= 2
    for i, (x, label) in enumerate(zip(X, y, strict=True)):
        sample = {names[j]: float(x[j]) for j in range(3 if i < 30 else 5)}
        right += i >= 45 and model.predict_one(sample) == f"class {label}"
        model.learn_one(sample, f"class {label}")
        assert model.violation <= 1e-9
        proba = model.predict_proba_one(sample)
        assert math.isclose(sum(proba.values()), 1.0)
        if i == 60:
            model = codec.loads(codec.dumps(model))
            copy = codec.loads(codec.dumps(model))
        elif i > 60:
            copy.learn_one(dict(reversed(sample.items())), f"class {label}")
            assert copy.weights == model.weights
    assert set(model.classes) == {"class 0", "class 1", "class 2"}
    assert model._run.x.shape == (3, 5)
    assert model.n_samples == 90
    # Weights of at least 0.1 in all features are no good model, and 90 rounds are few for a regulariser to let go.
    if where != "box" and name != "ofw-adversarial":
        assert right >= 22


def test_arrays_learn_and_predict_as_dicts_do():
    X, y = data()
    one, arrays, frames = (FWSoftmax(sets.NuclearBall(4.0), optim.SVRF(memory=30), seed=1) for _ in range(3))
    for x, label in zip(X, y, strict=True):
        one.learn_one(dict(enumerate(x.tolist())), int(label))
    arrays.learn_arrays(X[:50], y[:50])
    arrays.learn_arrays(sparse.csr_array(X[50:]), y[50:])
    for part in (slice(0, 70), slice(70, None)):
        frames.learn_many(pd.DataFrame(X[part]), pd.Series(y[part], name="label"))
    np.testing.assert_allclose(one._run.weights, arrays._run.weights, atol=1e-12)
    np.testing.assert_allclose(one._run.weights, frames._run.weights, atol=1e-12)
    singly = [one.predict_one(dict(enumerate(x.tolist()))) for x in X]
    assert one.predict_arrays(X).tolist() == singly
    assert frames.predict_many(pd.DataFrame(X)).tolist() == singly
    proba = one.predict_proba_arrays(X)
    first = one.predict_proba_one(dict(enumerate(X[0].tolist())))
    assert first == pytest.approx(dict(zip(one.classes, proba[0], strict=True)))
    frame = frames.predict_proba_many(pd.DataFrame(X))
    np.testing.assert_allclose(frame[list(one.classes)].to_numpy(), proba, atol=1e-12)
    assert "Name" in one.debug_one({0: 1.0, 3: -2.0})


def test_a_refused_sample_leaves_no_trace():
    X, y = data(n=30)
    model = FWSoftmax(sets.NuclearBall(4.0), optim.SVRF(memory=10), seed=1)
    model.learn_arrays(X, y)
    before = codec.dumps(model)
    weights = model.weights
    for sample, label, message in (
        ({"new": float("inf")}, "new class", "feature 'new' is inf"),
        ({0: "text"}, 1, "feature 0 is 'text'"),
        ({0: 1.0}, None, "the label is None"),
        ({0: 1.0}, float("nan"), "the label is nan"),
        ({0: 1.0}, [1], r"the label is \[1\]"),
    ):
        with pytest.raises(SampleError, match=message):
            model.learn_one(sample, label)
    with pytest.raises(SampleError, match="row 1: "):
        model.learn_arrays(np.array([[1.0, 0, 0, 0, 0], [np.nan, 0, 0, 0, 0]]), ["x", "y"])
    assert "y" not in model.classes
    assert "x" in model.classes
    restored = codec.loads(before)
    assert restored.weights == weights
    assert restored.predict_one({}) in restored.classes


def test_what_the_model_says_of_itself():
    X, y = data(n=60)
    model = FWSoftmax(sets.NuclearBall(4.0), optim.SFW(memory=60, batch_size=5), seed=1)
    assert math.isnan(model.gap)
    assert model.exact_gap is None
    model.learn_arrays(X, y)
    last = model.last_sample
    assert last.y == model.classes.index(y[-1])
    assert last.n_features == 5
    problem = oracles.Problem(X, [model.classes.index(c) for c in y.tolist()], "softmax")
    W = model._run.weights
    full = problem.full(W)
    exact = np.vdot(full, W) - model.constraint.lmo(full).dot(full)
    assert model.exact_gap == pytest.approx(exact)
    assert set(model.weights) == {0, 1, 2}
    assert model.weights[model.classes[0]][2] == pytest.approx(W[0, 2])
    assert set(model.intercept_.values()) == {0.0}


def test_minimize_then_go_on_online():
    X, y = data(n=400)
    model = FWSoftmax(sets.NuclearBall(6.0), optim.SVRF(memory=50), seed=1)
    seen = []
    result = model.minimize(X, np.array(["u", "v", "w"])[y], steps=232, callback=lambda s: seen.append(s.x.shape))
    assert seen[0] == (3, 5)
    assert result.nit == 232
    assert result.n_exact_gradients >= 4
    assert result.gap < 0.3
    assert model.classes == ("u", "v", "w")
    np.testing.assert_array_equal(model._run.weights, result.x)
    for x, label in zip(X[:40], y[:40], strict=True):
        model.learn_one(dict(enumerate(x.tolist())), "uvw"[label])
    model.learn_one({9: 1.0}, "new")
    assert len(model.classes) == 4
    assert model.violation <= 1e-9
    again = FWSoftmax(sets.NuclearBall(6.0), optim.FW(), seed=1).minimize(X, y, steps=3, x0=result.x)
    assert again.fun < 2.0


def test_sets_and_optimizers_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="constraint must be a set of matrices of any shape"):
        FWSoftmax(sets.Spectraplex(1.0))
    with pytest.raises(ValueError, match="constraint must be a set of matrices of any shape"):
        FWSoftmax(sets.Box([0.0, 0.0], [1.0, 1.0]))
    with pytest.raises(TypeError, match="does not work on matrices; AdaptiveOFW, AdversarialOFW, FW, HazanLuoFW"):
        FWSoftmax(sets.NuclearBall(1.0), optim.AwayFW())
    with pytest.raises(ValueError, match="no class is known yet"):
        FWSoftmax().predict_arrays(np.ones((2, 2)))
    with pytest.raises(ValueError, match="x0 must be a point of"):
        FWSoftmax(sets.L1Ball(1.0)).minimize(np.ones((2, 2)), [0, 1], x0=np.full((2, 2), 100.0))
    with pytest.raises(ValueError, match="x0 must be a point of"):
        FWSoftmax(sets.NuclearBall(1.0)).minimize(np.ones((2, 2)), [0, 1], x0=np.full((2, 2), 100.0))


def test_memory_stays_flat():
    X, y = data(n=400)
    model = FWSoftmax(sets.NuclearBall(4.0), optim.SVRF(memory=20, batch_size=2), seed=1)
    model.learn_arrays(X[:100], y[:100])
    size = len(codec.dumps(model))
    model.learn_arrays(X[100:], y[100:])
    assert len(codec.dumps(model)) <= 1.1 * size + 500


def test_monitors_read_it_and_a_regret_is_refused_at_once():
    X, y = data(n=70)
    model, gap, feasibility = FWSoftmax(sets.NuclearBall(4.0), optim.SVRF(memory=30), seed=1), Gap(), Feasibility()
    for x, label in zip(X, y, strict=True):
        sample = dict(enumerate(x.tolist()))
        model.learn_one(sample, int(label))
        gap.update(int(label), 0, x=sample, model=model)
        feasibility.update(int(label), 0, x=sample, model=model)
    assert gap.get()["gap_estimate"] == pytest.approx(model.gap)
    assert feasibility.get()["violation_worst"] <= 1e-9
    with pytest.raises(TypeError, match="Regret compares models of one score a sample"):
        Regret().update(int(label), 0, x=sample, model=model)


def test_ofw_counts_the_exact_gradients_of_what_was_played():
    """As on vectors: exact while the memory holds all samples, none beyond."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(40, 3))
    y = (X[:, 0] > 0).astype(int)
    for memory, steps, exact in ((100, 30, 30), (10, 30, 10)):
        matrix = FWSoftmax(sets.NuclearBall(4.0), optim.OFW(memory=memory), seed=1).minimize(X, y, steps=steps)
        vector = optim.OFW(memory=memory).minimize(
            X, y, loss=river_optim.losses.Log(), constraint=sets.L1Ball(4.0), steps=steps, seed=1
        )
        assert matrix.n_exact_gradients == vector.n_exact_gradients == exact
