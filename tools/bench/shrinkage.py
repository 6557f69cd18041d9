"""How near a covariance estimate without bounds comes to the truth, beside scikit-learn's shrinkage.

Of real data the truth is the covariance of a half that is held out, of simulated ones it is known; errors are relative,
in the Frobenius norm.
"""

from __future__ import annotations

import dataclasses
import typing

import numpy as np

from fwonline import covariance, datasets
from tools.bench.report import Comparison, Settings, Table
from tools.papers import data

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

__all__ = ["run"]

_FEW, _MANY = 100, 1000
# What a mean over a few draws cannot tell from nothing.
_LEVEL = 1.01


@dataclasses.dataclass(frozen=True)
class Case:
    """A name, and for a seed samples and the covariance that they are to show."""

    name: str
    draw: Callable[[int], tuple[NDArray, NDArray]]


def _half(X: NDArray) -> Callable[[int], tuple[NDArray, NDArray]]:
    def draw(seed: int) -> tuple[NDArray, NDArray]:
        rows = X[np.random.default_rng(seed).permutation(len(X))]
        half = len(rows) // 2
        return rows[:half][:_MANY], np.cov(rows[half:].T, ddof=0)

    return draw


def _simulated(truth: NDArray, freedom: int | None = None) -> Callable[[int], tuple[NDArray, NDArray]]:
    """Normal samples, or of a t distribution with so many degrees of freedom."""
    root = np.linalg.cholesky(truth)

    def draw(seed: int) -> tuple[NDArray, NDArray]:
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((_MANY, len(truth))) @ root.T
        if freedom is not None:
            X *= np.sqrt((freedom - 2) / rng.chisquare(freedom, _MANY))[:, None]
        return X, truth

    return draw


def _truths(n: int) -> Iterator[tuple[str, NDArray]]:
    yield "block", datasets.BlockCovariance(n_features=n, n_blocks=10, seed=0).covariance + 0.01 * np.eye(n)
    loadings = np.random.default_rng(0).standard_normal((n, 3))
    yield "factor", loadings @ loadings.T + np.diag(np.random.default_rng(1).uniform(0.5, 2.0, n))
    yield "Toeplitz 0.5", 0.5 ** np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    yield "Toeplitz 0.9", 0.9 ** np.abs(np.subtract.outer(np.arange(n), np.arange(n)))


def _standardised(X: NDArray) -> NDArray:
    scale = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(scale > 0.0, scale, 1.0)


def _cases(quick: bool) -> Iterator[Case]:
    from sklearn import datasets as bundled

    if not quick:
        images = data.fashion_mnist().X[:20_000].reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(-1, 196)
        yield Case("Fashion-MNIST 14 x 14", _half(images))
        yield Case("California, standardised", _half(_standardised(data.california().X)))
        yield Case("breast cancer, 9 features", _half(data.breast_cancer().X))
    yield Case("breast cancer, 30 standardised", _half(_standardised(bundled.load_breast_cancer().data)))
    yield Case("digits 8 x 8", _half(bundled.load_digits().data))
    n = 30 if quick else 100
    for name, truth in _truths(n):
        yield Case(f"{name}, n = {n}", _simulated(truth))
        yield Case(f"{name}, n = {n}, t of 5", _simulated(truth, freedom=5))


def _errors(X: NDArray, truth: NDArray) -> list[float]:
    from sklearn.covariance import OAS, EmpiricalCovariance, LedoitWolf

    ours = covariance.SHCGMCovariance(seed=0)
    ours.learn_arrays(X)
    estimates = [kind().fit(X).covariance_ for kind in (EmpiricalCovariance, LedoitWolf, OAS)]
    size = np.linalg.norm(truth)
    return [float(np.linalg.norm(x - truth)) / size for x in (*estimates, ours.to_numpy(), ours.ball())]


def run(settings: Settings) -> Iterator[Comparison | Table]:
    """Means over seeds after a hundred samples, and after a thousand or as many as there are."""
    rows = []
    seeds = range(2 if settings.quick else 10)
    for case in _cases(settings.quick):
        drawn = [case.draw(seed) for seed in seeds]
        for count in (_FEW, min(_MANY, len(drawn[0][0]))):
            errors = np.array([_errors(X[:count], truth) for X, truth in drawn])
            empirical, wolf, oas, ours, ball = errors.mean(axis=0)
            peer, theirs = ("Ledoit-Wolf, OAS", min(wolf, oas)) if count == _FEW else ("empirical", empirical)
            cells = f"{ours:.3f}", peer, f"{theirs:.3f}", f"{ours / theirs:.3f} of it", f"<= {_LEVEL} of it"
            met = None if settings.quick else bool(ours <= _LEVEL * theirs)
            yield Comparison(f"covariance error, {case.name}, {count} samples", *cells, met)
            rows.append((case.name, count, *(f"{e:.3f}" for e in (empirical, wolf, oas, ours, ball))))
    yield Table(
        "covariance: relative Frobenius error",
        ("data", "samples", "empirical", "Ledoit-Wolf", "OAS", "ours", "ours, ball alone"),
        rows,
        (f"means over {len(seeds)} draws; of real data against a half that is held out",),
    )
