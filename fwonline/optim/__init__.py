"""Projection-free optimizers, online inside an estimator and offline through ``minimize``."""

from fwonline.optim import schedules
from fwonline.optim.base import Optimizer
from fwonline.optim.comparator import Bracket, best_fixed_point, best_fixed_point_quadratic
from fwonline.optim.momentum import MomentumFW
from fwonline.optim.ofw import OFW
from fwonline.optim.one_sample import OneSampleFW
from fwonline.optim.projected import ProjectedSGD
from fwonline.optim.sfw import SFW

__all__ = [
    "OFW",
    "SFW",
    "Bracket",
    "MomentumFW",
    "OneSampleFW",
    "Optimizer",
    "ProjectedSGD",
    "best_fixed_point",
    "best_fixed_point_quadratic",
    "schedules",
]
