"""One linear model of several that have learned parts of one stream."""

from __future__ import annotations

import typing

import numpy as np

from fwonline._merging import check_alike, shares

if typing.TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["merged_linear", "united"]


def united(most: int | None, parts: Sequence[tuple[list, NDArray[np.bool_]]]) -> dict[typing.Any, None]:
    """The names of all models, in order; beyond ``most`` only those that weigh something in one."""
    names = {name: None for part, _ in parts for name in part}
    if most is None or len(names) <= most:
        return names
    return {name: None for part, weighs in parts for name, weighs_it in zip(part, weighs, strict=True) if weighs_it}


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
    whole._add_features(united(whole.max_names, [(m._features.names, m._run.weighs()) for m, _ in learned]))
    # A model that has not met a feature gives it the weight that every feature has before it is met.
    weights = np.zeros(run.n_features)
    for model, share in learned:
        theirs = np.full(run.n_features, model._run.start_weight)
        mine = [
            (features.positions[name], j) for j, name in enumerate(model._features.names) if name in features.positions
        ]
        to, source = np.array(mine, dtype=np.int64).reshape(-1, 2).T
        theirs[to] = model._run.weights[source]
        weights += share * theirs
    run.set_weights(weights)
    run.set_intercept(sum(share * model.intercept_ for model, share in learned))
    whole._n_merged = sum(model.n_samples for model, _ in learned)
    whole._y_name = models[0]._y_name
    return whole
