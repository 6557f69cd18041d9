"""Data of the papers from the folder FWONLINE_DATA, or simulated stand-ins of the same shape, named as such."""

from __future__ import annotations

import dataclasses
import typing
from pathlib import Path

import numpy as np
from scipy import sparse

from fwonline import datasets, stream
from fwonline.exceptions import SourceError

if typing.TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["Data", "breast_cancer", "california", "fashion_mnist", "from_file", "rcv1"]


@dataclasses.dataclass(frozen=True)
class Data:
    """Samples and targets, and what they are called in a report."""

    name: str
    X: typing.Any
    y: NDArray

    @property
    def shape(self) -> str:
        """Size in words."""
        n, d = self.X.shape
        entries = f", {self.X.nnz / n:.1f} non-zeros a row" if sparse.issparse(self.X) else ""
        return f"{n:,} x {d:,}{entries}"

    def shuffled(self, seed: int) -> Data:
        """The rows in another order."""
        order = np.random.default_rng(seed).permutation(len(self.y))
        return dataclasses.replace(self, X=self.X[order], y=self.y[order])


def rcv1(quick: bool = False, rows: int = 20_242) -> Data:
    """Documents of RCV1, as many as the paper's."""
    return _load("rcv1_binary_sample", rows, quick, _text, (rows, 47_236), (400, 2_000))


def farm_ads(quick: bool = False) -> Data:
    """Words of advertisements of farms."""
    return _load("farm_ads", None, quick, _text, (4_143, 54_877), (400, 2_000))


def breast_cancer(quick: bool = False) -> Data:
    """Breast cancer of Wisconsin, scaled to [-1, 1] as LIBSVM does."""
    return _load("breast_cancer_wisconsin", None, quick, _classes, (683, 10), (200, 10))


def california(quick: bool = False) -> Data:
    """House values in California, columns in their own units."""
    return _load("california_housing", None, quick, _houses, (20_640, 8), (500, 8))


def fashion_mnist(quick: bool = False) -> Data:
    """Pictures of clothes, 28 x 28, of ten classes."""
    return _load("fashion_mnist", None, quick, _pictures, (60_000, 784), (600, 64))


def _load(
    name: str,
    rows: int | None,
    quick: bool,
    simulate: Callable[[int, int, np.random.Generator], tuple[typing.Any, NDArray]],
    full: tuple[int, int],
    small: tuple[int, int],
) -> Data:
    why = "small, for --quick"
    if not quick:
        try:
            X, y = datasets.load(name)
            return Data(f"{name}[:{rows}]" if rows else name, X[:rows], y[:rows])
        except SourceError:
            why = "FWONLINE_DATA does not hold the real data"
    X, y = simulate(*(small if quick else full), np.random.default_rng(0))
    return Data(f"simulated stand-in for {name} ({why})", X, y)


def _text(n: int, d: int, rng: np.random.Generator) -> tuple[sparse.csr_array, NDArray]:
    """Documents of about 75 words of Zipf's frequencies, rows of norm 1; classes differ in a hundredth of the words."""
    words = min(75, d // 8)
    frequency = 1.0 / (np.arange(d) + 10.0)
    counts = rng.poisson(words, n).clip(1)
    rows = np.repeat(np.arange(n), counts)
    columns = rng.choice(d, counts.sum(), p=frequency / frequency.sum())
    X = sparse.csr_array((1.0 + rng.exponential(size=columns.size), (rows, columns)), shape=(n, d))
    X.sum_duplicates()
    X = sparse.csr_array(sparse.diags_array(1.0 / np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())) @ X)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)  # all that scikit-learn takes
    truth = np.zeros(d)
    truth[rng.choice(d // 4, d // 100, replace=False)] = rng.normal(scale=20.0, size=d // 100)
    return X, rng.random(n) < 1.0 / (1.0 + np.exp(-(X @ truth)))


def _classes(n: int, d: int, rng: np.random.Generator) -> tuple[NDArray, NDArray]:
    """Two clouds in [-1, 1]^d that overlap a little."""
    y = rng.random(n) < 0.35
    return np.clip(np.where(y, 0.3, -0.6)[:, None] + rng.normal(scale=0.45, size=(n, d)), -1.0, 1.0), y


def _pictures(n: int, d: int, rng: np.random.Generator) -> tuple[NDArray, NDArray]:
    """Ten classes of pixels from 0 to 1, half of them dark; a class is a mean of low rank and noise."""
    y = rng.integers(10, size=n)
    means = rng.normal(size=(10, 5)) @ rng.normal(size=(5, d))
    return np.clip(0.3 * means[y] + 0.4 * rng.normal(size=(n, d)), 0.0, 1.0).astype(np.float32), y


def _houses(n: int, d: int, rng: np.random.Generator) -> tuple[NDArray, NDArray]:
    """Positive columns whose scales differ a thousandfold, one of them heavy-tailed."""
    scales = np.geomspace(1.0, 1000.0, d)
    X = rng.lognormal(sigma=0.5, size=(n, d)) * scales
    return X, 0.5 + X @ (1.0 / (d * scales)) + rng.normal(scale=0.5, size=n)


def from_file(path: str | Path) -> Data:
    """Any CSR matrix with the labels of two classes.

    Parameters
    ----------
    path
        An ``.npz`` as ``scipy.sparse.save_npz`` writes it, with an array ``y`` beside; or text in svmlight's format.

    Raises
    ------
    SourceError
        Where the file is neither, or its labels are not of two classes.
    """
    path = Path(path)
    if path.suffix == ".npz":
        try:
            X = sparse.csr_array(sparse.load_npz(path)).astype(np.float64)
            with np.load(path, allow_pickle=False) as arrays:
                y = arrays["y"]
        except (OSError, ValueError, KeyError) as error:
            raise SourceError(f"{path}: expected a CSR matrix with labels in the array y ({error})") from error
        X.sum_duplicates()
    else:
        X, y = _svmlight(path)
    classes = np.unique(y)
    if len(classes) != 2:
        raise SourceError(f"{path}: expected the labels of two classes, found {len(classes)}: {classes[:5]}")
    return Data(path.stem, X, y == classes[1])


def _svmlight(path: Path) -> tuple[sparse.csr_array, NDArray]:
    indptr, indices, values, labels = [0], [], [], []
    with stream.SVMLightSource(path) as source:
        for sample in source:
            if isinstance(sample, stream.Rejected):
                raise SourceError(sample.error)
            indices.extend(sample.x)
            values.extend(sample.x.values())
            indptr.append(len(indices))
            labels.append(sample.y)
    return sparse.csr_array((values, indices, indptr), shape=(len(labels), max(indices, default=0) + 1)), np.array(
        labels
    )
