"""Convex sets: where the parameters of a model live.

Each set has a linear minimisation oracle, `lmo(g)`, which MINIMISES `<s, g>` over the set and returns an atom;
`contains`, `violation`, `diameter`, `initial_point`; and, where they are cheap or defined, `project` and `norm`.
"""

from .atoms import Atom, CoordinateAtom, DenseAtom, ZeroAtom
from .base import ConvexSet
from .norm_balls import Box, L1Ball, L2Ball, LInfBall
from .simplices import ProbabilitySimplex, UnitSimplex

__all__ = [
    "Atom",
    "Box",
    "ConvexSet",
    "CoordinateAtom",
    "DenseAtom",
    "L1Ball",
    "L2Ball",
    "LInfBall",
    "ProbabilitySimplex",
    "UnitSimplex",
    "ZeroAtom",
]
