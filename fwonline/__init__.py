"""Projection-free (Frank-Wolfe) learners for streams."""

__version__ = "0.1.0"
