"""Streams to learn from: simulators with a known truth, and the real data of the papers."""

from fwonline.datasets.papers import PaperDataset, load
from fwonline.datasets.synthetic import AdversarialLinear, LowRankRatings, SparseLinear
from fwonline.datasets.vectors import BlockCovariance, GaussianMixture

__all__ = [
    "AdversarialLinear",
    "BlockCovariance",
    "GaussianMixture",
    "LowRankRatings",
    "PaperDataset",
    "SparseLinear",
    "load",
]
