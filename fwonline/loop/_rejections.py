"""How much of a stream was rejected lately, and when that is too much."""

from __future__ import annotations

from collections import deque
from typing import Any

from fwonline.exceptions import TooManyRejectedError

__all__ = ["Rejections"]

# The share is of the last so many items.
_WINDOW = 1000
# It is checked once so many came, and at the end.
_LEAST = 100
# So many reasons are reported, each shortened to so many characters.
_REASONS, _LENGTH = 5, 300


class Rejections:
    """The items rejected among the last 1,000.

    Only a rejection can raise their share, so it is checked at each of them, and clean items cost nothing.
    """

    def __init__(self, max_share: float | None) -> None:
        self.max_share = max_share
        self.items: deque[int] = deque()  # which items of the stream, the oldest first
        self.first: deque[tuple[int, str]] = deque()  # the first of them, with the reasons

    def add(self, n: int, message: str) -> None:
        """Count item `n` as rejected, and check the share. Raises TooManyRejectedError when it was one too many."""
        self.items.append(n)
        self._forget(n)
        if len(self.first) < _REASONS:
            self.first.append((n, message if len(message) <= _LENGTH else f"{message[: _LENGTH - 3]}..."))
        if n >= _LEAST:
            self.check(n)

    def check(self, n: int) -> None:
        """Check the share among the items up to `n`, the last one.

        Raises TooManyRejectedError when the share of those that were rejected is beyond `max_share`.
        """
        self._forget(n)
        of = min(n, _WINDOW)
        if self.max_share is None or len(self.items) <= self.max_share * of:
            return
        raise TooManyRejectedError(
            f"{len(self.items):,} of the last {of:,} items were rejected, more than max_rejected_share = "
            f"{self.max_share:g} allows; the first of them:\n  " + "\n  ".join(why for _, why in self.first),
            [why for _, why in self.first],
        )

    def _forget(self, n: int) -> None:
        while self.items and self.items[0] <= n - _WINDOW:
            self.items.popleft()
        while self.first and self.first[0][0] <= n - _WINDOW:
            self.first.popleft()

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps: plain values."""
        return {"items": list(self.items), "first": list(self.first)}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self.items = deque(state["items"])
        self.first = deque((n, why) for n, why in state["first"])
