"""Conditional gradients on smooth objectives with affine constraints."""
