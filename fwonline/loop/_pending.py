"""Questions that wait for their answers."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

__all__ = ["Pending", "Question"]


class Question(NamedTuple):
    """A sample without its target, as it was predicted.

    Parameters
    ----------
    x
        The features.
    y_pred
        What was predicted when it was asked.
    n
        How many items the stream had yielded by then.
    time
        Its event time, or None.

    """

    x: dict
    y_pred: Any
    n: int
    time: float | None


class Pending:
    """Questions by key, the oldest first, in bounded memory.

    Parameters
    ----------
    max_pending
        How many may wait. One more pushes out the oldest.
    max_items
        After how many further items of the stream a question is given up; None for never.
    max_seconds
        After how much event time a question is given up; None for never. Event time is the latest seen. Questions that
        came out of order are given up when their turn comes, never too early.

    """

    def __init__(self, max_pending: int, max_items: int | None, max_seconds: float | None) -> None:
        self.max_pending = max_pending
        self.max_items = max_items
        self.max_seconds = max_seconds
        self.questions: dict[Hashable, Question] = {}
        self.now: float | None = None

    def __len__(self) -> int:
        return len(self.questions)

    def __contains__(self, key: Hashable) -> bool:
        return key in self.questions

    def ask(self, key: Hashable, question: Question) -> int:
        """Keep a question; return how many were given up for it. One of the same key takes the place of the old one."""
        n_expired = int(self.questions.pop(key, None) is not None)
        self.questions[key] = question
        if len(self.questions) > self.max_pending:
            del self.questions[next(iter(self.questions))]
            n_expired += 1
        return n_expired

    def answer(self, key: Hashable) -> Question:
        """Take out the question of that key."""
        return self.questions.pop(key)

    def expire(self, n: int, time: float | None) -> int:
        """Give up what has waited too long, at item `n` and its event time; return how many."""
        if time is not None and (self.now is None or time > self.now):
            self.now = time
        n_expired = 0
        while self.questions:
            oldest = next(iter(self.questions))
            asked = self.questions[oldest]
            too_many = self.max_items is not None and n - asked.n > self.max_items
            too_late = (
                self.max_seconds is not None
                and asked.time is not None
                and self.now is not None
                and self.now - asked.time > self.max_seconds
            )
            if not too_many and not too_late:
                break
            del self.questions[oldest]
            n_expired += 1
        return n_expired

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps: plain values."""
        return {"now": self.now, "questions": {key: tuple(asked) for key, asked in self.questions.items()}}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a former run's questions."""
        self.now = state["now"]
        self.questions = {key: Question(*asked) for key, asked in state["questions"].items()}
