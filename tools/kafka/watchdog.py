"""Runs one command and never leaves it behind: `python watchdog.py FOLDER GRACE COMMAND...`.

The command's process id is the first line on standard output, and all that the command says goes to standard error. The
starter holds the other end of standard input: when it writes there, or dies in whatever way, the command gets SIGTERM,
and SIGKILL after GRACE seconds. If the starter died, FOLDER, which it can no longer remove, is removed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _die_with_watchdog() -> None:
    """Ask the kernel to kill this process if even the watchdog is killed (Linux only; elsewhere nothing is asked)."""
    pr_set_pdeathsig = 1
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def main(folder: str, grace: float, command: list[str]) -> int:
    """Run `command` until it ends or the starter requests its end; return its exit status."""
    # A terminal's Ctrl-C, or a signal meant for the starter's group, must not end the watchdog before its work is done.
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    # One thread and no locks here, so running Python between fork and exec is safe.
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, preexec_fn=_prepare_child)  # noqa: PLW1509
    print(child.pid, flush=True)
    starter_died = False
    while child.poll() is None:
        requested, _, _ = select.select([0], [], [], 0.1)
        if requested:
            starter_died = not os.read(0, 64)
            child.terminate()
            try:
                child.wait(grace)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
    if starter_died:
        shutil.rmtree(folder, ignore_errors=True)
    return child.returncode


def _prepare_child() -> None:
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    _die_with_watchdog()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2]), sys.argv[3:]))
