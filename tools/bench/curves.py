"""The curves of figure 1 of Negiar et al. as lines of the table; ``tools.papers`` draws them."""

from __future__ import annotations

import typing

import numpy as np

from tools.bench.report import Comparison, Settings, Table
from tools.papers import negiar

if typing.TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["run"]


def run(settings: Settings) -> Iterator[Comparison | Table]:
    """At how many budgets SFW is below Momentum, batches of n / 100."""
    passes, seeds = (5, 2) if settings.quick else (200, 3)
    rows = []
    for task in negiar.tasks(settings.quick):
        verdict = negiar.compare(task, passes=passes, seeds=range(seeds))
        above = verdict.not_below()
        budgets, ours = verdict.median("SFW")
        theirs = verdict.median("Momentum")[1]
        n = len(task.data.y)
        missed = f"not from {above[0] / n:.2g} to {above[-1] / n:.2g} passes" if above.size else "all"
        yield Comparison(
            f"minimize, {task.title}: SFW below Momentum",
            f"{budgets.size - above.size} of {budgets.size} budgets",
            "MomentumFW, medians",
            "",
            missed,
            "every budget",
            not above.size,
        )
        for budget in sorted({1, min(10, passes), passes}):
            k = int(np.argmin(np.abs(budgets - budget * n)))
            best = verdict.optimum
            rows.append(
                (
                    task.title,
                    task.data.name,
                    budget,
                    f"{ours[k]:.2e}",
                    f"{theirs[k]:.2e}",
                    f"{best.upper:.8f}",
                    f"{best.gap:.1e}",
                )
            )
    yield Table(
        "curves: relative suboptimality",
        ("task", "data", "passes", "SFW", "Momentum", "f*", "known to"),
        rows,
        (f"medians over seeds 0 to {seeds - 1}; python -m tools.papers negiar-1 draws them and tells the setting",),
    )
