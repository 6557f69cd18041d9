"""The property tests with examples drawn anew, again and again.

The test command draws the same examples everywhere; here each pass has a seed of its own, which is printed where one
fails, together with the example.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

__all__ = ["properties"]

ROOT = Path(__file__).parents[2]


def properties(seconds: float, seed: int, only: Sequence[str], say: Callable[[str], None]) -> dict[str, Any]:
    """Run passes of the property tests until `seconds` are over or one fails.

    Parameters
    ----------
    seconds
        When no further pass begins; 0 for one pass.
    seed
        Of the first pass; each further one has the next number.
    only
        Files or folders of tests; all of them where empty.
    say
        Called with a line about each pass.
    """
    end = time.monotonic() + seconds
    passes = 0
    while True:
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "hypothesis", "--hypothesis-profile=drawn"]
        done = subprocess.run(
            [*command, f"--hypothesis-seed={seed + passes}", *(only or ["tests"])],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        last = (done.stdout.strip().splitlines() or [done.stderr.strip()])[-1]
        if done.returncode != 0:
            print(done.stdout, done.stderr, sep="\n")
            say(f"seed {seed + passes}: {last}")
            return {"ok": False, "passes": passes, "failed with seed": str(seed + passes)}
        passes += 1
        say(f"seed {seed + passes - 1}: {last}")
        if time.monotonic() >= end:
            return {"ok": True, "passes": passes}
