"""Linear estimators whose weights live in a convex set."""

from fwonline.linear_model.classifier import FWClassifier
from fwonline.linear_model.regressor import FWRegressor
from fwonline.linear_model.softmax import FWSoftmax

__all__ = ["FWClassifier", "FWRegressor", "FWSoftmax"]
