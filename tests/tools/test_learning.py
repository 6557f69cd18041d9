"""The baselines and measures of the benchmark of learning."""

import numpy as np
import pytest
from river import optim as river_optim
from scipy import optimize, sparse

from fwonline import sets
from tools.bench.adagrad import AdaGrad
from tools.bench.learning import recovery
from tools.bench.playing import BLOCKS, Task, play
from tools.papers.data import Data

SETS = [sets.L1Ball(0.8), sets.L2Ball(0.6), sets.ProbabilitySimplex(1.0), sets.UnitSimplex(0.5)]


@pytest.mark.parametrize("constraint", SETS, ids=str)
def test_adagrad_is_the_literal_one(constraint):
    """Every projection against a solver that knows nothing of the set but its inequalities."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 4)), rng.normal(size=12)
    w, metric, total = np.zeros(4), np.zeros(4), 0.0
    model = AdaGrad(constraint, river_optim.losses.Squared(), 0.4)
    for x, target in zip(X, y, strict=True):
        total += (x @ w - target) ** 2
        g = 2.0 * (x @ w - target) * x
        metric += g * g
        z, h = w - 0.4 * g / np.sqrt(metric), np.sqrt(metric)
        w = nearest(constraint, z, h)
        model.learn_arrays(sparse.csr_array(x[None]), np.array([target]))
        mine = np.array([model.weights.get(j, 0.0) for j in range(4)])
        np.testing.assert_allclose(mine, w, atol=2e-4)
        assert constraint.violation(mine) <= 1e-9
        w = mine  # the solver is less exact
    assert model.cumulative_loss == pytest.approx(total, rel=1e-3)


def nearest(constraint, z, h):
    """min sum h_j (x_j - z_j)^2 over the set; the l1 ball by its positive and negative parts."""
    radius = constraint.radius
    if isinstance(constraint, sets.L2Ball):
        conditions = {"type": "ineq", "fun": lambda x: radius**2 - x @ x}
        return optimize.minimize(lambda x: h @ (x - z) ** 2, 0.1 * z, constraints=conditions, tol=1e-12).x
    split = isinstance(constraint, sets.L1Ball)
    sign = np.concatenate([np.eye(4), -np.eye(4)], axis=1) if split else np.eye(4)
    kind = "eq" if isinstance(constraint, sets.ProbabilitySimplex) else "ineq"
    found = optimize.minimize(
        lambda p: h @ (sign @ p - z) ** 2,
        np.full(sign.shape[1], radius / sign.shape[1]),
        bounds=[(0.0, None)] * sign.shape[1],
        constraints={"type": kind, "fun": lambda p: radius - p.sum()},
        tol=1e-12,
    )
    return sign @ found.x


def test_a_play_remembers_its_way():
    rng = np.random.default_rng(1)
    X = sparse.csr_array(rng.normal(size=(200, 3)))
    task = Task(Data("numbers", X, X @ np.array([1.0, 0.0, -1.0])), sets.L1Ball(5.0))
    model = task.model(None, 0)
    one = play("", model, task.rows(0))
    assert len(one.curve) == BLOCKS
    assert np.all(np.diff(one.curve) >= 0.0)
    assert one.progressive == pytest.approx(model.cumulative_loss / 200)
    assert one.final < 0.1
    assert one.nonzeros == len(model.weights)


def test_recovery_counts_from_the_middle():
    losses = np.full(80, 0.2)
    losses[40:45] = 2.0
    assert recovery(tuple(np.cumsum(losses * 10)), 800) == 80.0
    losses[40:] = 2.0
    assert recovery(tuple(np.cumsum(losses * 10)), 800) == float("inf")
