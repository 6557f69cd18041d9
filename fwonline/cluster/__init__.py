"""Clustering by the semidefinite relaxation of k-means."""

from fwonline.cluster.kmeans import SHCGMKMeans

__all__ = ["SHCGMKMeans"]
