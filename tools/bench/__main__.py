"""Pins threads before numpy is imported, then hands over to the command."""

import os
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

if __name__ == "__main__":
    from tools.bench.cli import main

    sys.exit(main())
