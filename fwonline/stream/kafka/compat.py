"""What kafka-python does in a hurry, or not at all, while a broker is away: mended where its insides are known."""

from __future__ import annotations

import functools
import time
from typing import Any

__all__ = ["look_up_calmly", "net_client"]

_LOOK = 0.1  # seconds between two looks at a broker that is away


@functools.cache
def net_client() -> type:
    """Return the network client for consumers and producers: kafka-python's, but for what it tells of lost brokers.

    A producer asks how many milliseconds it must wait for a partition's leader. It was told seconds, and so asked
    thousands of times a second; and it did not ask who leads now, so that it waited for the one that had died. And the
    request that it was about to send to its transactions' coordinator was forgotten where the connection to that one
    failed, and not merely was not there yet; then the transaction stood still until its time was up.
    """
    from kafka.errors import KafkaError
    from kafka.net.compat import KafkaNetClient

    class NetClient(KafkaNetClient):
        def await_ready(self, node_id: Any, timeout_ms: float = 30_000) -> bool:
            try:
                return bool(super().await_ready(node_id, timeout_ms=timeout_ms))
            except KafkaError:
                time.sleep(_LOOK)  # in the producer's own thread
                return False

        def connection_delay(self, node_id: Any) -> float:
            seconds = super().connection_delay(node_id)
            if seconds > 0:
                self.cluster.request_update()  # which keeps its own pace
            return 1000.0 * min(seconds, _LOOK)

    return NetClient


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
