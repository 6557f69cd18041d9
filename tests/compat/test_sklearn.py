"""The estimators of scikit-learn: its own checks, their solutions, streams."""

import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import pytest
from river import optim as river_optim
from scipy import optimize, sparse

sklearn = pytest.importorskip("sklearn", minversion="1.6")
from sklearn import exceptions, linear_model, model_selection, pipeline, preprocessing  # noqa: E402
from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402

from fwonline import optim, sets  # noqa: E402
from fwonline.compat.sklearn import FrankWolfeClassifier, FrankWolfeRegressor  # noqa: E402
from fwonline.linear_model import FWClassifier, FWRegressor, FWSoftmax  # noqa: E402

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 6)) + 0.5
TRUTH = np.array([1.0, -0.5, 0.0, 0.0, 0.3, 0.0])
Y = X @ TRUTH + 2.0 + 0.3 * RNG.normal(size=120)
LABELS = np.where(X @ TRUTH + RNG.logistic(size=120) > 0.4, "yes", "no")
CLASSES = np.array(["a", "b", "c"])[(X[:, :3] + RNG.gumbel(size=(120, 3))).argmax(axis=1)]
TARGETS = {"regressor": Y, "binary": LABELS, "classes": CLASSES}


def make(kind, *args, **given):
    return (FrankWolfeRegressor if kind == "regressor" else FrankWolfeClassifier)(*args, **given)


KINDS = pytest.mark.parametrize("kind", TARGETS)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([FrankWolfeRegressor(), FrankWolfeClassifier()])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


# --- what fit finds -------------------------------------------------------------------------------------------------


def mean_loss(kind, coef, intercept, omega=None):
    z = X @ coef.T + intercept
    if kind == "regressor":
        return np.average((z - Y) ** 2, weights=omega)
    if kind == "binary":
        return np.average(np.logaddexp(0.0, np.where(LABELS == "yes", -z[:, 0], z[:, 0])), weights=omega)
    own = z[np.arange(120), np.searchsorted(["a", "b", "c"], CLASSES)]
    return np.average(np.log(np.exp(z).sum(axis=1)) - own, weights=omega)


def least(kind, radius, omega=None):
    """The minimum over the l1 ball and the intercept, by scipy: W = P - Q with P, Q >= 0 whose sum is bounded."""
    k = 3 if kind == "classes" else 1

    def value(v):
        coef = (v[: 6 * k] - v[6 * k : 12 * k]).reshape(k, 6)
        return mean_loss(kind, coef[0] if kind == "regressor" else coef, v[12 * k :], omega)

    bounds = [(0, None)] * (12 * k) + [(None, None)] * k
    inside = {"type": "ineq", "fun": lambda v: radius - v[: 12 * k].sum()}
    start = np.full(13 * k, radius / (24 * k))
    return optimize.minimize(value, start, bounds=bounds, constraints=inside, method="SLSQP", tol=1e-12).fun


@pytest.mark.parametrize("optimizer", [None, optim.AwayFW(), optim.FW()], ids=str)
@pytest.mark.parametrize("radius", [0.7, 20.0])
@KINDS
def test_the_gap_brackets_the_minimum(kind, radius, optimizer):
    model = make(kind, radius, optimizer, tol=1e-3).fit(X, TARGETS[kind])
    reached = mean_loss(kind, model.coef_, model.intercept_)
    best = least(kind, radius)
    assert np.abs(model.coef_).sum() <= radius * (1.0 + 1e-9)
    assert best - 1e-6 <= reached
    assert reached - model.gap_ <= best + 1e-6
    at_zero = mean_loss(kind, 0.0 * model.coef_, make(kind, 1e-12).fit(X, TARGETS[kind]).intercept_)
    assert model.gap_ <= 1e-3 * at_zero * (1.0 + 1e-6)


@KINDS
def test_a_large_ball_is_no_constraint(kind):
    model = make(kind, 50.0, tol=1e-9, max_iter=5000).fit(X, TARGETS[kind])
    if kind == "regressor":
        free = linear_model.LinearRegression().fit(X, Y)
        np.testing.assert_allclose(model.coef_, free.coef_, atol=1e-3)
        assert model.intercept_ == pytest.approx(free.intercept_, abs=1e-3)
        np.testing.assert_allclose(model.predict(X), free.predict(X), atol=1e-2)
    else:
        free = linear_model.LogisticRegression(C=np.inf, tol=1e-8, max_iter=10_000).fit(X, TARGETS[kind])
        np.testing.assert_allclose(model.predict_proba(X), free.predict_proba(X), atol=1e-2)
        assert model.classes_.tolist() == free.classes_.tolist()
        assert model.coef_.shape == free.coef_.shape
        assert model.intercept_.shape == free.intercept_.shape


@KINDS
def test_weights_are_repetitions_and_order_does_not_show(kind):
    omega = RNG.integers(0, 4, size=120)
    rows = np.repeat(np.arange(120), omega)
    mixed = np.random.default_rng(1).permutation(rows)
    y = TARGETS[kind]
    models = [
        make(kind, 3.0).fit(X, y, omega),
        make(kind, 3.0).fit(X[mixed], y[mixed]),
        make(kind, 3.0).fit(X[rows], y[rows], 0.5 * np.ones(len(rows))),
    ]
    for model in models[1:]:
        np.testing.assert_array_equal(model.coef_, models[0].coef_)
        np.testing.assert_array_equal(model.intercept_, models[0].intercept_)
    assert mean_loss(kind, models[0].coef_, models[0].intercept_, omega) <= least(kind, 3.0, omega) + 1e-3


@KINDS
def test_sparse_rows(kind):
    thin = X * (RNG.random(X.shape) < 0.5)
    y = TARGETS[kind]
    dense = make(kind, 3.0, tol=1e-8).fit(thin, y)
    for matrix in (sparse.csr_array(thin), sparse.csc_matrix(thin)):
        model = make(kind, 3.0, tol=1e-8).fit(matrix, y)
        np.testing.assert_allclose(model.coef_, dense.coef_, atol=1e-3)
        score = model.predict if kind == "regressor" else model.decision_function
        np.testing.assert_allclose(score(matrix), score(thin), rtol=1e-12)


def test_low_rank_and_other_sets():
    model = FrankWolfeClassifier(sets.NuclearBall(2.0), tol=1e-2).fit(X, CLASSES)
    assert np.linalg.norm(model.coef_, "nuc") <= 2.0 + 1e-9
    model = FrankWolfeRegressor(sets.ProbabilitySimplex(2.0), fit_intercept=False).fit(X, Y)
    assert model.coef_.sum() == pytest.approx(2.0)
    assert model.coef_.min() >= 0.0
    assert model.intercept_ == 0.0


def test_losses_with_their_own_means():
    counts = np.random.default_rng(2).poisson(np.exp(0.3 * X[:, 0] + 0.5)).astype(float)
    model = FrankWolfeRegressor(2.0, loss=river_optim.losses.Poisson(), tol=1e-4).fit(X, counts)
    assert model.predict(X).min() > 0.0
    assert model.predict(X).mean() == pytest.approx(counts.mean(), rel=1e-6)  # as an intercept at its best has it
    robust = FrankWolfeRegressor(2.0, loss=river_optim.losses.Huber(0.5), tol=1e-3).fit(X, Y)
    assert robust.score(X, Y) > 0.8


def test_what_does_not_converge_says_so():
    with pytest.warns(exceptions.ConvergenceWarning, match="the Frank-Wolfe gap is .* after 2 iterations, above"):
        model = FrankWolfeRegressor(50.0, max_iter=2, tol=1e-9).fit(X, Y)
    assert model.n_iter_ == 2


# --- streams --------------------------------------------------------------------------------------------------------


ONLINE = {"regressor": FWRegressor, "binary": FWClassifier}


@KINDS
def test_partial_fit_is_the_learner_of_streams(kind):
    y = TARGETS[kind]
    known = {} if kind == "regressor" else {"classes": np.unique(y)}
    model = make(kind, 5.0, random_state=3)
    for part in np.array_split(np.arange(120), 4):
        assert model.partial_fit(X[part], y[part], **known) is model
        known = {}
    assert model.n_iter_ == 4
    seed = int(np.random.RandomState(3).randint(2**31 - 1))
    stream = (
        FWSoftmax(sets.L1Ball(5.0), seed=seed)
        if kind == "classes"
        else ONLINE[kind](sets.L1Ball(5.0), intercept=True, seed=seed)
    )
    stream.learn_arrays(X, y if kind == "regressor" else np.searchsorted(model.classes_, y))
    if kind == "regressor":
        np.testing.assert_allclose(model.predict(X), stream.predict_arrays(X), rtol=1e-12)
    else:
        np.testing.assert_array_equal(model.predict(X), model.classes_[stream.predict_arrays(X).astype(int)])
    again = pickle.loads(pickle.dumps(model)).partial_fit(X, y)
    np.testing.assert_array_equal(again.coef_, model.partial_fit(X, y).coef_)


@pytest.mark.parametrize("kind", ["regressor", "binary"])
def test_an_optimizer_for_streams_passes_until_the_gap_is_small(kind):
    model = make(kind, 2.0, optim.SFW(memory=200), tol=0.02, max_iter=200, random_state=0).fit(X, TARGETS[kind])
    assert 1 <= model.n_iter_ < 200
    assert mean_loss(kind, model.coef_, model.intercept_) - model.gap_ <= least(kind, 2.0) + 1e-6
    again = make(kind, 2.0, optim.SFW(memory=200), tol=0.02, max_iter=200, random_state=0).fit(X, TARGETS[kind])
    np.testing.assert_array_equal(model.coef_, again.coef_)
    assert not model.optimizer.is_started
    model.fit(X, TARGETS[kind], omega := np.arange(1.0, 121.0))
    loss = mean_loss(kind, model.coef_, model.intercept_, omega)
    assert loss - model.gap_ <= least(kind, 2.0, omega) + 1e-6 <= loss + 2e-6
    with pytest.raises(ValueError, match="counts every sample once"):
        make(kind, 2.0, optim.MomentumFW()).fit(X, TARGETS[kind], omega)


@pytest.mark.parametrize("kind", ["regressor", "binary"])
def test_weights_of_a_stream(kind):
    omega, y = np.arange(120.0) % 3, TARGETS[kind]
    known = {} if kind == "regressor" else {"classes": np.unique(y)}
    model = make(kind, random_state=0).partial_fit(X, y, sample_weight=omega, **known)
    other = make(kind, random_state=0)
    for part in np.array_split(np.arange(120), 3):
        other.partial_fit(X[part], y[part], sample_weight=omega[part], **known)
    np.testing.assert_array_equal(model.coef_, other.coef_)
    assert (model.coef_ != make(kind, random_state=0).partial_fit(X, y, **known).coef_).any()


def test_classes_still_to_come_have_no_probability():
    model = FrankWolfeClassifier().partial_fit(X[:5], np.array([1, 1, 2, 1, 2]), classes=[1, 2, 3])
    p = model.predict_proba(X)
    assert (p[:, 2] == 0.0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    with pytest.raises(ValueError, match=r"y holds the label 4; expected one of the classes \[1 2 3\]"):
        model.partial_fit(X[:2], [1, 4])


# --- in use ---------------------------------------------------------------------------------------------------------


def test_pipelines_grids_and_frames():
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = pipeline.make_pipeline(
        preprocessing.StandardScaler().set_output(transform="pandas"), FrankWolfeClassifier()
    )
    grid = {"frankwolfeclassifier__constraint": [0.1, 3.0, sets.L2Ball(1.0)]}
    found = model_selection.GridSearchCV(model, grid, cv=3).fit(frame, LABELS)
    assert found.best_score_ > 0.6
    assert found.best_estimator_[-1].feature_names_in_.tolist() == list("abcdef")


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"constraint": "l1"}, TypeError, "constraint must be a set of fwonline.sets or the radius of an l1 ball"),
        ({"constraint": -1.0}, ValueError, "radius"),
        ({"optimizer": "fw"}, TypeError, "optimizer must be one of fwonline.optim, or None"),
        ({"loss": river_optim.losses.Log()}, TypeError, "FrankWolfeRegressor cannot minimise Log"),
        ({"tol": -1.0}, ValueError, "tol must be a number >= 0"),
        ({"max_iter": 0}, ValueError, "max_iter must be a whole number >= 1"),
    ],
)
def test_mistakes_are_named(given, error, message):
    with pytest.raises(error, match=message):
        FrankWolfeRegressor(**given).fit(X, Y)


def test_mistakes_of_classifiers():
    with pytest.raises(ValueError, match="y holds one class alone, 'no'"):
        FrankWolfeClassifier().fit(X, np.full(120, "no"))
    with pytest.raises(ValueError, match="loss must be None for 3 classes"):
        FrankWolfeClassifier(loss=river_optim.losses.Log()).fit(X, CLASSES)
    with pytest.raises(ValueError, match=r"[Ww]eight"):
        FrankWolfeClassifier().fit(X, LABELS, np.zeros(120))


def test_without_scikit_learn_the_extra_is_named():
    code = """
        import sys
        sys.modules["sklearn"] = None
        try:
            import fwonline.compat.sklearn
        except ImportError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True, timeout=120
    )
    assert "needs scikit-learn 1.6 or later: " in done.stdout
    assert "[sklearn]'" in done.stdout
