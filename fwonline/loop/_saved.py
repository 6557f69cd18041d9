"""What the state of a learner holds besides model and monitors, checked before any of it is used."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from fwonline._loaded import MOST
from fwonline.exceptions import CheckpointError
from fwonline.loop._pending import Pending
from fwonline.loop._rejections import Rejections
from fwonline.loop.options import Questions

__all__ = ["check_state"]

_Count = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
_Kinds = list[tuple[Any, str]]


class _Counts(msgspec.Struct, forbid_unknown_fields=True):
    n: _Count
    n_predicted: _Count
    n_learned: _Count
    n_rejected: dict[str, _Count]
    n_expired: _Count
    n_unmatched: _Count


class _Pending(msgspec.Struct):
    now: float | None
    questions: dict[Any, tuple[dict, Any, _Count, float | None]]
    early: dict[Any, tuple[Any, _Count, float | None, str]]
    far: float | None


class _Guard(msgspec.Struct):
    features: _Kinds
    targets: _Kinds
    asked: _Kinds
    labels: list
    sizes: tuple[float, float, float]
    takes_nothing: bool
    passed: dict[str, _Count]
    failed: dict[str, tuple[_Count, int]]
    waiting: dict[str, _Count]
    n_failed: _Count
    n_waited: _Count


class _Rejections(msgspec.Struct):
    items: list[int]
    first: list[tuple[int, str]]


class _State(msgspec.Struct):
    kind: dict[str, Any]
    source: str
    position: Any
    counts: _Counts
    pending: _Pending
    model: Any
    monitors: list
    guard: _Guard
    rejections: _Rejections
    identity: Any
    held: Any
    outputs: list | None = None


def check_state(state: Any) -> None:
    """Check that a state is one that a loop has written.

    Raises CheckpointError where it is not: the message says what was expected where.
    """
    if not isinstance(state, dict) or "kind" not in state:
        raise CheckpointError("this is no checkpoint of an event loop")
    try:
        msgspec.convert(state, _State)
        Pending(Questions()).restore(state["pending"])
        Rejections(None).restore(state["rejections"])
        set(state["guard"]["labels"])
        for what in ("features", "targets", "asked"):
            set(map(tuple, state["guard"][what]))
    except (msgspec.ValidationError, TypeError, KeyError, ValueError, RecursionError) as error:
        raise CheckpointError(f"the checkpoint's state of the loop cannot be read: {error}") from error
    if (held := state["held"]) is not None:
        try:
            kind, fields = msgspec.convert(held, tuple[str, tuple])
            msgspec.convert(fields, _FIELDS[kind])
        except (msgspec.ValidationError, KeyError) as error:
            raise CheckpointError(f"the checkpoint's held item cannot be read: {error}") from error


_FIELDS: dict[str, Any] = {
    "sample": tuple[dict, Any, Any, Any, str, tuple],  # its time may be why it ended the run
    "rejected": tuple[Any, str, str, Any, tuple],
}
