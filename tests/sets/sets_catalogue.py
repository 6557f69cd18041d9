"""Examples of every set at sizes where their facets can be written down, and the directions they are tried on."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fwonline import sets

Halfspaces = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # A x <= b and C x = e


@dataclass(frozen=True)
class Case:
    set: sets.ConvexSet
    shape: tuple[int, ...]
    halfspaces: Callable[[], Halfspaces] | None = None  # of the flattened point, for polytopes
    symmetric: str = ""  # "signs", "permutations", both, or neither

    def __str__(self) -> str:
        return repr(self.set)


def halfspaces(a, b, c=None, e=()) -> Halfspaces:
    a = np.asarray(a, float)
    c = np.zeros((0, a.shape[1])) if c is None else np.asarray(c, float)
    return a, np.asarray(b, float), c, np.asarray(e, float)


def sign_vectors(n: int) -> np.ndarray:
    return np.array(list(itertools.product([-1.0, 1.0], repeat=n)))


def l1(n: int, radius: float) -> Halfspaces:
    return halfspaces(sign_vectors(n), np.full(2**n, radius))


def box(lower, upper) -> Halfspaces:
    n = len(lower)
    return halfspaces(np.vstack([np.eye(n), -np.eye(n)]), np.concatenate([upper, np.negative(lower)]))


def probability_simplex(n: int, radius: float) -> Halfspaces:
    return halfspaces(-np.eye(n), np.zeros(n), np.ones((1, n)), [radius])


def unit_simplex(n: int, radius: float) -> Halfspaces:
    return halfspaces(np.vstack([-np.eye(n), np.ones((1, n))]), [0.0] * n + [radius])


SIGNS, PERMUTATIONS = "signs", "permutations"
BOTH = SIGNS + PERMUTATIONS

CASES = [
    Case(sets.L1Ball(2.5), (4,), lambda: l1(4, 2.5), BOTH),
    Case(sets.L1Ball(1), (1,), lambda: l1(1, 1.0), BOTH),
    Case(sets.L1Ball(3.0), (2, 2), lambda: l1(4, 3.0), BOTH),
    Case(sets.L2Ball(1.5), (4,), None, BOTH),
    Case(sets.L2Ball(0.5), (3, 2), None, BOTH),
    Case(sets.LInfBall(0.5), (4,), lambda: box([-0.5] * 4, [0.5] * 4), BOTH),
    Case(sets.Box(-1.0, 3.0), (4,), lambda: box([-1.0] * 4, [3.0] * 4), PERMUTATIONS),
    Case(sets.Box([0.0, -2.0, 1.0], [0.0, 5.0, 2.0]), (3,), lambda: box([0.0, -2.0, 1.0], [0.0, 5.0, 2.0])),
    Case(sets.ProbabilitySimplex(), (5,), lambda: probability_simplex(5, 1.0), PERMUTATIONS),
    Case(sets.ProbabilitySimplex(40.0), (3,), lambda: probability_simplex(3, 40.0), PERMUTATIONS),
    Case(sets.UnitSimplex(), (4,), lambda: unit_simplex(4, 1.0), PERMUTATIONS),
    Case(sets.UnitSimplex(0.25), (1,), lambda: unit_simplex(1, 0.25), PERMUTATIONS),
]


def arrays(shape: tuple[int, ...], magnitude: float = 1e3) -> st.SearchStrategy[np.ndarray]:
    """Arrays with what breaks an oracle: zeros of both signs, ties, lone entries, spread magnitudes."""
    entry = st.one_of(
        st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0, magnitude, -magnitude]),
        st.floats(-magnitude, magnitude, allow_subnormal=False),
    )
    alone = st.builds(
        lambda index, value: np.where(np.arange(np.prod(shape)) == index, value, 0.0).reshape(shape),
        st.integers(0, int(np.prod(shape)) - 1),
        entry,
    )
    return st.one_of(hnp.arrays(float, shape, elements=entry), alone)


def degenerate_directions(shape: tuple[int, ...]) -> list[np.ndarray]:
    """Directions with ties, zeros and lone entries, all of moderate size."""
    n = int(np.prod(shape))
    ramp = np.arange(n) - (n - 1) / 2
    lone = [sign * np.eye(n)[i] for i in (0, n - 1) for sign in (1.0, -1.0)]
    flat = [np.zeros(n), np.ones(n), -np.ones(n), ramp, -ramp, np.sign(ramp), np.where(ramp > 0, -1.0, 0.0), *lone]
    return [g.reshape(shape) for g in flat]
