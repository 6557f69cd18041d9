"""Steps of ``SHCGMCompletion`` beside literal numpy versions: the paper's dense form, and the default form."""

from __future__ import annotations

import math
import typing

import numpy as np

from fwonline import datasets, reco
from fwonline.exceptions import SourceError
from tools.bench.clock import stopwatch
from tools.bench.report import Comparison, Settings, Table, duration, faster

if typing.TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["Literal", "run", "simulated"]

LOWER, UPPER, DAMPING = 1.0, 5.0, 5.0


class Ratings(typing.NamedTuple):
    """Rated cells, each once, and what they are called in a report."""

    name: str
    users: NDArray
    items: NDArray
    y: NDArray

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.users.max()) + 1, int(self.items.max()) + 1


def simulated(count: int, n_users: int, n_items: int) -> Ratings:
    """Distinct cells of a low-rank matrix, rated with noise; every user and item has a rating."""
    stream = datasets.LowRankRatings(n_users=n_users, n_items=n_items, rank=4, noise=0.7, skew=0.5, seed=0)
    X, y = stream.to_arrays(3 * count)
    first = np.unique(X.astype(np.int64) @ [n_items, 1], return_index=True)[1]
    chosen = np.random.default_rng(0).permutation(first)[:count]
    users, items = np.unique(X[chosen, 0], return_inverse=True)[1], np.unique(X[chosen, 1], return_inverse=True)[1]
    return Ratings(f"simulated, {chosen.size:,} ratings", users, items, y[chosen])


def movielens() -> Ratings:
    """MovieLens 100k, the part `ub_base`; or a stand-in of its size."""
    try:
        X, y = datasets.load("movielens_100k", "ub_base")
    except SourceError:
        return simulated(90_570, 943, 1682)
    users, items = (np.unique(column, return_inverse=True)[1] for column in X.T)
    return Ratings("movielens_100k, ub_base", users, items, y)


class Literal:
    """Both forms in dense numpy, as one writes them down; the LMO by power iterations to a residual of 1%."""

    def __init__(self, ratings: Ratings, radius: float, beta0: float, batch_size: int, dense: bool):
        self.ratings, self.radius, self.beta0, self.batch_size, self.dense = ratings, radius, beta0, batch_size, dense
        self.rng = np.random.default_rng(0)
        self.X, self.d = np.zeros(ratings.shape), np.zeros(ratings.shape)
        self.v = self.rng.standard_normal(ratings.shape[1])
        self.k = 0
        self.of_user, self.of_item = np.zeros(ratings.shape[0]), np.zeros(ratings.shape[1])

    def step(self) -> None:
        self.k += 1
        V, eta = self._paper() if self.dense else self._default()
        u = V @ self.v
        for _ in range(200):
            w = V.T @ u
            square = math.sqrt(w @ w) / math.sqrt(self.v @ self.v)
            residual = w - (self.v @ w) / (self.v @ self.v) * self.v
            self.v = w / math.sqrt(w @ w)
            u = V @ self.v
            if math.sqrt(residual @ residual) <= 0.01 * square:
                break
        u /= math.sqrt(u @ u)
        self.X += eta * (-self.radius * np.outer(u, self.v) - self.X)

    def _paper(self) -> tuple[NDArray, float]:
        k, (_, users, items, y) = self.k, self.ratings
        chosen = self.rng.choice(y.size, min(self.batch_size, y.size), replace=False)
        gradient = np.zeros_like(self.X)
        at = users[chosen], items[chosen]
        gradient[at] = 2.0 * y.size / chosen.size * (self.X[at] - y[chosen])
        rho = 4.0 / (k + 7) ** (2.0 / 3.0)
        self.d = (1.0 - rho) * self.d + rho * gradient
        return self.d + (self.X - np.clip(self.X, LOWER, UPPER)) * (math.sqrt(k + 8) / self.beta0), 9.0 / (k + 8)

    def _default(self) -> tuple[NDArray, float]:
        k, (_, users, items, y) = self.k, self.ratings
        (m, n), mean = self.X.shape, y.mean()
        left = np.bincount(items, y - mean - self.of_user[users], n)
        self.of_item = left / (np.bincount(items, minlength=n) + DAMPING)
        left = np.bincount(users, y - mean - self.of_item[items], m)
        self.of_user = left / (np.bincount(users, minlength=m) + DAMPING)
        whole = self.X + self.of_user[:, None] + self.of_item + mean
        V = np.zeros_like(self.X)
        V[users, items] = 2.0 * (whole[users, items] - y)
        others = self.rng.integers(0, m, self.batch_size), self.rng.integers(0, n, self.batch_size)
        for at in ((users, items), others):
            np.add.at(V, at, (whole[at] - np.clip(whole[at], LOWER, UPPER)) * (math.sqrt(k + 1) / self.beta0))
        return V, 2.0 / (k + 1)


def _ours(ratings: Ratings, radius: float, batch_size: int, method: str) -> reco.SHCGMCompletion:
    model = reco.SHCGMCompletion(radius, LOWER, UPPER, method=method, beta0=10.0, batch_size=batch_size, seed=0)
    model.store(ratings.users, ratings.items, ratings.y)
    return model


def _turns(
    ratings: Ratings, radius: float, batch_size: int, dense: bool, steps: int, turns: int
) -> tuple[float, float]:
    """Mean seconds of a step over the same numbers of steps, ours and the literal version's, in turns."""
    model = _ours(ratings, radius, batch_size, "shcgm" if dense else "hcgm")
    literal = Literal(ratings, radius, 10.0, batch_size, dense)
    model.advance()
    literal.step()
    ours = theirs = 0.0
    for _ in range(turns):
        with stopwatch() as seconds:
            model.advance(steps)
        ours += seconds()
        with stopwatch() as seconds:
            for _ in range(steps):
                literal.step()
        theirs += seconds()
    return ours / (steps * turns), theirs / (steps * turns)


def run(settings: Settings) -> Iterator[Comparison | Table]:
    """The dense form, the default form, and the default form as the matrix grows and the ratings do not."""
    rows = []
    real = simulated(2_000, 90, 120) if settings.quick else movielens()
    m, n = real.shape
    for many, wanted in ((6, None), (20, 4.0)) if settings.quick else ((100, None), (10_000, 4.0)):
        steps = min(many, 100) // 2
        mine, theirs = _turns(real, 7000.0 * math.sqrt(len(real.y) / 90_570), 1000, True, steps, many // steps)
        yield faster(
            f"completion, dense, {m} x {n}, batch 1000, mean of {many:,} steps",
            mine, "literal numpy", theirs, theirs / mine, wanted,
        )  # fmt: skip
    cases = [real] if settings.quick else [real, simulated(1_000_000, 6040, 3706)]
    for data in cases:
        radius = 3.3 * math.sqrt(len(data.y))
        mine, theirs = _turns(data, radius, 1000, False, *((3, 2) if settings.quick else (10, 3)))
        yield faster(
            f"completion, default, {len(data.y):,} ratings, {data.shape[0]} x {data.shape[1]}",
            mine, "literal numpy, dense", theirs, theirs / mine, 10.0,
        )  # fmt: skip
        rows.append((data.name, *data.shape, len(data.y), duration(mine), duration(theirs)))
        steps = 10 if settings.quick else 300
        with stopwatch() as seconds:
            model = _ours(data, radius, 1000, "hcgm")
        storing = seconds()
        with stopwatch() as seconds:
            model.advance(steps)
        yield Comparison(
            f"completion, default, {len(data.y):,} ratings, stored and learned in {steps} steps",
            duration(storing + seconds()), "of it storing", duration(storing), wanted="reported",
        )  # fmt: skip
    times = []
    count, side = (2_000, 60) if settings.quick else (100_000, 800)
    for factor in (1, 2, 4):
        data = simulated(count, factor * side, 2 * factor * side)
        model = _ours(data, 3.3 * math.sqrt(count), 1000, "hcgm")
        model.advance(5)
        with stopwatch() as seconds:
            model.advance(20)
        times.append(seconds() / 20)
        rows.append((data.name, *data.shape, len(data.y), duration(times[-1]), ""))
    yield Comparison(
        "completion, default: a step at 16 times the cells", duration(times[-1]), "at 1", duration(times[0]),
        f"{times[-1] / times[0]:.2f}x its time", "sublinear, < 16x", times[-1] < 16.0 * times[0],
    )  # fmt: skip
    yield Table(
        "completion: setting",
        ("data", "users", "items", "ratings", "our step", "literal step"),
        rows,
        (
            "box [1, 5], beta0 10; radius 7000 dense, 3.3 sqrt(ratings) after mean and biases",
            "literal: dense numpy arrays, warm power iterations; ours: the same residual of 1% dense, "
            "0.7 sqrt(step) by default",
            "turns of ours and the literal version alternate in one process; their storing is not timed",
        ),
    )
