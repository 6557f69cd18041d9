"""SIGINT and SIGTERM while a loop runs: finish the sample in hand, then stop."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

__all__ = ["Stop", "WaitOver"]

# How long a source may keep the loop waiting once a stop was asked for, in seconds.
_GRACE = 0.5
# And how long whatever is asked of brokers after that: who told us to go may kill us soon.
_GOODBYE = 3.0


class WaitOver(BaseException):
    """Ends the wait for an item that may never come. Raised only while the loop waits for its source."""


class Stop:
    """Turns the first SIGINT or SIGTERM into a wish that the loop reads between two samples.

    A second SIGINT raises KeyboardInterrupt where it finds the program. A source that waits for its next item (a pipe,
    a broker) cannot read wishes: after half a second the wait is ended by `WaitOver`. Off the main thread, where Python
    delivers no signals, this does nothing.

    Parameters
    ----------
    position
        Reads the source's position. It is noted when the wish comes while the loop waits: if the wait must be ended,
        the source stands there and nowhere else, whatever it was about to do. None: no wait is ever ended, since the
        source never waits for long.
    hurry
        Told, in the handler, how many seconds there are left for what is still to be done; and at the beginning, and
        when all is done, that there is no hurry.

    """

    def __init__(self, position: Callable[[], Any] | None, hurry: Callable[[float], None]) -> None:
        self.wished = False
        self.name = ""
        self.waiting = False  # set by the loop around each wait for the source
        self.position: Any = None
        self._read_position = position
        self._hurry = hurry
        self._loop_frame: FrameType | None = None
        self._timer: threading.Timer | None = None
        self._is_nudge = False
        self._former: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._hurry(math.inf)
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                former = signal.signal(number, self._handle)
                # None: set by a C program around Python, which takes it back by itself
                self._former[number] = signal.SIG_DFL if former is None else former
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()  # a nudge that is under way must find our handler
        if exc_info[0] is None:  # else what is left is to let go, and whoever was in a hurry still is
            self._hurry(math.inf)
        for number, former in self._former.items():
            signal.signal(number, former)
        self._loop_frame = None

    def watch(self, frame: FrameType) -> None:
        """Note the frame of the loop: a signal found in it, and not below it, finds no wait to end."""
        self._loop_frame = frame

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._is_nudge:
            self._is_nudge = False
            if self.waiting and frame is not self._loop_frame:
                raise WaitOver
            return
        if self.wished:
            if number == signal.SIGINT:
                raise KeyboardInterrupt
            return
        self.wished, self.name = True, signal.Signals(number).name
        self._hurry(_GOODBYE)
        if self.waiting and self._read_position is not None:
            self.position = self._read_position()
            self._timer = threading.Timer(_GRACE, self._nudge, (number, threading.get_ident()))
            self._timer.daemon = True
            self._timer.start()

    def _nudge(self, number: int, thread: int) -> None:
        self._is_nudge = True
        signal.pthread_kill(thread, number)  # wakes a blocking read, which a flag would not
