"""Optimizers and sets that every estimator is tried with, and what a model knows, down to the last bit."""

import numpy as np

from fwonline import optim, sets
from fwonline._pipeline import final_estimator

OPTIMIZERS = {
    "sfw": lambda: optim.SFW(memory=50),
    "sfw-replays": lambda: optim.SFW(memory=20, batch_size=3, steps_per_sample=2),
    "momentum": optim.MomentumFW,
    "one-sample": optim.OneSampleFW,
    "ofw": lambda: optim.OFW(memory=40),
    "ofw-adversarial": optim.AdversarialOFW,
    "adaptive": lambda: optim.AdaptiveOFW(horizon=50),
    "pairwise-memory": lambda: optim.StochasticPairwiseFW(memory=20),
    "mixture": lambda: optim.Mixture(memory=20),
    "projected": lambda: optim.ProjectedSGD(0.1),
    "projected-batches": lambda: optim.ProjectedSGD(0.1, batch_size=3),
}
SETS = {
    "l1": lambda: sets.L1Ball(5.0),
    "l2": lambda: sets.L2Ball(2.0),
    "linf": lambda: sets.LInfBall(1.0),
    "box": lambda: sets.Box(-1.0, 2.0),
    "simplex": sets.ProbabilitySimplex,
    "unit-simplex": lambda: sets.UnitSimplex(3.0),
    "k-sparse": lambda: sets.KSparseBall(2, 1.0),
}
# The learners of regret on one set of each kind: atoms that are coordinates, dense ones, an oracle that is an object.
FEW = dict.fromkeys(("ofw-adversarial", "adaptive"), ("l1", "box", "k-sparse"))
FEW["projected-batches"] = ("l1", "l2", "box")
FEW["pairwise-memory"] = FEW["mixture"] = ("l1", "l2", "box", "simplex")
PAIRS = [
    (o, s) for o in OPTIMIZERS for s in FEW.get(o, SETS) if o != "projected" or SETS[s]().can_project
]  # fmt: skip
COORDINATES = ["l1", "simplex", "unit-simplex"]  # sets whose atoms are coordinates: O(non-zeros) a step


def state_of(model):
    """All that a model knows, as a value that compares equal only if every bit is the same."""
    return exact(final_estimator(model).state_summary())


def exact(value):
    """Plain values and arrays as ones that compare by their bits, NaN too."""
    if isinstance(value, dict):
        return {key: exact(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [exact(one) for one in value]
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    return value.hex() if isinstance(value, float) else value


def by_name(model):
    """What a model has learned, by feature: the same for models that met their features in another order."""
    model = final_estimator(model)
    return model.weights, repr(model.gap), model.intercept_, model.cumulative_loss, model.n_samples


def regression(n=200, d=8, density=1.0, seed=0, labels=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < density)
    y = X @ np.linspace(-1.0, 1.0, d) + 0.1 * rng.normal(size=n)
    return X, (y > 0.0) if labels else y
