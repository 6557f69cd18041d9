"""What estimators are given and give back: frames, labels, rows of positions."""

from __future__ import annotations

import typing

import numpy as np

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["CSR", "coded", "is_frame", "label_array", "seen"]

CSR = tuple["NDArray[np.int64]", "NDArray[np.integer]", "NDArray[np.float64]"]


def is_frame(X: typing.Any) -> bool:
    """Whether a matrix names its columns, as those of pandas, polars and pyarrow do."""
    return hasattr(X, "columns") or hasattr(X, "column_names")


def label_array(classes: tuple) -> NDArray:
    """Classes as an array: of their own type where all have one."""
    labels = np.empty(len(classes), dtype=object)
    for k, label in enumerate(classes):
        labels[k] = label
    if len(set(map(type, classes))) > 1:  # 0 and 1.0 are not 0.0 and 1.0
        return labels
    try:
        natural = np.array(classes)
    except ValueError:  # some are tuples
        return labels
    return natural if natural.ndim == 1 and natural.tolist() == list(classes) else labels


def coded(labels: NDArray, classes: tuple) -> NDArray[np.float64] | None:
    """The place of each label among the classes; None where one is none of them."""
    table = {label: float(k) for k, label in enumerate(classes)}
    try:
        return np.array([table[label] for label in labels.tolist()])
    except (KeyError, TypeError):
        return None


def seen(rows: CSR) -> CSR:
    """The entries whose feature has a position."""
    indptr, idx, val = rows
    if idx.dtype == np.uint32 or not (idx < 0).any():
        return rows
    known = idx >= 0
    return np.append(0, np.cumsum(known))[indptr], idx[known], val[known]
