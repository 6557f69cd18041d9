"""SHCGM, HCGM, H-SAG-CGM and S3CCM: against their pseudocode, against exact solutions, and against bad input."""

import math

import numpy as np
import pytest
from river import optim as river_optim
from scipy import optimize, sparse
from support.literal_composite import RADIUS, WEIGHT, Problem, hcgm, hsag, s3ccm, shcgm

from fwonline import linear_model, optim, sets


class Below:
    def __init__(self, b):
        self.b = b

    def project(self, z):
        return np.minimum(z, self.b)


def terms_of(problem):
    below = optim.Term(Below(problem.b), forward=lambda x: problem.A @ x, adjoint=lambda y: problem.A.T @ y)
    return [below, optim.Term(optim.L1Penalty(WEIGHT))]


def objective_of(problem):
    return optim.Objective(
        component=lambda x, i: x - problem.C[i],
        n=20,
        value=lambda x: 0.5 * np.mean(np.sum((x - problem.C) ** 2, axis=1)),
    )


CASES = [(optim.SHCGM, shcgm), (optim.HCGM, hcgm), (optim.HSAGFW, hsag)]


@pytest.mark.parametrize(("cls", "literal"), CASES)
@pytest.mark.parametrize("beta0", [0.3, 2.0])
def test_it_is_its_pseudocode(cls, literal, beta0):
    problem = Problem()
    for steps in (1, 7, 40):
        result = cls(beta0).minimize_composite(
            objective_of(problem), constraint=sets.L1Ball(RADIUS), terms=terms_of(problem), shape=8, steps=steps, seed=4
        )
        np.testing.assert_allclose(result.x, literal(problem, steps, beta0, 4), atol=1e-12)
        assert (result.nit, result.n_lmo) == (steps, steps)
        assert result.n_gradients == steps * (20 if cls is optim.HCGM else 1)


@pytest.mark.parametrize(("cls", "literal"), CASES)
@pytest.mark.parametrize("beta0", [0.3, 2.0])
def test_with_a_dual_it_is_an_augmented_lagrangian(cls, literal, beta0):
    problem = Problem()
    for steps in (1, 7, 40):
        result = cls(beta0, dual_bound=math.inf).minimize_composite(
            objective_of(problem), constraint=sets.L1Ball(RADIUS), terms=terms_of(problem), shape=8, steps=steps, seed=4
        )
        np.testing.assert_allclose(result.x, literal(problem, steps, beta0, 4, with_dual=True), atol=1e-12)
    assert np.linalg.norm(result.duals[0]) > 0
    assert result.duals[1] is None


def test_a_dual_meets_the_constraint_sooner_and_stays_within_its_bound():
    problem = Problem()
    results = [
        optim.HCGM(beta0=2.0, dual_bound=bound).minimize_composite(
            objective_of(problem), constraint=sets.L1Ball(RADIUS), terms=terms_of(problem), shape=8, steps=500
        )
        for bound in (0.0, 0.02, math.inf)
    ]
    without, short, free = results
    assert free.infeasibility < 0.3 * without.infeasibility
    assert 0 < np.linalg.norm(short.duals[0]) <= 0.02
    assert np.linalg.norm(free.duals[0]) > 0
    assert without.duals == [None, None]


@pytest.mark.parametrize(("optimizer", "tol"), [(optim.HCGM(), 0.05), (optim.HSAGFW(), 0.1), (optim.SHCGM(), 0.4)])
def test_it_reaches_the_constrained_minimum(optimizer, tol):
    problem = Problem()
    lp = optimize.LinearConstraint(problem.A @ np.hstack([np.eye(8), -np.eye(8)]), -np.inf, problem.b)
    ball = optimize.LinearConstraint(np.ones(16), -np.inf, RADIUS)
    objective = objective_of(problem)

    def split(p):
        return objective.value(p[:8] - p[8:]) + WEIGHT * p.sum()

    best = optimize.minimize(split, np.full(16, 0.01), bounds=[(0, None)] * 16, constraints=[lp, ball], method="SLSQP")
    result = optimizer.minimize_composite(
        objective, constraint=sets.L1Ball(RADIUS), terms=terms_of(problem), shape=8, steps=4000, seed=0
    )
    assert abs(result.fun - best.fun) < tol
    assert result.infeasibility < 0.05
    assert np.abs(result.x).sum() <= RADIUS * (1 + 1e-12)


@pytest.mark.parametrize("optimizer", [optim.SHCGM(), optim.HCGM(), optim.HSAGFW(batch_size=5), optim.S3CCM(a=0.5)])
@pytest.mark.parametrize("kind", ["dense", "sparse", "labels"])
def test_minimize_takes_samples_and_a_loss(optimizer, kind):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 6)) * (rng.random((60, 6)) < 0.7)
    X[5] = 0.0
    y = X @ [1.0, -0.5, 0.0, 0.0, 0.0, 0.0]
    loss = None
    if kind == "labels":
        y, loss = y > 0, river_optim.losses.Log()
    result = optimizer.minimize(
        sparse.csr_array(X) if kind == "sparse" else X,
        y,
        loss=loss,
        constraint=sets.L1Ball(1.5),
        terms=[optim.Term(sets.Box(-0.8, 0.8))],
        steps=1500,
        seed=0,
    )
    z = X @ result.x
    value = np.mean(np.log1p(np.exp(-(2.0 * y - 1) * z))) if loss else np.mean((z - y) ** 2)
    assert result.fun == pytest.approx(value)
    assert result.fun < (0.45 if loss else 0.15)
    assert result.infeasibility < 0.1


def test_what_an_oracle_may_miss_falls_with_its_tolerance():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((70, 70))
    target = A @ A.T / 70
    objective = optim.Objective(gradient=lambda x: x - target, value=lambda x: 0.5 * np.sum((x - target) ** 2))
    results = [
        optim.HCGM(lmo_tol=tol).minimize_composite(
            objective,
            constraint=sets.Spectraplex(70.0),
            terms=[optim.Term(sets.L1Ball(300.0))],
            shape=(70, 70),
            steps=25,
            seed=0,
        )
        for tol in (1e-10, 0.1)
    ]
    assert 0 < results[0].lmo_error < 1e-4 < results[1].lmo_error
    assert results[1].fun == pytest.approx(results[0].fun, rel=0.1)
    assert results[0].x == pytest.approx(results[0].x.T)


@pytest.mark.parametrize(
    ("constraint", "least_along"),
    [
        (sets.Spectraplex(90.0), lambda v: 90.0 * np.linalg.eigvalsh(v)[0]),
        (sets.Spectrahedron(90.0), lambda v: 90.0 * min(np.linalg.eigvalsh(v)[0], 0.0)),
        (sets.NuclearBall(90.0), lambda v: -90.0 * np.linalg.norm(v, 2)),
        (sets.Fantope(3), lambda v: np.linalg.eigvalsh(v)[:3].sum()),
    ],
    ids=["spectraplex", "spectrahedron", "nuclear", "fantope"],
)
@pytest.mark.parametrize("setting", [{"lmo_tol": 0.3}, {"lmo_share": 0.5}, {"lmo_share": 0.999}], ids=str)
def test_the_error_of_an_inexact_oracle_is_kept_and_reported(constraint, least_along, setting):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((70, 70))
    target = A @ A.T / 70 - 0.5 * np.eye(70)
    optimizer, seen = optim.HCGM(**setting), []

    def callback(run):
        """The step's direction is x - target, at the x before the step."""
        v = before[0] - target
        most = float(np.vdot(v, before[0])) - least_along(v)
        seen.append((most, most - run.gap, run.gap, run.lmo_error, run.lmo_share))
        before[0] = run.x.copy()

    before = [constraint.initial_point((70, 70))]
    optimizer.minimize_composite(
        optim.Objective(gradient=lambda x: x - target),
        constraint=constraint,
        shape=(70, 70),
        steps=8,
        callback=callback,
        seed=0,
    )
    share = setting.get("lmo_share")
    for most, missed, gap, error, reached in seen:
        # A search that ends early may end beside the lowest eigenvalue, a few times the residual away.
        assert -1e-9 * most <= missed <= (1 if share == 0.999 else 5) * error + 1e-9 * most
        assert reached == pytest.approx(max(gap, 0.0) / (max(gap, 0.0) + error))
        assert share is None or gap > 0.9 * share * most
    assert max(error for _, _, _, error, _ in seen) > 0


def test_a_share_of_the_gap_slows_the_schedules_and_still_converges():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((66, 66))
    target = A @ A.T / 66
    objective = optim.Objective(gradient=lambda x: x - target, value=lambda x: 0.5 * np.sum((x - target) ** 2))
    exact, rough = (
        optimizer.minimize_composite(objective, constraint=sets.Spectraplex(40.0), shape=(66, 66), steps=40, seed=0)
        for optimizer in (optim.HCGM(lmo_tol=1e-4), optim.HCGM(lmo_share=0.5))
    )
    assert exact.lmo_share > 0.999
    assert 0.5 <= rough.lmo_share < 1
    assert exact.fun < rough.fun < 3 * exact.fun


def test_s3ccm_takes_several_terms_apart():
    c = np.random.default_rng(2).standard_normal(6)

    def soft(z, gamma):
        return np.sign(z) * np.maximum(np.abs(z) - 0.1 * gamma, 0)

    def ball(z):
        return z / max(1.0, np.linalg.norm(z))

    terms = [
        optim.Term(optim.NonNegative()),
        optim.Term(optim.L1Penalty(0.1)),
        optim.Term(sets.Box(-1.0, 1.0), offset=np.full(6, 0.7)),
    ]
    proxes = [lambda z, _: np.maximum(z, 0), soft, lambda z, _: np.clip(z + 0.7, -1, 1) - 0.7]
    for steps in (1, 2, 40):
        result = optim.S3CCM(gamma0=2.0).minimize_composite(
            optim.Objective(gradient=lambda x: x - c), constraint=sets.L2Ball(1.0), terms=terms, shape=6, steps=steps
        )
        np.testing.assert_allclose(result.x, s3ccm(c, steps, proxes, ball, 2.0), atol=1e-12)
    result = optim.S3CCM(gamma0=2.0).minimize_composite(
        optim.Objective(gradient=lambda x: x - c), constraint=sets.L2Ball(1.0), terms=terms, shape=6, steps=4000
    )
    np.testing.assert_allclose(result.x, np.clip(c - 0.1, 0.0, 0.3), atol=0.01)


def test_s3ccm_solves_what_the_others_approach():
    rng = np.random.default_rng(1)
    c = rng.standard_normal(10)
    result = optim.S3CCM().minimize_composite(
        optim.Objective(gradient=lambda x: x - c),
        constraint=sets.L2Ball(1.0),
        terms=[optim.Term(optim.NonNegative())],
        shape=10,
        steps=3000,
    )
    positive = np.maximum(c, 0)
    np.testing.assert_allclose(result.x, positive / max(1.0, np.linalg.norm(positive)), atol=0.01)


def test_an_offset_moves_the_term():
    result = optim.HCGM().minimize_composite(
        optim.Objective(gradient=lambda x: x - 1.0),
        constraint=sets.L2Ball(5.0),
        terms=[optim.Term(optim.Equals(0.0), offset=[-0.5, 0.25])],
        shape=2,
        steps=5000,
    )
    np.testing.assert_allclose(result.x, [0.5, -0.25], atol=0.05)


def test_a_callback_sees_the_run_and_may_end_it():
    seen = []

    def callback(state):
        seen.append((state.nit, state.gap, state.infeasibility))
        return len(seen) == 5

    result = optim.SHCGM().minimize_composite(
        lambda x, rng: x - 1.0, constraint=sets.L1Ball(1.0), shape=3, steps=50, callback=callback
    )
    assert result.nit == 5
    assert "callback ended it after 5" in result.message
    assert all(math.isfinite(gap) for _, gap, _ in seen)
    assert math.isnan(result.fun)
    assert result.infeasibility == 0.0


@pytest.mark.parametrize("cls", [optim.SHCGM, optim.HCGM, optim.HSAGFW])
@pytest.mark.parametrize("beta0", [0.0, -1.0, math.inf, math.nan, "1", True])
def test_a_bad_beta0_is_refused(cls, beta0):
    with pytest.raises(ValueError, match="beta0"):
        cls(beta0)


@pytest.mark.parametrize("cls", [optim.SHCGM, optim.HCGM, optim.HSAGFW])
@pytest.mark.parametrize(
    "setting",
    [
        {"lmo_tol": 0.0},
        {"lmo_share": 1.0},
        {"lmo_share": 0.0},
        {"lmo_share": "half"},
        {"dual_bound": -1.0},
        {"dual_bound": math.nan},
        {"dual_bound": True},
    ],
    ids=str,
)
def test_bad_settings_are_named(cls, setting):
    with pytest.raises(ValueError, match=next(iter(setting))):
        cls(**setting)


def test_what_cannot_be_done_is_said():
    sample = lambda x, rng: x  # noqa: E731
    ball = sets.L1Ball(1.0)
    with pytest.raises(ValueError, match="exact gradient"):
        optim.HCGM().minimize_composite(sample, constraint=ball, shape=2)
    with pytest.raises(ValueError, match="component and n"):
        optim.HSAGFW().minimize_composite(sample, constraint=ball, shape=2)
    mapped = optim.Term(ball, forward=lambda x: x, adjoint=lambda x: x)
    with pytest.raises(ValueError, match="without a linear map"):
        optim.S3CCM().minimize_composite(sample, constraint=ball, terms=[mapped], shape=2)
    with pytest.raises(ValueError, match="no projection"):
        optim.S3CCM().minimize_composite(sample, constraint=sets.KNormBall(1, 1.0), shape=2)
    with pytest.raises(ValueError, match="x0 must be a point"):
        optim.SHCGM().minimize_composite(sample, constraint=ball, x0=[2.0, 0.0])
    with pytest.raises(ValueError, match="finite"):
        optim.SHCGM().minimize_composite(lambda x, rng: x * math.nan, constraint=ball, shape=2)
    for answer in (1.0, np.ones(3), np.ones((2, 1))):
        for optimizer, objective in (
            (optim.SHCGM(), lambda x, rng, answer=answer: answer),
            (optim.HCGM(), optim.Objective(gradient=lambda x, answer=answer: answer)),
            (optim.HSAGFW(), optim.Objective(component=lambda x, i, answer=answer: answer, n=2)),
        ):
            with pytest.raises(ValueError, match=r"gradient must have the shape of x, \(2,\), got "):
                optimizer.minimize_composite(objective, constraint=ball, shape=2)
    stretched = optim.Term(optim.Equals(1.0), forward=lambda x: x.sum(keepdims=True), adjoint=lambda z: z)
    with pytest.raises(
        ValueError, match=r"adjoint's result in terms\[0\] must have the shape of x, \(2,\), got \(1,\)"
    ):
        optim.SHCGM().minimize_composite(sample, constraint=ball, terms=[stretched], shape=2)
    with pytest.raises(TypeError, match=r"terms\[0\] must be a Term, got L1Ball"):
        optim.SHCGM().minimize_composite(sample, constraint=ball, terms=[ball], shape=2)
    with pytest.raises(ValueError, match="a must be"):
        optim.S3CCM(a="1")
    with pytest.raises(ValueError, match="weight must be"):
        optim.L1Penalty("1")
    with pytest.raises(TypeError, match="project or a function with a prox"):
        optim.Term(3.0)
    with pytest.raises(ValueError, match="both, or neither"):
        optim.Term(ball, forward=lambda x: x)
    with pytest.raises(ValueError, match="give sample"):
        optim.Objective()
    with pytest.raises(ValueError, match="n must be"):
        optim.Objective(component=lambda x, i: x)


def test_they_clone_and_print():
    for optimizer in (optim.SHCGM(2.0), optim.HCGM(), optim.HSAGFW(batch_size=3), optim.S3CCM()):
        assert repr(optimizer.clone()) == repr(optimizer)
    assert repr(optim.SHCGM(2.0)) == "SHCGM(beta0=2.0, lmo_tol=1e-08, lmo_share=None, dual_bound=0.0)"


@pytest.mark.parametrize("cls", [optim.SHCGM, optim.HCGM, optim.HSAGFW])
def test_an_objective_used_again_counts_from_the_start(cls):
    problem = Problem()
    objective = objective_of(problem)
    settings = {"constraint": sets.L1Ball(RADIUS), "terms": terms_of(problem), "shape": 8, "steps": 5, "seed": 4}
    first, second = (cls(0.3).minimize_composite(objective, **settings) for _ in range(2))
    assert first.n_gradients == second.n_gradients == 5 * (20 if cls is optim.HCGM else 1)
    assert objective.n_gradients == 2 * first.n_gradients
    np.testing.assert_array_equal(first.x, second.x)


@pytest.mark.parametrize("optimizer", [optim.SHCGM(), optim.HCGM(), optim.HSAGFW(), optim.S3CCM()], ids=str)
def test_they_count_as_the_other_optimizers_do(optimizer):
    assert isinstance(optimizer, optim.Optimizer)
    assert (optimizer.is_started, optimizer.n_steps, optimizer.n_lmo) == (False, 0, 0)
    X = np.random.default_rng(0).standard_normal((30, 3))
    result = optimizer.minimize(X, X[:, 0], constraint=sets.L1Ball(1.0), steps=4, seed=0)
    counts = optimizer.n_steps, optimizer.n_gradients, optimizer.n_exact_gradients, optimizer.n_lmo
    assert counts == (result.nit, result.n_gradients, result.n_exact_gradients, result.n_lmo)
    assert result.nit == 4
    assert result.n_exact_gradients == (4 if isinstance(optimizer, optim.HCGM) else 0)
    assert "gap" not in result


def test_no_estimator_takes_them():
    with pytest.raises(TypeError, match="SHCGM solves composite problems"):
        linear_model.FWRegressor(sets.L1Ball(1.0), optim.SHCGM(), intercept=False).learn_one({"a": 1.0}, 1.0)
