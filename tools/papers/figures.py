"""Which figures there are. A new one is a module with a ``draw`` and a line here."""

from __future__ import annotations

import dataclasses
import typing

from tools.papers import (
    covariance_cost,
    cracco,
    gap,
    kerdreux,
    learning,
    locatello_completion,
    locatello_covariance,
    locatello_kmeans,
    locatello_projections,
    negiar,
    nonconvex,
    regret,
)

if typing.TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["FIGURES", "Figure"]


@dataclasses.dataclass(frozen=True)
class Figure:
    """A title, and ``draw(stem, quick)``, which prints its tables and answers the files it wrote."""

    title: str
    draw: Callable[[Path, bool], list[Path]]


FIGURES = {
    "negiar-1": Figure("Negiar et al. 2020, figure 1: suboptimality against gradient evaluations", negiar.draw),
    "negiar-gap": Figure("Negiar et al. 2020: the stochastic gap against the true one, and its bound", gap.draw),
    "negiar-nonconvex": Figure("Negiar et al. 2020, theorem 2: the gap where losses are not convex", nonconvex.draw),
    "kerdreux-1": Figure("Kerdreux et al. 2018, figure 1: a synthetic lasso, FW and RFW", kerdreux.draw_1),
    "kerdreux-2": Figure("Kerdreux et al. 2018, figure 2: a synthetic lasso, AFW and RAFW", kerdreux.draw_2),
    "kerdreux-3": Figure("Kerdreux et al. 2018, figure 3: a lasso on real text (RCV1)", kerdreux.draw_3),
    "kerdreux-3-ads": Figure("The same on a second text, farm ads", kerdreux.draw_3_ads),
    "kerdreux-groups": Figure("Kerdreux et al. 2018: a latent group lasso from disk", kerdreux.draw_groups),
    "cracco-1": Figure("Cracco et al. 2020, figure 1: a softmax model of Fashion-MNIST, trace norm", cracco.draw),
    "ofw-regret": Figure("Hazan, Kale 2012; Hazan 2016; Garber, Kretzu 2022: regret against rounds", regret.draw),
    "locatello-1": Figure("Locatello et al. 2019, figure 1: the relaxation of k-means", locatello_kmeans.draw),
    "locatello-2": Figure("Locatello et al. 2019, figures 2 and 3: a block covariance", locatello_covariance.draw),
    "locatello-4": Figure("Locatello et al. 2019, figure 4: completing MovieLens 100k", locatello_completion.draw),
    "locatello-5": Figure("Locatello et al. 2019, figure 5: SHCGM and S3CCM by the clock", locatello_projections.draw),
    "learning": Figure("What the default learns over one pass, beside projected gradients", learning.draw),
    "covariance-cost": Figure("What a step of a covariance costs against its features", covariance_cost.draw),
}
