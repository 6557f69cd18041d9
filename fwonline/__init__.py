"""Projection-free (Frank-Wolfe) learners for streams."""

__version__ = "0.2.0.dev0"
