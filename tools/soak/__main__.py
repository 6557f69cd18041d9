"""The command: `python -m tools.soak`."""

import sys

from tools.soak.cli import main

if __name__ == "__main__":
    sys.exit(main())
