"""Projection-free optimizers, online inside an estimator and offline through ``minimize``."""

from fwonline.optim import schedules
from fwonline.optim.base import Optimizer
from fwonline.optim.momentum import MomentumFW
from fwonline.optim.one_sample import OneSampleFW
from fwonline.optim.sfw import SFW

__all__ = ["SFW", "MomentumFW", "OneSampleFW", "Optimizer", "schedules"]
