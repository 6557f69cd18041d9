"""Which figures there are. A new one is a module with a ``draw`` and a line here."""

from __future__ import annotations

import dataclasses
import typing

from tools.papers import negiar

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
}
