"""Looking for a group's coordinator at the pace of kafka-python's own settings."""

from __future__ import annotations

import time
from typing import Any

__all__ = ["look_up_calmly"]


def look_up_calmly(consumer: Any) -> None:
    """Let a consumer ask who its group's coordinator is once in `retry_backoff_ms`, not thousands of times a second.

    As long as the brokers still name one that has just died, kafka-python finds it, finds it unreachable, and asks
    again at once. That takes a core of its own and one of the broker's, which chooses the next one the later.

    Does nothing where the version is one whose insides have other names.
    """
    from kafka.errors import CoordinatorNotAvailableError
    from kafka.future import Future

    coordinator: Any = getattr(consumer, "_coordinator", None)
    ask = getattr(coordinator, "lookup_coordinator", None)
    if ask is None:
        return
    pause = consumer.config["retry_backoff_ms"] / 1000
    asked = -pause

    def ask_calmly() -> Any:
        nonlocal asked
        now = time.monotonic()
        if now - asked < pause and getattr(coordinator, "_find_coordinator_future", None) is None:
            return Future().failure(CoordinatorNotAvailableError())  # for which callers wait before they ask again
        asked = now
        return ask()

    coordinator.lookup_coordinator = ask_calmly
