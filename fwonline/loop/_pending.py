"""Questions that wait for their answers."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from fwonline.loop.options import Questions

__all__ = ["Early", "Pending", "Question"]

# A time further from the others than so many times `expire_seconds` does not count until a second one is near it: one
# wrong clock would otherwise make every question that follows expire.
_FAR = 100


class Question(NamedTuple):
    """A sample without its target: its features, its prediction, its number in the stream and its event time."""

    x: dict
    y_pred: Any
    n: int
    time: float | None


class Early(NamedTuple):
    """An answer that came before its question: its target, its number in the stream, its event time and its origin."""

    y: Any
    n: int
    time: float | None
    origin: str


class Pending:
    """Questions by key, the oldest first, in bounded memory; and answers that wait for their question."""

    def __init__(self, options: Questions) -> None:
        self.options = options
        self.questions: dict[Hashable, Question] = {}
        self.early: dict[Hashable, Early] = {}
        self.now: float | None = None
        self._far: float | None = None  # the time of the item before, where it was far from all others

    def __contains__(self, key: Hashable) -> bool:
        return key in self.questions

    def ask(self, key: Hashable, question: Question) -> int:
        """Keep a question; return how many expired for it. One of the same key takes the place of the old one."""
        return _keep(self.questions, key, question, self.options.max_pending)

    def wait(self, key: Hashable, answer: Early) -> int:
        """Keep an answer whose question is not there; return how many answers expired, itself perhaps."""
        return _keep(self.early, key, answer, self.options.max_early) if self.options.max_early else 1

    def expire(self, n: int, time: float | None) -> tuple[int, int]:
        """Remove what has waited too long, at item `n` and its event time; return how many questions and answers."""
        if time is not None:
            self._advance(time)
        return self._expire(self.questions, n), self._expire(self.early, n)

    def _advance(self, time: float) -> None:
        if self.now is None or not self._is_far(time, self.now):
            self.now, self._far = time if self.now is None else max(self.now, time), None
        elif self._far is not None and not self._is_far(time, self._far):
            self.now, self._far = max(time, self._far), None
        else:
            self._far = time

    def _is_far(self, time: float, from_time: float) -> bool:
        seconds = self.options.expire_seconds
        return seconds is not None and abs(time - from_time) > _FAR * seconds

    def _expire(self, waiting: dict[Hashable, Any], n: int) -> int:
        items, seconds = self.options.expire_items, self.options.expire_seconds
        n_expired = 0
        while waiting:
            oldest = next(iter(waiting))
            since = waiting[oldest]
            is_old = items is not None and n - since.n > items
            is_late = (
                seconds is not None
                and since.time is not None
                and self.now is not None
                and (self.now - since.time > seconds or self._is_far(since.time, self.now))
            )
            if not is_old and not is_late:
                break
            del waiting[oldest]
            n_expired += 1
        return n_expired

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps: plain values."""
        return {
            "now": self.now,
            "far": self._far,
            "questions": {key: tuple(asked) for key, asked in self.questions.items()},
            "early": {key: tuple(answer) for key, answer in self.early.items()},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self.now, self._far = state["now"], state["far"]
        self.questions = {key: Question(*asked) for key, asked in state["questions"].items()}
        self.early = {key: Early(*answer) for key, answer in state["early"].items()}


def _keep(waiting: dict[Hashable, Any], key: Hashable, value: Any, most: int) -> int:
    """Append a value, in place of one of the same key and, beyond `most`, of the oldest; return how many went."""
    n_gone = int(waiting.pop(key, None) is not None)
    waiting[key] = value
    if len(waiting) > most:
        del waiting[next(iter(waiting))]
        n_gone += 1
    return n_gone
