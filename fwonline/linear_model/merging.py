"""One linear model of several that have learned parts of one stream."""

from __future__ import annotations

import typing

import numpy as np

from fwonline._kernels import layout
from fwonline._merging import check_alike, shares

if typing.TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["merged_linear"]


def merged_linear(models: Sequence[typing.Any], signs: Sequence[int]) -> typing.Any:
    """A model whose weights are the mean of the models' weights, each counted by the samples it has learned.

    A sign of -1 turns a model round that has learned the two classes the other way about.
    """
    check_alike(models, "constraint")
    whole = models[0].clone()
    parts = zip(models, [sign * share for sign, share in zip(signs, shares(models), strict=True)], strict=True)
    learned = [(model, share) for model, share in parts if share]
    if not learned:
        return whole
    run, features = whole._run, whole._features
    names = {name: None for model, _ in learned for name in model._features.names}
    features.add(names, run)
    # A model that has not met a feature gives it the weight that every feature has before it is met.
    weights = np.zeros(run.n_features)
    for model, share in learned:
        theirs = np.full(run.n_features, model._run.start_weight)
        theirs[[features.positions[name] for name in model._features.names]] = model._run.weights
        weights += share * theirs
    run.set_weights(weights)
    run.num[layout.INTERCEPT] = sum(share * model.intercept_ for model, share in learned)
    whole._n_merged = sum(model.n_samples for model, _ in learned)
    whole._y_name = models[0]._y_name
    return whole
