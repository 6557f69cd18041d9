"""The assignment of partitions, passed from kafka-python's thread to the one that polls."""

from __future__ import annotations

import threading
from typing import Any

__all__ = ["Assignment"]


class Assignment:
    """What the last rebalance assigned; `pending` until it is taken."""

    def __init__(self) -> None:
        self.pending = False
        self._partitions: set[Any] | None = None
        self._lock = threading.Lock()

    def put(self, partitions: set[Any] | None) -> None:
        """Set the partitions assigned; None while they are revoked and no others are assigned yet."""
        with self._lock:
            self.pending, self._partitions = True, partitions

    def take(self) -> set[Any] | None:
        """Return the partitions assigned last."""
        with self._lock:
            self.pending = False
            return self._partitions

    def put_back(self, partitions: set[Any] | None) -> None:
        """Make what was taken pending again, unless there was another rebalance since."""
        with self._lock:
            if not self.pending:
                self.pending, self._partitions = True, partitions

    def listener(self) -> Any:
        """Return the listener for kafka-python. It only takes notes: brokers cannot be asked in its thread."""
        from kafka import ConsumerRebalanceListener

        put = self.put

        class Listener(ConsumerRebalanceListener):
            def on_partitions_revoked(self, revoked: Any) -> None:
                put(None)

            def on_partitions_assigned(self, assigned: Any) -> None:
                put(set(assigned))

        return Listener()
