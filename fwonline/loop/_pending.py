"""Questions that wait for their answers."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

__all__ = ["Early", "Pending", "Question"]

# A time that is further from the others than so many times the wait is none until a second one is like it: one wrong
# clock would else give up every question that follows.
_FAR = 100


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


class Early(NamedTuple):
    """An answer that came before its question.

    Parameters
    ----------
    y
        The target.
    n
        How many items the stream had yielded by then.
    time
        Its event time, or None.
    origin
        Where it stands.

    """

    y: Any
    n: int
    time: float | None
    origin: str


class Pending:
    """Questions by key, the oldest first, in bounded memory; and answers that wait for their question.

    Parameters
    ----------
    max_pending
        How many may wait. One more pushes out the oldest.
    max_items
        After how many further items of the stream a question is given up; None for never.
    max_seconds
        After how much event time a question is given up; None for never. Event time is the latest seen, but for one
        that is more than a hundred times `max_seconds` away from it: that counts when the next one confirms it.
        Questions that came out of order are given up when their turn comes, never too early.
    max_early
        How many answers may wait for a question that is still to come; they are given up as questions are.

    """

    def __init__(self, max_pending: int, max_items: int | None, max_seconds: float | None, max_early: int = 0) -> None:
        self.max_pending = max_pending
        self.max_items = max_items
        self.max_seconds = max_seconds
        self.max_early = max_early
        self.questions: dict[Hashable, Question] = {}
        self.early: dict[Hashable, Early] = {}
        self.now: float | None = None
        self._far: float | None = None  # the time of the item before, where it was far from all others

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

    def wait(self, key: Hashable, answer: Early) -> int:
        """Keep an answer whose question is not there; return how many answers were given up, itself perhaps."""
        if not self.max_early:
            return 1
        n_unmatched = int(self.early.pop(key, None) is not None)
        self.early[key] = answer
        if len(self.early) > self.max_early:
            del self.early[next(iter(self.early))]
            n_unmatched += 1
        return n_unmatched

    def expire(self, n: int, time: float | None) -> tuple[int, int]:
        """Give up what has waited too long, at item `n` and its event time; return how many questions and answers."""
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
        return self.max_seconds is not None and abs(time - from_time) > _FAR * self.max_seconds

    def _expire(self, waiting: dict[Hashable, Any], n: int) -> int:
        n_expired = 0
        while waiting:
            oldest = next(iter(waiting))
            since = waiting[oldest]
            too_many = self.max_items is not None and n - since.n > self.max_items
            too_late = (
                self.max_seconds is not None
                and since.time is not None
                and self.now is not None
                and (self.now - since.time > self.max_seconds or self._is_far(since.time, self.now))
            )
            if not too_many and not too_late:
                break
            del waiting[oldest]
            n_expired += 1
        return n_expired

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps: plain values."""
        return {
            "now": self.now,
            "far": self._far,
            "questions": {key: tuple(asked) for key, asked in self.questions.items()},
            "early": {key: tuple(answer) for key, answer in self.early.items()},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a former run's questions."""
        self.now, self._far = state["now"], state.get("far")
        self.questions = {key: Question(*asked) for key, asked in state["questions"].items()}
        self.early = {key: Early(*answer) for key, answer in state.get("early", {}).items()}
