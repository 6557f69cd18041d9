"""Where a result was measured: versions, processor, threads."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from pathlib import Path

__all__ = ["describe", "version_of"]

_PACKAGES = ("fwonline", "river", "numpy", "scipy", "numba", "scikit-learn", "copt", "vowpalwabbit", "matplotlib")
_THREADS = ("OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


def describe() -> dict[str, str]:
    """What a reader needs to judge a number: name to text."""
    return {
        "python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        "packages": ", ".join(f"{name} {version_of(name)}" for name in _PACKAGES),
        "cpu": f"{_processor()}, {os.cpu_count()} logical cores",
        "threads": ", ".join(f"{name}={os.environ.get(name, 'not set')}" for name in _THREADS),
    }


def version_of(package: str) -> str:
    """The installed version, or that there is none."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
