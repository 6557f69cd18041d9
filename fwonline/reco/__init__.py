"""Recommendation: ratings of items by users, completed to a matrix of low rank in a box."""

from fwonline.reco.completion import SHCGMCompletion

__all__ = ["SHCGMCompletion"]
