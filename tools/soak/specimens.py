"""What the fuzzer works on: a trained model of every kind, and what is done with one that a mutant of its file became.

A specimen is a line in `SPECIMENS`: its name, how it is trained, and how it is used.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from river import compose, linear_model, metrics, optim, preprocessing
from scipy import sparse

from fwonline import linear_model as fw
from fwonline import losses as fw_losses
from fwonline import monitors, sets
from fwonline import optim as fw_optim
from fwonline._pipeline import final_estimator
from fwonline.checkpoint import codec
from fwonline.exceptions import SampleError
from tools.soak.parts import PARTS

__all__ = ["SPECIMENS", "Specimen", "Wrong"]

FEATURES = 5
#: How far outside of its set rounding may leave a point, as a share of the set's size.
TOLERANCE = 1e-6


class Wrong(Exception):
    """What was loaded works, and is not what was promised."""


class Specimen(NamedTuple):
    """A model to save, and how to use what a mutant of its file loads as.

    Parameters
    ----------
    make
        Makes it, trained.
    use
        Works with a loaded one; raises where it does not work.
    kind
        Its class.
    """

    make: Callable[[], Any]
    use: Callable[[Any], None]
    kind: type


def _table(n: int, seed: int, density: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, FEATURES)) * (rng.random((n, FEATURES)) < density)


def _sample(row: np.ndarray) -> dict[Any, float]:
    return {j: value for j, value in enumerate(row.tolist()) if value}


def _allowed(act: Callable[..., Any], *arguments: Any) -> Any:
    """Do something that may find a sample too large for the model it meets, and nothing worse."""
    try:
        return act(*arguments)
    except SampleError:
        return None


# --- linear models ---


def _targets(model: Any, X: np.ndarray) -> list[Any]:
    scores = X @ np.linspace(-1.0, 1.0, FEATURES)
    if isinstance(model, fw.FWSoftmax):
        return [("low", "middle", "high")[k] for k in np.digitize(scores, [-0.5, 0.5])]
    return (scores > 0.0).tolist() if isinstance(model, fw.FWClassifier) else scores.tolist()


def _trained(model: Any, density: float = 1.0, n: int = 30) -> Any:
    X = _table(n, 0, density)
    if getattr(model.constraint, "shape", None) is not None:
        model.learn_one(dict(enumerate(X[0].tolist())), _targets(model, X)[0])
    for row, y in zip(X, _targets(model, X), strict=True):
        model.learn_one(_sample(row), y)
    return model


def _check_weights(model: Any) -> None:
    weights = model.weights
    rows = weights.values() if isinstance(model, fw.FWSoftmax) else [weights]
    if not all(math.isfinite(value) for row in rows for value in row.values()):
        raise Wrong("a weight is not finite")
    size = max(1.0, max((abs(value) for row in rows for value in row.values()), default=0.0))
    if not model.violation <= TOLERANCE * size:
        raise Wrong("the weights are outside the set")


def use_linear(model: Any) -> None:
    """Learn, predict, look and merge, features and rows known and new, dense and sparse."""
    _check_weights(model)
    known = str(model), model.gap, model.exact_gap, model.n_samples, model.cumulative_loss, model.last_sample
    if not all(isinstance(part, (str, float, int, tuple)) for part in known if part is not None):
        raise Wrong(f"reads {known}")
    intercepts = model.intercept_.values() if isinstance(model, fw.FWSoftmax) else [model.intercept_]
    if not all(isinstance(value, float) for value in intercepts):
        raise Wrong("reads an intercept that is no number")
    X = _table(16, 1)
    thin = _table(16, 2, 0.5)
    ys = _targets(model, X)
    free = getattr(model.constraint, "shape", None) is None
    for k, (row, y) in enumerate(zip(X[:6], ys, strict=False)):
        x = _sample(row)
        if free and k in (2, 4):
            x |= {f"new {k}": 0.5, ("a", k): -0.5}
        _allowed(model.predict_one, x)
        _allowed(model.learn_one, x, y)
    _allowed(model.learn_one, _sample(thin[0]), ys[1])
    _allowed(model.learn_arrays, X, np.array(ys))
    _allowed(model.learn_arrays, sparse.csr_array(thin), np.array(_targets(model, thin)))
    if free:
        for k in range(2):  # more features than there was room for
            wide = {f"wide {k} {j}": 0.1 for j in range(40)}
            _allowed(model.learn_one, wide, ys[k])
    for row in X[:3]:
        _allowed(model.predict_one, _sample(row))
        _allowed(model.debug_one, _sample(row))
    if not isinstance(model, fw.FWRegressor):
        _allowed(model.predict_proba_one, _sample(X[0]))
    if model.n_samples:
        model.predict_arrays(X)
        model.predict_arrays(sparse.csr_array(thin))
    _check_weights(model)
    known = model.gap, model.exact_gap, model.n_samples, model.last_sample
    if model.n_samples:
        merged = model.merged([model])
        merged.weights  # noqa: B018  looked at
        _allowed(merged.predict_one, _sample(X[0]))
    model.clone()
    pickle.loads(pickle.dumps(model))
    codec.loads(codec.dumps(model))


def use_frame(model: Any) -> None:
    """As `use_linear`, with frames too."""
    import pandas as pd

    use_linear(model)
    X = _table(10, 3)
    frame = pd.DataFrame(X, columns=[0, 1, 2, 3, "other"])
    _allowed(model.learn_many, frame, pd.Series(_targets(model, X)))
    model.predict_many(frame)


def _linear(make: Callable[[], Any], density: float = 1.0, use: Callable[[Any], None] = use_linear) -> Specimen:
    return Specimen(lambda: _trained(make(), density), use, type(make()))


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sfw": lambda: fw_optim.SFW(memory=20),
    "sfw-replays": lambda: fw_optim.SFW(memory=20, batch_size=3, steps_per_sample=2),
    "momentum": fw_optim.MomentumFW,
    "momentum-memory": lambda: fw_optim.MomentumFW(memory=20, batch_size=2),
    "one-sample": fw_optim.OneSampleFW,
    "ofw": lambda: fw_optim.OFW(memory=40),
    "ofw-recursion": lambda: fw_optim.OFW(memory=10, max_features=3),
    "ofw-adversarial": fw_optim.AdversarialOFW,
    "adaptive": lambda: fw_optim.AdaptiveOFW(horizon=50),
    "pairwise-memory": lambda: fw_optim.StochasticPairwiseFW(memory=20),
    "mixture": lambda: fw_optim.Mixture(memory=20),
    "projected": lambda: fw_optim.ProjectedSGD(0.1),
    "projected-batches": lambda: fw_optim.ProjectedSGD(0.1, batch_size=3),
    "fw": lambda: fw_optim.FW(memory=20),
    "away": lambda: fw_optim.AwayFW(memory=20),
    "pairwise": lambda: fw_optim.PairwiseFW(memory=20),
    "randomized": lambda: fw_optim.RandomizedFW(fraction=0.4, memory=20),
    "randomized-away": lambda: fw_optim.RandomizedAwayFW(fraction=0.4, memory=20),
    "lu-freund": lambda: fw_optim.LuFreundFW(memory=20, batch_size=2),
    "hazan-luo": lambda: fw_optim.HazanLuoFW(memory=20),
    "svrf": lambda: fw_optim.SVRF(memory=20, batch_size=3),
    "scgs": lambda: fw_optim.SCGS(memory=20, inner_steps=5),
    "storc": lambda: fw_optim.STORC(memory=20, batch_size=3, inner_steps=5),
    "projected-svrg": lambda: fw_optim.ProjectedSVRG(memory=20),
}
SETS: dict[str, Callable[[], Any]] = {
    "l1": lambda: sets.L1Ball(2.0),
    "simplex": sets.ProbabilitySimplex,
    "unit-simplex": lambda: sets.UnitSimplex(3.0),
    "l2": lambda: sets.L2Ball(2.0),
    "linf": lambda: sets.LInfBall(1.0),
    "box": lambda: sets.Box(-1.0, 2.0),
    "bounds": lambda: sets.Box([-1.0, 0.5, -2.0, 0.0, -1.0], [1.0, 1.0, 2.0, 2.0, 3.0]),
    "k-sparse": lambda: sets.KSparseBall(2, 1.0),
}
OTHER_SETS: dict[str, Callable[[], Any]] = {
    "lp": lambda: sets.LpBall(1.5, 2.0),
    "k-norm": lambda: sets.KNormBall(2, 1.0),
    "ordered": lambda: sets.OrderedL1Ball([3.0, 2.0, 1.0, 1.0, 1.0], 2.0),
    "ellipsoid": lambda: sets.Ellipsoid([1.0, 2.0, 3.0, 1.0, 2.0]),
    "hull": lambda: sets.ConvexHull(np.vstack([np.eye(FEATURES), np.zeros(FEATURES)])),
    "groups": lambda: sets.GroupL1Ball([[0, 1], [2, 3], [4]], 2.0),
    "latent": lambda: sets.LatentGroupBall([[0, 1, 2], [2, 3], [4]], 2.0),
    "permutahedron": lambda: sets.Permutahedron(FEATURES),
    "product": lambda: sets.Product([(sets.L1Ball(1.0), 2), (sets.L2Ball(1.0), 3)]),
}
LOSSES: dict[str, Callable[[], Any]] = {
    "absolute": optim.losses.Absolute,
    "huber": lambda: optim.losses.Huber(0.5),
    "quantile": lambda: optim.losses.Quantile(0.3),
    "cauchy": optim.losses.Cauchy,  # no compiled form
    "epsilon": lambda: fw_losses.EpsilonInsensitive(0.1),
}
SCHEDULES: dict[str, Callable[[], Any]] = {
    "harmonic": lambda: fw_optim.schedules.Harmonic(floor=0.01),
    "power": lambda: fw_optim.schedules.Power(0.5),
    "short": lambda: fw_optim.schedules.ShortStep(10.0),
}
SOFTMAX: dict[str, Callable[[], Any]] = {
    name: OPTIMIZERS[name]
    for name in (
        *("one-sample", "sfw", "momentum", "momentum-memory", "ofw", "ofw-adversarial", "adaptive", "fw"),
        *("lu-freund", "hazan-luo", "svrf", "scgs", "storc", "projected", "projected-svrg"),
    )
}


# --- other estimators ---


def _river() -> Any:
    model = linear_model.LogisticRegression(optimizer=fw_optim.river.FrankWolfe(sets.L1Ball(2.0)))
    for row in _table(30, 0):
        model.learn_one(_sample(row), bool(row[0] > 0.0))
    return model


def use_river(model: Any) -> None:
    """Learn and predict; river's own part of the model is as the file says."""
    for k, row in enumerate(_table(6, 1)):
        x = _sample(row) | ({f"new {k}": 0.5} if k in (2, 4) else {})
        model.predict_proba_one(x)
        model.learn_one(x, bool(row[0] > 0.0))


def _pipeline() -> Any:
    model = compose.Pipeline(preprocessing.StandardScaler(), fw.FWClassifier(sets.L1Ball(2.0), seed=1, intercept=False))
    watching = [
        monitors.Gap(every=5),
        monitors.Regret(),
        monitors.Feasibility(every=5),
        monitors.Support(every=5),
        monitors.Drift(),
        monitors.Metric(metrics.Accuracy()),
        monitors.Throughput(),
    ]
    state = {"model": model, "monitors": watching}
    _play(state, _table(30, 0))
    return state


def _play(state: Any, X: np.ndarray) -> None:
    model = state["model"]
    for row in X:
        x, y = _sample(row), bool(row[0] > 0.0)
        y_pred = model.predict_one(x)
        model.learn_one(x, y)
        for monitor in state["monitors"]:
            monitor.update(y, y_pred, x=x, model=model)
    for monitor in state["monitors"]:
        monitor.get()


def use_pipeline(state: Any) -> None:
    """What a loop does with a pipeline and its monitors; river's own part of the model is as the file says."""
    if not isinstance(state, dict) or not {"model", "monitors"} <= state.keys():
        return  # the loop says so (its own tests)
    if not isinstance(state["model"], compose.Pipeline) or not isinstance(state["monitors"], list):
        return
    last = final_estimator(state["model"])
    if isinstance(last, fw.FWClassifier):
        use_linear(last)


def _specimens() -> dict[str, Specimen]:
    found: dict[str, Specimen] = {}
    regressor, classifier, softmax = fw.FWRegressor, fw.FWClassifier, fw.FWSoftmax

    def add(name: str, make: Callable[[], Any], density: float = 1.0, use: Callable[[Any], None] = use_linear) -> None:
        try:
            make()
        except (TypeError, ValueError):  # an optimizer that does not work on this set
            return
        found[name] = _linear(make, density, use)

    for o, optimizer in OPTIMIZERS.items():
        for s, constraint in SETS.items():
            add(f"regressor/{o}/{s}", lambda o=optimizer, s=constraint: regressor(s(), o(), intercept=False, seed=1))
        add(f"sparse/{o}", lambda o=optimizer: regressor(sets.L1Ball(2.0), o(), intercept=True, seed=1), 0.4)
        for s in ("l1", "l2"):
            add(
                f"bounded/{o}/{s}",
                lambda o=optimizer, s=SETS[s]: regressor(s(), o(), intercept=False, seed=1, max_names=4),
            )
        add(f"classifier/{o}", lambda o=optimizer: classifier(sets.L1Ball(2.0), o(), intercept=True, seed=1))
        if o in ("sfw", "one-sample", "fw", "ofw", "pairwise-memory", "svrf"):
            for name, loss in LOSSES.items():
                add(
                    f"loss/{o}/{name}", lambda o=optimizer, f=loss: regressor(sets.L1Ball(2.0), o(), f(), False, seed=1)
                )
    for s, constraint in OTHER_SETS.items():
        for o in ("sfw", "one-sample", "fw", "away", "randomized", "svrf"):
            add(f"set/{o}/{s}", lambda o=OPTIMIZERS[o], s=constraint: regressor(s(), o(), intercept=False, seed=1))
    for name, schedule in SCHEDULES.items():
        add(
            f"schedule/{name}",
            lambda f=schedule: regressor(
                sets.L1Ball(2.0), fw_optim.SFW(memory=20, schedule=f()), intercept=False, seed=1
            ),
        )
    for o, optimizer in SOFTMAX.items():
        add(f"softmax/{o}", lambda o=optimizer: softmax(sets.NuclearBall(5.0), o(), seed=1))
    for o in ("one-sample", "svrf", "projected"):
        add(f"softmax/{o}/box", lambda o=OPTIMIZERS[o]: softmax(sets.Box(0.5, 2.0), o(), seed=1), 0.4)
    add("bounded/softmax", lambda: softmax(seed=1, max_names=4))
    for s in ("l1", "l2", "linf"):
        add(f"softmax/default/{s}", lambda s=SETS[s]: softmax(s(), seed=1), 0.4)
    add("default", lambda: regressor(seed=1), use=use_frame)
    add("default/classifier", lambda: classifier(seed=1), use=use_frame)
    add("default/softmax", lambda: softmax(seed=1), use=use_frame)
    add("default/projected", lambda: regressor(None, fw_optim.ProjectedSGD(0.1), seed=1))
    found["new"] = Specimen(lambda: regressor(sets.L1Ball(2.0), seed=1), use_linear, regressor)
    found["river/frank-wolfe"] = Specimen(_river, use_river, linear_model.LogisticRegression)
    found["pipeline"] = Specimen(_pipeline, use_pipeline, dict)
    found |= {name: Specimen(*part) for name, part in PARTS.items()}
    return found


SPECIMENS = _specimens()
