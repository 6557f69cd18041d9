"""Streams to learn from: simulators with a known truth, and the real data of the papers."""

from fwonline.datasets.papers import PaperDataset, load
from fwonline.datasets.synthetic import AdversarialLinear, BlockCovariance, LowRankRatings, SparseLinear

__all__ = ["AdversarialLinear", "BlockCovariance", "LowRankRatings", "PaperDataset", "SparseLinear", "load"]
