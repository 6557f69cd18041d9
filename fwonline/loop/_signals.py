"""SIGINT and SIGTERM while a loop runs: finish the current sample, then stop."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Self

__all__ = ["Stop", "WaitOver"]

# How many seconds a source may go on waiting for its next item after a stop was requested.
_GRACE = 0.5
# How many seconds all waiting for brokers may take after that: a second signal may kill the process soon.
_DEADLINE = 3.0


class WaitOver(BaseException):
    """Ends the wait for an item that may never come. Raised only while the loop waits for its source."""


class Stop:
    """Turns the first SIGINT or SIGTERM into a request that the loop reads between two samples.

    A second SIGINT raises KeyboardInterrupt at once. A source that waits for its next item (a pipe, a broker) reads no
    requests: after half a second `WaitOver` ends the wait. Off the main thread, where Python delivers no signals, this
    does nothing.

    `position` reads the source's position when a stop is requested while the loop waits: if the wait must be ended, the
    source stands there, whatever it did afterwards; None for a source that never waits long. `set_deadline` gets the
    seconds that are left; at the start and after a clean end, infinity. `loop` is the code of the function that sets
    `waiting`: a signal that interrupts it, rather than the source that it calls, finds no wait to end.
    """

    def __init__(
        self, position: Callable[[], Any] | None, set_deadline: Callable[[float], None], loop: CodeType | None = None
    ) -> None:
        self.requested = False
        self.name = ""
        self.waiting = False  # set by the loop around each wait for the source
        self.position: Any = None
        self._read_position = position
        self._set_deadline = set_deadline
        self._loop = loop
        self._timer: threading.Timer | None = None
        self._is_wakeup = False
        self._former: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._set_deadline(math.inf)
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                former = signal.signal(number, self._handle)
                # None: set by a C program around Python, which restores it itself
                self._former[number] = signal.SIG_DFL if former is None else former
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()  # a wake-up that is under way must find our handler
        if exc_info[0] is None:  # after an error, what is left to close keeps the deadline
            self._set_deadline(math.inf)
        for number, former in self._former.items():
            signal.signal(number, former)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._is_wakeup:
            self._is_wakeup = False
            if self.waiting and (frame is None or frame.f_code is not self._loop):
                raise WaitOver
            return
        if self.requested:
            if number == signal.SIGINT:
                raise KeyboardInterrupt
            return
        self.requested, self.name = True, signal.Signals(number).name
        self._set_deadline(_DEADLINE)
        if self.waiting and self._read_position is not None:
            self.position = self._read_position()
            self._timer = threading.Timer(_GRACE, self._wake_up, (number, threading.get_ident()))
            self._timer.daemon = True
            self._timer.start()

    def _wake_up(self, number: int, thread: int) -> None:
        self._is_wakeup = True
        signal.pthread_kill(thread, number)  # interrupts a blocking read, which a flag would not
