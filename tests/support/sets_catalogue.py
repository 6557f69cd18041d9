"""Examples of every set at sizes where their facets can be written down, and the directions they are tried on."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import linalg, spatial

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


def capped_l1(n: int, k: int, radius: float) -> Halfspaces:
    a, b, *_ = l1(n, k * radius)
    e, f, *_ = box([-radius] * n, [radius] * n)
    return halfspaces(np.vstack([a, e]), np.concatenate([b, f]))


def ordered_l1(weights, radius: float) -> Halfspaces:
    """|x| in any order and any signs: the facets are the signed permutations of the weights."""
    orders = np.array(sorted(set(itertools.permutations(weights))))
    a = np.unique((orders[:, None] * sign_vectors(len(weights))).reshape(-1, len(weights)), axis=0)
    return halfspaces(a, np.full(len(a), radius))


def birkhoff(n: int) -> Halfspaces:
    rows, columns = np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))
    return halfspaces(-np.eye(n * n), np.zeros(n * n), np.vstack([rows, columns]), np.ones(2 * n))


def permutahedron(n: int) -> Halfspaces:
    """No k entries sum to more than the k highest ranks, all to exactly the sum of the ranks."""
    a = np.array([row for row in itertools.product([0.0, 1.0], repeat=n) if 0 < sum(row) < n] or np.zeros((0, n)))
    b = [sum(range(n, n - int(row.sum()), -1)) for row in a]
    return halfspaces(a, b, np.ones((1, n)), [n * (n + 1) / 2])


def hull(vertices) -> Halfspaces:
    equations = spatial.ConvexHull(vertices).equations
    return halfspaces(equations[:, :-1], -equations[:, -1])


def product(*parts: Halfspaces) -> Halfspaces:
    return halfspaces(
        linalg.block_diag(*(part[0] for part in parts)),
        np.concatenate([part[1] for part in parts]),
        linalg.block_diag(*(part[2] for part in parts)),
        np.concatenate([part[3] for part in parts]),
    )


SIGNS, PERMUTATIONS = "signs", "permutations"
BOTH = SIGNS + PERMUTATIONS
TRIANGLE = [[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [1.0, 1.0]]
CLOUD = np.random.default_rng(11).normal(size=(12, 3)).round(2)

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
    Case(sets.LpBall(1.5, 2.0), (4,), None, BOTH),
    Case(sets.LpBall(7.0, 0.5), (2, 2), None, BOTH),
    Case(sets.LpBall(1, 2.0), (3,), lambda: l1(3, 2.0), BOTH),
    Case(sets.LpBall(2, 2.0), (3,), None, BOTH),
    Case(sets.LpBall(np.inf, 2.0), (3,), lambda: box([-2.0] * 3, [2.0] * 3), BOTH),
    Case(sets.KSparseBall(2, 1.5), (4,), lambda: capped_l1(4, 2, 1.5), BOTH),
    Case(sets.KSparseBall(1, 1.5), (3,), lambda: l1(3, 1.5), BOTH),
    Case(sets.KSparseBall(3, 0.1), (2, 1), lambda: box([-0.1] * 2, [0.1] * 2), BOTH),
    Case(sets.KNormBall(2, 1.5), (4,), lambda: ordered_l1([1.0, 1.0, 0.0, 0.0], 1.5), BOTH),
    Case(sets.KNormBall(1, 1.5), (3,), lambda: box([-1.5] * 3, [1.5] * 3), BOTH),
    Case(sets.KNormBall(5, 1.5), (1, 3), lambda: l1(3, 1.5), BOTH),
    Case(sets.OrderedL1Ball([4.0, 2.0, 2.0, 1.0], 3.0), (4,), lambda: ordered_l1([4.0, 2.0, 2.0, 1.0], 3.0), BOTH),
    Case(sets.OrderedL1Ball([3.0, 1.0, 0.0], 3.0), (3,), lambda: ordered_l1([3.0, 1.0, 0.0], 3.0), BOTH),
    Case(sets.OrderedL1Ball([1.0, 1.0, 0.5], 2.0), (3,), lambda: ordered_l1([1.0, 1.0, 0.5], 2.0), BOTH),
    Case(sets.GroupL1Ball([[0, 3], [2], [1, 4]], 2.0), (5,), None, SIGNS),
    Case(sets.GroupL1Ball([[1], [0], [2]], 2.0), (3,), lambda: l1(3, 2.0), SIGNS),
    Case(sets.LatentGroupBall([[0, 1], [1, 2], [3]], 2.0), (4,), None, SIGNS),
    Case(sets.LatentGroupBall([[2, 0], [1]], 0.5), (3,), None, SIGNS),
    Case(sets.Ellipsoid([[2.0, 0.5], [0.5, 1.0]]), (2,)),
    Case(sets.Ellipsoid([100.0, 1.0, 0.01], [0.5, -3.0, 0.0], 0.3), (3,)),
    Case(sets.Birkhoff(), (3, 3), lambda: birkhoff(3)),
    Case(sets.Birkhoff(), (1, 1), lambda: birkhoff(1)),
    Case(sets.Permutahedron(), (4,), lambda: permutahedron(4), PERMUTATIONS),
    Case(sets.Permutahedron(), (1,), lambda: permutahedron(1), PERMUTATIONS),
    Case(sets.ConvexHull(TRIANGLE), (2,), lambda: hull(TRIANGLE)),
    Case(sets.ConvexHull(CLOUD), (3,), lambda: hull(CLOUD)),
    Case(sets.ConvexHull([[1.0, 2.0]]), (2,), lambda: box([1.0, 2.0], [1.0, 2.0])),
    Case(sets.NuclearBall(2.0), (3, 4)),
    Case(sets.NuclearBall(0.5), (4, 2)),
    Case(sets.Spectraplex(2.0), (3, 3)),
    Case(sets.Spectraplex(), (1, 1)),
    Case(sets.Spectrahedron(0.5), (4, 4)),
    Case(sets.Spectrahedron(3.0), (1, 1)),
    Case(sets.Fantope(2), (3, 3)),
    Case(sets.Fantope(2), (5, 5)),
    Case(sets.Fantope(3), (3, 3)),
    Case(
        sets.Product([(sets.ProbabilitySimplex(), 2), sets.Box([0.0, -1.0], 2.0), (sets.L1Ball(3.0), (1, 2))]),
        (6,),
        lambda: product(probability_simplex(2, 1.0), box([0.0, -1.0], [2.0, 2.0]), l1(2, 3.0)),
    ),
    Case(sets.Product([(sets.Spectraplex(), (2, 2)), sets.LatentGroupBall([[0, 1]], 1.0)]), (6,)),
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
