"""Projection-free optimizers, online inside an estimator and offline through ``minimize``."""

from fwonline.optim import river, schedules
from fwonline.optim.base import Optimizer
from fwonline.optim.composite.hcgm import HCGM
from fwonline.optim.composite.hsag import HSAGFW
from fwonline.optim.composite.s3ccm import S3CCM
from fwonline.optim.composite.shcgm import SHCGM
from fwonline.optim.deterministic.away import AwayFW
from fwonline.optim.deterministic.fw import FW
from fwonline.optim.deterministic.pairwise import PairwiseFW
from fwonline.optim.deterministic.randomized import RandomizedFW
from fwonline.optim.deterministic.randomized_away import RandomizedAwayFW
from fwonline.optim.hindsight import Bracket, best_fixed_point, best_fixed_point_quadratic
from fwonline.optim.online.adaptive_ofw import AdaptiveOFW
from fwonline.optim.online.adversarial_ofw import AdversarialOFW
from fwonline.optim.online.lu_freund import LuFreundFW
from fwonline.optim.online.mixture import Mixture
from fwonline.optim.online.momentum import MomentumFW
from fwonline.optim.online.ofw import OFW
from fwonline.optim.online.one_sample import OneSampleFW
from fwonline.optim.online.projected import ProjectedSGD
from fwonline.optim.online.sfw import SFW
from fwonline.optim.online.stochastic_pairwise import StochasticPairwiseFW
from fwonline.optim.problem.objective import Objective
from fwonline.optim.problem.terms import Equals, L1Penalty, NonNegative, Term
from fwonline.optim.theory import kappa, stochastic_gap_bound
from fwonline.optim.variance_reduced.hazan_luo import HazanLuoFW
from fwonline.optim.variance_reduced.projected_svrg import ProjectedSVRG
from fwonline.optim.variance_reduced.scgs import SCGS
from fwonline.optim.variance_reduced.storc import STORC
from fwonline.optim.variance_reduced.svrf import SVRF

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
    "AdversarialOFW",
    "AwayFW",
    "Bracket",
    "Equals",
    "HazanLuoFW",
    "L1Penalty",
    "LuFreundFW",
    "Mixture",
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
