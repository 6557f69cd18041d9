"""Projection-free optimizers, online inside an estimator and offline through ``minimize``."""

from fwonline.optim import river, schedules
from fwonline.optim.adaptive_ofw import AdaptiveOFW
from fwonline.optim.away import AwayFW
from fwonline.optim.base import Optimizer
from fwonline.optim.comparator import Bracket, best_fixed_point, best_fixed_point_quadratic
from fwonline.optim.constants import kappa, stochastic_gap_bound
from fwonline.optim.fw import FW
from fwonline.optim.hazan_luo import HazanLuoFW
from fwonline.optim.hcgm import HCGM
from fwonline.optim.hsag import HSAGFW
from fwonline.optim.lu_freund import LuFreundFW
from fwonline.optim.momentum import MomentumFW
from fwonline.optim.objective import Objective
from fwonline.optim.ofw import OFW
from fwonline.optim.one_sample import OneSampleFW
from fwonline.optim.pairwise import PairwiseFW
from fwonline.optim.projected import ProjectedSGD
from fwonline.optim.projected_svrg import ProjectedSVRG
from fwonline.optim.randomized import RandomizedFW
from fwonline.optim.randomized_away import RandomizedAwayFW
from fwonline.optim.s3ccm import S3CCM
from fwonline.optim.scgs import SCGS
from fwonline.optim.sfw import SFW
from fwonline.optim.shcgm import SHCGM
from fwonline.optim.stochastic_pairwise import StochasticPairwiseFW
from fwonline.optim.storc import STORC
from fwonline.optim.svrf import SVRF
from fwonline.optim.terms import Equals, L1Penalty, NonNegative, Term

__all__ = [
    "FW",
    "HCGM",
    "HSAGFW",
    "OFW",
    "S3CCM",
    "SCGS",
    "SFW",
    "SHCGM",
    "STORC",
    "SVRF",
    "AdaptiveOFW",
    "AwayFW",
    "Bracket",
    "Equals",
    "HazanLuoFW",
    "L1Penalty",
    "LuFreundFW",
    "MomentumFW",
    "NonNegative",
    "Objective",
    "OneSampleFW",
    "Optimizer",
    "PairwiseFW",
    "ProjectedSGD",
    "ProjectedSVRG",
    "RandomizedAwayFW",
    "RandomizedFW",
    "StochasticPairwiseFW",
    "Term",
    "best_fixed_point",
    "best_fixed_point_quadratic",
    "kappa",
    "river",
    "schedules",
    "stochastic_gap_bound",
]
