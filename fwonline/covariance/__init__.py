"""Covariance matrices, learned on streams under constraints."""

from fwonline.covariance.shcgm import SHCGMCovariance

__all__ = ["SHCGMCovariance"]
