"""Merging models: one that predicts with what several have learned."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Sequence
from typing import Any

from river import base, compose, preprocessing

from fwonline._protocols import SupportsMerged

__all__ = ["merge", "merge_step"]


def merge(models: Sequence[Any]) -> Any:
    """Return a model that predicts with what all of `models` have learned, each weighted by its samples.

    A pipeline is merged step by step: scalers as if one had seen everything, and an estimator of this library by its
    method `merged`: for a linear model a convex combination of the weights, which stays in the constraint set. Weights
    of features that the models' scalers scale differently are averaged as they are, so the merge is good where the
    scalers are similar, as they are when partitions are random parts of one stream.

    The merge is for predicting; the models are left as they are.

    Parameters
    ----------
    models
        At least one, all of one kind.

    Raises
    ------
    TypeError
        When a step has a state and no way to merge it: see `merge_step`.

    Examples
    --------
    >>> from river import preprocessing
    >>> from fwonline import linear_model, sets
    >>> from fwonline.loop import merge
    >>> models = []
    >>> for side in (1.0, 3.0):
    ...     model = preprocessing.StandardScaler() | linear_model.FWRegressor(sets.L1Ball(2.0))
    ...     for _ in range(10):
    ...         model.learn_one({"a": side}, side)
    ...         model.learn_one({"a": -side}, -side)
    ...     models.append(model)
    >>> whole = merge(models)
    >>> whole["StandardScaler"].vars["a"], whole["FWRegressor"].n_samples
    (5.0, 40)
    """
    first = models[0]
    if isinstance(first, compose.Pipeline):
        steps = [merge([list(model.steps.values())[k] for model in models]) for k in range(len(first.steps))]
        return compose.Pipeline(*zip(first.steps, steps, strict=True))
    if isinstance(first, compose.TransformerUnion):
        names = list(first.transformers)
        return compose.TransformerUnion(
            *((name, merge([model.transformers[name] for model in models])) for name in names)
        )
    return merge_step(first, models[1:])


@functools.singledispatch
def merge_step(first: Any, others: Sequence[Any]) -> Any:
    """Merge one step of a pipeline with others of its class; `merge_step.register(CLASS)` adds a class of yours."""
    if isinstance(first, SupportsMerged):
        return first.merged(others)
    if isinstance(first, base.Transformer) and type(first).learn_one is base.Transformer.learn_one:
        return copy.deepcopy(first)  # it learns nothing
    raise TypeError(
        f"{type(first).__name__} has a state that cannot be merged: expected an estimator with `merged`, or a "
        "function registered with fwonline.loop.merge_step"
    )


@merge_step.register
def _(first: preprocessing.StandardScaler, others: Sequence[preprocessing.StandardScaler]) -> Any:
    if first.window_size is not None:
        raise TypeError("StandardScaler over a window cannot be merged: the windows of partitions have no common order")
    whole = copy.deepcopy(first)
    for other in others:
        for name, count in other.counts.items():
            before = whole.counts[name]
            total = before + count
            apart = other.means[name] - whole.means[name]
            if first.with_std:
                spread = before * whole.vars[name] + count * other.vars[name] + apart * apart * before * count / total
                whole.vars[name] = spread / total
            whole.means[name] += apart * count / total
            whole.counts[name] = total
    return whole


@merge_step.register
def _(first: preprocessing.MinMaxScaler, others: Sequence[preprocessing.MinMaxScaler]) -> Any:
    return _extremes(first, others, {"min": min, "max": max})


@merge_step.register
def _(first: preprocessing.MaxAbsScaler, others: Sequence[preprocessing.MaxAbsScaler]) -> Any:
    return _extremes(first, others, {"abs_max": max})


def _extremes(first: Any, others: Sequence[Any], which: dict[str, Any]) -> Any:
    if first.window_size is not None:
        raise TypeError(f"{type(first).__name__} over a window cannot be merged")
    whole = copy.deepcopy(first)
    for table, choose in which.items():
        mine = getattr(whole, table)
        for other in others:
            for name, theirs in getattr(other, table).items():
                if name not in mine:
                    mine[name] = copy.deepcopy(theirs)
                elif math.isfinite(value := theirs.get()):
                    setattr(mine[name], table, choose(mine[name].get(), value))
    return whole


@merge_step.register
def _(first: preprocessing.OneHotEncoder, others: Sequence[preprocessing.OneHotEncoder]) -> Any:
    whole = copy.deepcopy(first)
    for other in others:
        whole.learn_one(dict(other.values))  # which takes several values of a feature at once
    return whole
