"""What the cases are made of: optimizers, sets, losses and schedules with every argument given, and streams."""

from __future__ import annotations

import math
import typing
from collections.abc import Callable

import numpy as np
from river import optim as river_optim
from scipy import sparse

from fwonline import losses, optim, sets
from tools.compare.names import build

__all__ = [
    "CUSTOM_LOSSES",
    "DENSE_SETS",
    "FIXED_SETS",
    "LOSSES",
    "OPTIMIZERS",
    "SCHEDULES",
    "SETS",
    "SPREAD",
    "Tilted",
    "samples",
    "table",
]

Make = Callable[[], typing.Any]
schedules = optim.schedules
#: Features of a stream that has a fixed number of them.
WIDTH = 6


def _harmonic(offset: float = 2.0, floor: float = 0.0, restart: int | None = None) -> typing.Any:
    return build(schedules, "Harmonic", offset=offset, floor=floor, restart=restart)


def _of(name: str, **kwargs: typing.Any) -> Make:
    return lambda: build(
        optim, name, **{key: value() if key == "schedule" and value else value for key, value in kwargs.items()}
    )


def _stochastic(name: str, **kwargs: typing.Any) -> Make:
    return _of(name, **{"lipschitz": None, "gradient_bound": None, "diameter": None, **kwargs})


def _ofw(**kwargs: typing.Any) -> Make:
    return _of(
        "OFW",
        **{
            **{"a": 0.5, "memory": 1000, "max_features": 1000, "adversarial": False},
            **{"horizon": None, "gradient_bound": None},
            **kwargs,
        },
    )


_SCGS = {"sigma": None, "batch_size": None, "inner_steps": 5, "memory": 20, "steps": 1}
_STORC = {
    **{"strong_convexity": None, "interior": False, "batch_size": 3, "epoch": None, "inner_steps": 5},
    **{"memory": 20, "steps": 1},
}
OPTIMIZERS: dict[str, Make] = {
    "sfw": _of("SFW", memory=30, batch_size=1, steps=1, schedule=_harmonic),
    "sfw-batches": _of("SFW", memory=50, batch_size=8, steps=3, schedule=_harmonic),
    "sfw-all": _of("SFW", memory=7, batch_size=7, steps=2, schedule=lambda: _harmonic(floor=0.02)),
    "momentum": _of("MomentumFW", batch_size=1, schedule=lambda: _harmonic(8.0), memory=None, rho=None),
    "momentum-batches": _of("MomentumFW", batch_size=4, schedule=lambda: _harmonic(8.0), memory=None, rho=0.3),
    "momentum-memory": _of("MomentumFW", batch_size=5, schedule=lambda: _harmonic(8.0), memory=30, rho=None),
    "one-sample": _of("OneSampleFW", alpha=2.0 / 3.0, schedule=None),
    "one-sample-harmonic": _of("OneSampleFW", alpha=1.0, schedule=_harmonic),
    "ofw": _ofw(memory=60),
    "ofw-recursion": _ofw(a=0.4, memory=20, max_features=10),
    "ofw-adversarial": _ofw(adversarial=True),
    "ofw-horizon": _ofw(adversarial=True, horizon=120, gradient_bound=3.0),
    "adaptive": _of("AdaptiveOFW", horizon=100, block=None, tolerance=None, gradient_bound=None),
    "adaptive-blocks": _of("AdaptiveOFW", horizon=200, block=7, tolerance=0.5, gradient_bound=2.0),
    "pairwise-memory": _of(
        "StochasticPairwiseFW", memory=40, steps=None, significance=0.3, detector=None, window=None, forgetting=False
    ),
    "pairwise-memory-steps": _of(
        "StochasticPairwiseFW", memory=25, steps=3, significance=0.1, detector=None, window=None, forgetting=False
    ),
    "lu-freund": _of("LuFreundFW", memory=30, batch_size=1, steps=1, first_gradient=False),
    "lu-freund-batches": _of("LuFreundFW", memory=30, batch_size=4, steps=3, first_gradient=True),
    "mixture": _of("Mixture", memory=40, forgetting=True),
    "projected": _of("ProjectedSGD", step=0.1, power=0.5, batch_size=1),
    "projected-batches": _of("ProjectedSGD", step=0.2, power=0.4, batch_size=6),
    "fw": _of("FW", memory=20, steps=1, schedule=schedules.LineSearch),
    "fw-harmonic": _of("FW", memory=15, steps=2, schedule=_harmonic),
    "away": _of("AwayFW", memory=20, steps=2, schedule=schedules.LineSearch),
    "pairwise": _of("PairwiseFW", memory=20, steps=1, schedule=schedules.LineSearch),
    "randomized": _of("RandomizedFW", fraction=0.4, memory=20, steps=1, schedule=schedules.LineSearch, check=2),
    "randomized-away": _of(
        "RandomizedAwayFW", fraction=0.4, memory=20, steps=2, schedule=schedules.LineSearch, check=2
    ),
    "hazan-luo": _stochastic("HazanLuoFW", batch_size=4, schedule=None, memory=20, steps=1),
    "hazan-luo-paper": _stochastic("HazanLuoFW", batch_size=None, schedule=_harmonic, memory=20, steps=2),
    "svrf": _of("SVRF", batch_size=4, epoch=None, schedule=None, memory=20, steps=1),
    "svrf-epochs": _of("SVRF", batch_size=None, epoch=7, schedule=_harmonic, memory=20, steps=2),
    "scgs": _stochastic("SCGS", **_SCGS),
    "scgs-given": _stochastic(
        "SCGS", **{**_SCGS, "sigma": 1.0, "batch_size": 3, "lipschitz": 2.0, "diameter": 2.0, "gradient_bound": 4.0}
    ),
    "storc": _stochastic("STORC", **_STORC),
    "storc-strong": _stochastic("STORC", **{**_STORC, "strong_convexity": 0.1, "interior": False, "steps": 2}),
    "projected-svrg": _of("ProjectedSVRG", step=0.05, batch_size=2, epoch=None, lipschitz=None, memory=20, steps=1),
    "projected-svrg-epochs": _of("ProjectedSVRG", step=None, batch_size=1, epoch=6, lipschitz=None, memory=20, steps=2),
}
#: One of each class, for the cases that need not have every variant.
SPREAD = (
    *("sfw", "sfw-batches", "momentum", "momentum-memory", "one-sample", "ofw", "ofw-recursion", "ofw-adversarial"),
    *("adaptive", "pairwise-memory", "lu-freund", "projected", "fw", "away", "pairwise", "randomized"),
    *("randomized-away", "hazan-luo", "svrf", "scgs", "storc", "projected-svrg"),
)
#: Sets that have compiled oracles and take features that appear later.
SETS: dict[str, Make] = {
    "l1": lambda: sets.L1Ball(radius=2.0),
    "simplex": lambda: sets.ProbabilitySimplex(radius=1.5),
    "unit-simplex": lambda: sets.UnitSimplex(radius=3.0),
    "l2": lambda: sets.L2Ball(radius=2.0),
    "linf": lambda: sets.LInfBall(radius=0.5),
    "box": lambda: sets.Box(lower=-0.4, upper=0.8),
    "k-sparse": lambda: sets.KSparseBall(k=3, radius=0.7),
}
#: Sets that the step reaches in another way, for features that appear later.
DENSE_SETS: dict[str, Make] = {
    "lp": lambda: sets.LpBall(p=1.5, radius=2.0),
    "k-norm": lambda: sets.KNormBall(k=2, radius=1.0),
    "permutahedron": sets.Permutahedron,
}
#: Sets of a fixed dimension.
FIXED_SETS: dict[str, Make] = {
    "bounds": lambda: sets.Box(lower=[-1.0, 0.2, -2.0, 0.0, -1.0, -0.1], upper=[1.0, 1.0, 2.0, 2.0, 3.0, 0.1]),
    "ordered": lambda: sets.OrderedL1Ball(weights=[3.0, 2.0, 1.0, 1.0, 1.0, 0.5], radius=2.0),
    "ellipsoid": lambda: sets.Ellipsoid(matrix=[1.0, 2.0, 3.0, 1.0, 2.0, 1.0], center=None, radius=1.0),
    "hull": lambda: sets.ConvexHull(vertices=np.vstack([np.eye(WIDTH), -np.eye(WIDTH)[:3], np.zeros(WIDTH)])),
    "groups": lambda: sets.GroupL1Ball(groups=[[0, 1], [2, 3], [4, 5]], radius=2.0),
    "latent": lambda: sets.LatentGroupBall(groups=[[0, 1, 2], [2, 3], [4, 5]], radius=2.0),
    "product": lambda: sets.Product(parts=[(sets.L1Ball(radius=1.0), 2), (sets.L2Ball(radius=1.0), 4)]),
}


class Tilted(sets.L1Ball):
    """A set of a user's own: the l1 ball, by an oracle and a projection in Python."""

    def _lmo(self, g):
        return sets.DenseAtom(super()._lmo(g).to_dense())


class Sharp:
    """A loss of a user's own: f(y, z) = sqrt(1 + (z - y)^2) - 1, in Python."""

    def __call__(self, y_true, y_pred):
        return math.sqrt(1.0 + (y_pred - y_true) ** 2) - 1.0

    def gradient(self, y_true, y_pred):
        return (y_pred - y_true) / math.sqrt(1.0 + (y_pred - y_true) ** 2)


class Steady(schedules.Schedule):
    """A schedule of a user's own."""

    def gamma(self, t: int, gap: float, dist_sq: float) -> float:
        return min(1.0, 1.0 / (t + 1.0) + 0.01 * gap / (1.0 + dist_sq)) if gap > 0.0 else 0.5 / (t + 1.0)


SCHEDULES: dict[str, Make] = {
    "harmonic": lambda: _harmonic(3.0, 0.01, 40),
    "power": lambda: build(schedules, "Power", a=0.6, factor=0.9),
    "short": lambda: build(schedules, "ShortStep", lipschitz=10.0),
    "curvature": lambda: build(schedules, "CurvatureStep", curvature=30.0),
    "adagrad": lambda: build(schedules, "AdaGradStep", scale=0.8),
    "custom": Steady,
}
_river = river_optim.losses
#: name -> (whether it asks for labels, the loss)
LOSSES: dict[str, tuple[bool, Make]] = {
    "squared": (False, _river.Squared),
    "absolute": (False, _river.Absolute),
    "huber": (False, lambda: _river.Huber(epsilon=0.5)),
    "quantile": (False, lambda: _river.Quantile(alpha=0.3)),
    "poisson": (False, _river.Poisson),
    "epsilon": (False, lambda: build(losses, "EpsilonInsensitive", eps=0.1)),
    "log": (True, lambda: _river.Log(weight_pos=1.0, weight_neg=1.0)),
    "log-weighted": (True, lambda: _river.Log(weight_pos=2.0, weight_neg=0.5)),
    "hinge": (True, lambda: _river.Hinge(threshold=1.0)),
    "focal": (True, lambda: _river.BinaryFocalLoss(gamma=2.0, beta=1.0)),
    "squared-hinge": (True, losses.SquaredHinge),
    "smooth-hinge": (True, lambda: build(losses, "SmoothHinge", width=0.5)),
    "epsilon-label": (True, lambda: _river.EpsilonInsensitiveHinge(eps=0.1)),
}
CUSTOM_LOSSES: dict[str, tuple[bool, Make]] = {"cauchy": (False, _river.Cauchy), "own": (False, Sharp)}


def table(n: int, d: int, seed: int, labels: bool, density: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """A matrix of samples and its targets."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < density)
    w = np.where(np.arange(d) % 3 == 0, np.linspace(-1.0, 1.0, d), 0.0)
    scores = X @ w + 0.1 * rng.normal(size=n)
    return X, (scores > 0.0 if labels else scores)


def samples(n: int, d: int, seed: int, labels: bool, density: float = 0.4, fixed: bool = False) -> list[tuple]:
    """A stream as dicts: names of several types, half of which appear only in the second half; ``fixed``: dense,
    and named by their positions, as sets of a fixed dimension ask."""
    X, y = table(n, d, seed, labels, 1.0 if fixed else density)
    names = [j if fixed or j % 6 == 3 else (f"x{j}" if j % 3 else ("pair", j)) for j in range(d)]
    found = []
    for i, (row, target) in enumerate(zip(X.tolist(), y.tolist(), strict=True)):
        width = d if fixed or 2 * i >= n else d // 2
        found.append(({names[j]: row[j] for j in range(width) if fixed or row[j]}, target))
    return found


def as_csr(X: np.ndarray) -> sparse.csr_array:
    """The same matrix, sparse."""
    return sparse.csr_array(X)
