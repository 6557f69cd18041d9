"""Convex sets: where the parameters of a model live.

Each set has a linear minimisation oracle, `lmo(g)`, which MINIMISES `<s, g>` over the set and returns an atom;
`contains`, `violation`, `diameter`, `initial_point`; and, where they are cheap or defined, `project` and `norm`.
"""

from .atoms import Atom, CoordinateAtom, DenseAtom, ProductAtom, ProjectorAtom, RankOneAtom, SparseAtom, ZeroAtom
from .base import ConvexSet
from .ellipsoids import Ellipsoid
from .groups import GroupL1Ball, LatentGroupBall
from .norm_balls import Box, L1Ball, L2Ball, LInfBall, LpBall
from .ordered import KNormBall, KSparseBall, OrderedL1Ball
from .polytopes import Birkhoff, ConvexHull, Permutahedron
from .product import Product
from .simplices import ProbabilitySimplex, UnitSimplex
from .spectral import Fantope, NuclearBall, Spectrahedron, Spectraplex

__all__ = [
    "Atom",
    "Birkhoff",
    "Box",
    "ConvexHull",
    "ConvexSet",
    "CoordinateAtom",
    "DenseAtom",
    "Ellipsoid",
    "Fantope",
    "GroupL1Ball",
    "KNormBall",
    "KSparseBall",
    "L1Ball",
    "L2Ball",
    "LInfBall",
    "LatentGroupBall",
    "LpBall",
    "NuclearBall",
    "OrderedL1Ball",
    "Permutahedron",
    "ProbabilitySimplex",
    "Product",
    "ProductAtom",
    "ProjectorAtom",
    "RankOneAtom",
    "SparseAtom",
    "Spectrahedron",
    "Spectraplex",
    "UnitSimplex",
    "ZeroAtom",
]
