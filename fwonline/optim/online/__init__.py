"""Optimizers for streams: a few steps for each sample."""
