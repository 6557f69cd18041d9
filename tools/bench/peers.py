"""Peers that need not be installed, and the floor that no library can be under."""

from __future__ import annotations

import importlib
import math
import typing

import numba as nb
import numpy as np

from tools.bench.clock import stopwatch

if typing.TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray
    from scipy import sparse

__all__ = ["Missing", "bare_pass", "copt_run", "sklearn_pass", "vowpal_pass", "vowpal_plays"]


class Missing(Exception):
    """A peer is not installed; the text says how to install it, and becomes a line of the table."""


def _import(module: str, how: str) -> typing.Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise Missing(f"{how} ({error})") from error


@nb.njit(cache=True, error_model="numpy")
def _sgd(indptr, indices, values, y, w, step):  # pragma: no cover  compiled
    loss = 0.0
    for i in range(y.size):
        z = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            z += w[indices[k]] * values[k]
        factor = step * (1.0 / (1.0 + math.exp(-z)) - y[i])
        for k in range(indptr[i], indptr[i + 1]):
            w[indices[k]] -= factor * values[k]
        loss += z
    return loss


def bare_pass(X: sparse.csr_array, y: NDArray) -> Callable[[], float]:
    """One pass of plain SGD on the log loss, compiled, unchecked: the floor."""
    targets = y.astype(np.float64)

    def contend() -> float:
        w = np.zeros(X.shape[1])
        with stopwatch() as seconds:
            _sgd(X.indptr, X.indices, X.data, targets, w, 0.5)
        return seconds() / len(y)

    return contend


def sklearn_pass(X: sparse.csr_array, y: NDArray) -> Callable[[], float]:
    """One ``partial_fit`` of scikit-learn's SGDClassifier with an l1 penalty."""
    linear_model = _import("sklearn.linear_model", "pip install scikit-learn")

    def contend() -> float:
        model = linear_model.SGDClassifier(loss="log_loss", penalty="l1", alpha=1e-5, random_state=0)
        model.partial_fit(X[:10], y[:10], classes=[False, True])
        with stopwatch() as seconds:
            model.partial_fit(X, y)
        return seconds() / len(y)

    return contend


def vowpal_pass(X: sparse.csr_array, y: NDArray, folder: Path, passes: int = 5) -> Callable[[], float]:
    """A pass of Vowpal Wabbit over its own binary cache, what starting it costs taken off by a run of one pass less."""
    vowpal = _import("vowpalwabbit", "pip install vowpalwabbit")
    text = folder / "data.vw"
    with text.open("w", encoding="ascii") as file:
        for i in range(len(y)):
            row = slice(X.indptr[i], X.indptr[i + 1])
            entries = " ".join(f"{j}:{v:.7g}" for j, v in zip(X.indices[row], X.data[row], strict=True))
            file.write(f"{1 if y[i] else -1} | {entries}\n")

    def passing(count: int) -> float:
        with stopwatch() as seconds:
            # The workspace reads while it is made; the driver ends when the passes have.
            workspace = vowpal.Workspace(
                f"--loss_function logistic --l1 1e-7 --noconstant --holdout_off --quiet -b 18 --passes {count} "
                f"--data {text} --cache_file {folder / 'data.cache'}"
            )
            workspace.run_parser()
        workspace.finish()
        return seconds()

    def contend() -> float:
        return (passing(1 + passes) - passing(1)) / (passes * len(y))

    return contend


# Learning rates of Vowpal Wabbit, of which the best counts in hindsight; its own is 0.5.
VOWPAL_RATES = (0.05, 0.15, 0.5, 1.5, 5.0)


def vowpal_plays(X: sparse.csr_array, y: NDArray, intercept: bool = True) -> dict[str, float]:
    """Mean loss of Vowpal Wabbit's predictions before learning, as it comes and at the best of its learning rates."""
    vowpal = _import("vowpalwabbit", "pip install vowpalwabbit")
    is_binary = y.dtype == np.bool_
    texts = []
    for i in range(len(y)):
        row = slice(X.indptr[i], X.indptr[i + 1])
        entries = " ".join(f"{j}:{v:.7g}" for j, v in zip(X.indices[row], X.data[row], strict=True))
        texts.append(f"{2 * int(y[i]) - 1 if is_binary else y[i]} | {entries}")

    def lost(rate: float) -> float:
        form = f"--loss_function {'logistic' if is_binary else 'squared'} {'' if intercept else '--noconstant'}"
        workspace = vowpal.Workspace(f"{form} --link identity --quiet -b 20 --learning_rate {rate}")
        z = np.zeros(len(y))
        for i, text in enumerate(texts):
            example = workspace.example(text)
            workspace.learn(example)
            z[i] = example.get_simplelabel_prediction()
            workspace.finish_example(example)
        workspace.finish()
        return float(np.mean(np.logaddexp(0.0, np.where(y, -z, z)) if is_binary else (z - y) ** 2))

    plays = {rate: lost(rate) for rate in VOWPAL_RATES}
    return {"Vowpal Wabbit": plays[0.5], "Vowpal Wabbit, best of 5 rates": min(plays.values())}


def copt_run(
    X: sparse.csr_array,
    y: NDArray,
    radius: float,
    passes: int,
    seed: int,
    variant: str = "SAG",
    batch_size: int = 1,
) -> tuple[float, NDArray]:
    """copt's stochastic Frank-Wolfe: seconds a step, and the iterate.

    Variants are SAG (Negiar et al.), MHK (Mokhtari et al., by sample) and LF (Lu, Freund).
    """
    how = "pip install wheel 'setuptools<70' && pip install --no-build-isolation copt==0.9.2"
    randomized, constraint = _import("copt.randomized", how), _import("copt.constraint", how)
    targets = y.astype(np.float64)

    def derivative(z: NDArray, labels: NDArray) -> NDArray:
        return 1.0 / (1.0 + np.exp(-z)) - labels

    lmo = constraint.L1Ball(radius).lmo
    start = np.zeros(X.shape[1])
    options = {"batch_size": batch_size, "variant": variant, "tol": -1.0}
    few = 10 * batch_size
    randomized.minimize_sfw(derivative, X[:few], targets[:few], start, lmo, max_iter=1, **options)  # compiles
    np.random.seed(seed)  # noqa: NPY002  copt draws from the global generator
    with stopwatch() as seconds:
        result = randomized.minimize_sfw(derivative, X, targets, start, lmo, max_iter=passes, **options)
    return seconds() / (passes * (len(y) // batch_size)), result.x
