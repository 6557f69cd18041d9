"""Waiting for what other threads and processes do."""

import time


def wait_until(condition, seconds=10.0):
    """Return when the condition holds; fail where it does not within some seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
