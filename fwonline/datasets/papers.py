"""The real data of the literature, read from a folder of the user's: none of it is shipped with this package."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from river.datasets import base

from fwonline.datasets._simulator import samples
from fwonline.exceptions import SourceError

__all__ = ["PAPERS", "Paper", "PaperDataset", "load"]

_VARIABLE = "FWONLINE_DATA"
Arrays = tuple[Any, np.ndarray]


@dataclass(frozen=True)
class Paper:
    """What is known of one data set without opening it."""

    title: str
    #: Reads the arrays, given the path, the opened archive and the name of a split.
    read: Callable[[pathlib.Path, Mapping[str, np.ndarray], str], Arrays]
    #: Samples and features.
    shape: tuple[int, int]
    task: str = base.REG
    sparse: bool = False
    #: The first split is the default.
    splits: tuple[str, ...] = ("all",)
    #: Names of the features; None if they are counted from 0.
    keys: tuple[str, ...] | None = None
    n_classes: int | None = None


def _breast_cancer(path: pathlib.Path, arrays: Mapping[str, np.ndarray], split: str) -> Arrays:
    return arrays["X_libsvm_scaled"], arrays["y"] == 4


def _california(path: pathlib.Path, arrays: Mapping[str, np.ndarray], split: str) -> Arrays:
    return arrays["X"], arrays["y"]


def _text(path: pathlib.Path, arrays: Mapping[str, np.ndarray], split: str) -> Arrays:
    X = scipy.sparse.csr_array(scipy.sparse.load_npz(path)).astype(np.float64)
    X.sum_duplicates()  # also sorts the indices of each row
    return X, arrays["y"] == 1


def _fashion(path: pathlib.Path, arrays: Mapping[str, np.ndarray], split: str) -> Arrays:
    X = arrays[f"x_{split}"]
    return X.reshape(len(X), -1) / np.float32(255), arrays[f"y_{split}"].astype(np.int64)


def _movielens(path: pathlib.Path, arrays: Mapping[str, np.ndarray], split: str) -> Arrays:
    rows = slice(None) if split == "all" else arrays[split]
    X = np.column_stack((arrays["user"], arrays["item"])).astype(np.int64)
    return X[rows], arrays["rating"][rows].astype(np.float64)


_FOLDS = tuple(f"{fold}_{part}" for fold in ("ua", "ub", "u1", "u2", "u3", "u4", "u5") for part in ("base", "test"))
_HOUSING = ("MedInc", "HouseAge", "AveRooms", "AveBedrms", "Population", "AveOccup", "Latitude", "Longitude")

_TWO_CLASSES: dict[str, Any] = {"task": base.BINARY_CLF, "n_classes": 2}
PAPERS: dict[str, Paper] = {
    "breast_cancer_wisconsin": Paper(
        "Breast cancer of Wisconsin, scaled as LIBSVM does; True is malignant",
        *(_breast_cancer, (683, 10)),
        **_TWO_CLASSES,
    ),
    "california_housing": Paper(
        "House values in California in units of 100,000", _california, (20640, 8), keys=_HOUSING
    ),
    "rcv1_binary_sample": Paper(
        "Reuters news, rows of norm 1; True is the positive class",
        *(_text, (23749, 47236)),
        sparse=True,
        **_TWO_CLASSES,
    ),
    "farm_ads": Paper(
        "Advertisements on farm animals, words present or not; True is approved",
        *(_text, (4143, 54877)),
        sparse=True,
        **_TWO_CLASSES,
    ),
    "fashion_mnist": Paper(
        "Pictures of clothes, pixels from 0 to 1",
        *(_fashion, (60000, 784), base.MULTI_CLF),
        splits=("train", "test"),
        n_classes=10,
    ),
    "movielens_100k": Paper(
        "Ratings of films, 1 to 5", _movielens, (100_000, 2), splits=("all", *_FOLDS), keys=("user", "item")
    ),
}


def _lookup(name: str, split: str | None) -> tuple[Paper, str]:
    if name not in PAPERS:
        raise ValueError(f"no data set is called {name!r}; there are {', '.join(PAPERS)}")
    paper = PAPERS[name]
    if split is not None and split not in paper.splits:
        raise ValueError(f"{name} has no split {split!r}; there are {', '.join(paper.splits)}")
    return paper, split or paper.splits[0]


def _find(name: str, directory: str | os.PathLike | None) -> pathlib.Path:
    where = directory if directory is not None else os.environ.get(_VARIABLE)
    if not where:
        raise SourceError(
            f"{name}: the environment variable {_VARIABLE} is not set; set it to the folder that holds {name}.npz "
            "(the data of the papers is not shipped with fwonline)"
        )
    path = pathlib.Path(where).expanduser() / f"{name}.npz"
    if not path.is_file():
        raise SourceError(f"{name}: no file {path}; set {_VARIABLE} to the folder that holds {name}.npz")
    return path


def load(name: str, split: str | None = None, directory: str | os.PathLike | None = None) -> Arrays:
    """Read a data set of the papers as arrays.

    Nothing in the file is executed: it is read without pickle.

    Parameters
    ----------
    name
        `breast_cancer_wisconsin`, `california_housing`, `rcv1_binary_sample`, `farm_ads`, `fashion_mnist` or
        `movielens_100k`.
    split
        `train` (default) or `test` for `fashion_mnist`; `all` (default), `ub_base`, `ub_test`, `ua_base`, ... for
        `movielens_100k`.
    directory
        Folder of the archives; by default what the environment variable `FWONLINE_DATA` says.

    Returns
    -------
    tuple
        `X`: float array of shape (n_samples, n_features), CSR for text; users and items as integers for ratings.
        `y`: floats for regression, booleans for two classes, integers for more.

    Raises
    ------
    SourceError
        Where the folder is not known, or has no such file, or the file is damaged.

    Examples
    --------
    >>> from fwonline import datasets
    >>> X, y = datasets.load("rcv1_binary_sample")                    # doctest: +SKIP
    >>> X.shape                                                       # doctest: +SKIP
    (23749, 47236)
    """
    paper, split = _lookup(name, split)
    path = _find(name, directory)
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return paper.read(path, arrays, split)
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise SourceError(f"{path}: not the archive of {name} that was expected ({error})") from error


class PaperDataset(base.FileDataset):
    """A data set of the papers as a river dataset.

    The file is read when the iteration starts. Samples are dicts; features are counted from 0 where they have no
    names, and absent ones are left out where the data is sparse. Labels of two classes are booleans.

    Parameters
    ----------
    name, split, directory
        As for `load`.

    Examples
    --------
    >>> from fwonline import datasets
    >>> dataset = datasets.PaperDataset("california_housing")
    >>> dataset.task, dataset.n_features
    ('Regression', 8)
    >>> x, y = next(iter(dataset))                                    # doctest: +SKIP
    """

    def __init__(self, name: str, split: str | None = None, directory: str | os.PathLike | None = None):
        paper, _ = _lookup(name, split)
        n_samples, n_features = paper.shape
        super().__init__(
            filename=f"{name}.npz",
            directory=directory,
            task=paper.task,
            n_features=n_features,
            n_samples=n_samples if split in (None, paper.splits[0]) else None,
            n_classes=paper.n_classes,
            n_outputs=1,
            sparse=paper.sparse,
        )
        self.name = name
        self.split = split

    @property
    def path(self) -> pathlib.Path:
        """Where the archive is looked for."""
        where = self.directory if self.directory is not None else os.environ.get(_VARIABLE, f"${_VARIABLE}")
        return pathlib.Path(where).expanduser() / self.filename

    @property
    def desc(self) -> str:
        return PAPERS[self.name].title

    @property
    def _repr_content(self) -> dict[str, str]:
        return {**super()._repr_content, "Name": self.name}

    def __iter__(self) -> Iterator[tuple[dict, Any]]:
        X, y = load(self.name, self.split, self.directory)
        keys = PAPERS[self.name].keys or range(X.shape[1])
        for start in range(0, len(y), 1024):  # a list of all rows would take much memory
            yield from samples(X[start : start + 1024], y[start : start + 1024], keys)
