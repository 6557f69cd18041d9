"""What a consumer group decides, from the thread that is told to the thread that asks."""

from __future__ import annotations

import threading
from typing import Any

__all__ = ["Notes"]


class Notes:
    """What the group decided, written down by kafka-python's own thread and read by ours."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_new = False
        self._assigned: set[Any] | None = None

    def __bool__(self) -> bool:
        return self._is_new

    def put(self, assigned: set[Any] | None) -> None:
        with self._lock:
            self._is_new, self._assigned = True, assigned

    def put_back(self, assigned: set[Any] | None) -> None:
        """Note once more what was taken, unless the group has decided anew since."""
        with self._lock:
            if not self._is_new:
                self._is_new, self._assigned = True, assigned

    def take(self) -> set[Any] | None:
        """Return the partitions assigned last, None where all were taken away and no others are there yet."""
        with self._lock:
            self._is_new = False
            return self._assigned

    def listener(self) -> Any:
        from kafka import ConsumerRebalanceListener

        notes = self

        class Listener(ConsumerRebalanceListener):
            # Called on the thread that a question to the brokers would wait for.
            def on_partitions_revoked(self, revoked: Any) -> None:
                notes.put(None)

            def on_partitions_assigned(self, assigned: Any) -> None:
                notes.put(set(assigned))

        return Listener()
