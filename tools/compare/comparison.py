"""What two trees left behind, side by side."""

from __future__ import annotations

import collections
import dataclasses
import typing

import numpy as np

from tools.compare.names import changed, same_to_rounding
from tools.compare.worker import REFUSED

if typing.TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ROUNDING", "Case", "compared", "summary"]

#: How far a field named in `SAME_TO_ROUNDING` may be off, as a share of its largest entry.
ROUNDING = 1e-12
_VERDICTS = ("equal", "rounding", "differing")


@dataclasses.dataclass
class Case:
    """One case in both trees.

    Attributes
    ----------
    verdict
        ``equal``, ``refused`` (both raise), ``rounding`` (named, and equal to 1e-12), ``differing``, or ``missing``.
    notes
        Field by field, what differs.
    """

    name: str
    verdict: str
    notes: list[str] = dataclasses.field(default_factory=list)

    @property
    def family(self) -> str:
        return self.name.split("/", 1)[0]


def compared(base: Mapping[str, np.ndarray], new: Mapping[str, np.ndarray]) -> list[Case]:
    """Compare two mappings of ``case|field`` to arrays."""
    fields: dict[str, dict[str, None]] = collections.defaultdict(dict)
    for key in (*base, *new):
        case, field = key.split("|", 1)
        fields[case][field] = None
    return [_case(name, list(names), base, new) for name, names in fields.items()]


def _case(name: str, fields: list[str], base: Mapping[str, np.ndarray], new: Mapping[str, np.ndarray]) -> Case:
    in_base = {field for field in fields if f"{name}|{field}" in base}
    in_new = {field for field in fields if f"{name}|{field}" in new}
    if not in_base or not in_new:
        return Case(name, "missing", [f"only in the {'base' if in_base else 'new'} tree"])
    if (REFUSED in in_base) != (REFUSED in in_new):
        which, side = ("base", base) if REFUSED in in_base else ("new", new)
        return Case(name, "differing", [f"only the {which} tree raises {side[f'{name}|{REFUSED}']}"])
    if REFUSED in in_base:
        kinds = [str(side[f"{name}|{REFUSED}"]).split(":", 1)[0] for side in (base, new)]
        same = kinds[0] == kinds[1]
        return Case(name, "refused" if same else "differing", [] if same else [f"raises {kinds[1]}, not {kinds[0]}"])
    notes, verdict = [], "equal"
    for field in fields:
        if field not in in_new:
            why = changed(name, field)
            notes.append(f"{field}: only in the base tree{f': {why}' if why else ''}")
            verdict = "differing" if why is None else max(verdict, "rounding", key=_VERDICTS.index)
        if field not in in_new or field not in in_base:  # what only the new tree shows is no difference
            continue
        a, b = base[f"{name}|{field}"], new[f"{name}|{field}"]
        if a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes():
            continue
        reason = same_to_rounding(name, field)
        if (why := changed(name, field)) is not None:
            notes.append(f"{field}: {why}")
            verdict = max(verdict, "rounding", key=_VERDICTS.index)
            continue
        # A gap or a distance of 1e-15 is rounding of numbers of the size of 1.
        least = 1.0 if any(word in field for word in ("gap", "violation", "infeasibility")) else 0.0
        least = max(least, abs(float(base.get(f"{name}|fun", 0.0)))) if "gap" in field else least
        if reason is not None and _distance(a, b, least) <= ROUNDING:
            notes.append(f"{field}: {_distance(a, b, least):.1e} off: {reason}")
            verdict = "rounding" if verdict == "equal" else verdict
            continue
        notes.append(f"{field}: {_said(a, b)}")
        verdict = "differing"
    return Case(name, verdict, notes)


def _distance(a: np.ndarray, b: np.ndarray, least: float = 0.0) -> float:
    """Largest difference as a share of the largest entry, or of ``least``; infinite where they cannot be compared."""
    if a.shape != b.shape or a.dtype.kind not in "biuf" or b.dtype.kind not in "biuf":
        return np.inf
    x, y = a.astype(float), b.astype(float)
    if not (np.isfinite(x) == np.isfinite(y)).all():
        return np.inf
    held = np.isfinite(x)
    scale = np.abs(x[held]).max(initial=least)
    apart = np.abs(x[held] - y[held]).max(initial=0.0)
    return float(apart / scale) if scale else float(apart)


def _said(a: np.ndarray, b: np.ndarray) -> str:
    if a.shape != b.shape:
        return f"shape {a.shape} in base, {b.shape} in new"
    if a.size == 1:
        return f"{a.reshape(-1)[0]!s:.80} in base, {b.reshape(-1)[0]!s:.80} in new"
    return f"{int((a != b).sum())} of {a.size} entries, {_distance(a, b):.1e} of the largest"


def summary(cases: list[Case]) -> list[tuple[str, ...]]:
    """Rows of a table: family, cases, and how many of each verdict."""
    verdicts = ("equal", "refused", "rounding", "differing", "missing")
    families = dict.fromkeys(case.family for case in cases)
    rows = []
    for family in (*families, "all"):
        of = [case for case in cases if family in ("all", case.family)]
        rows.append((family, str(len(of)), *(str(sum(c.verdict == v for c in of)) for v in verdicts)))
    return [("family", "cases", *verdicts), *rows]
