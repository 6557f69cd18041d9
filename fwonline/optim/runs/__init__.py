"""The state of optimizers at work."""
