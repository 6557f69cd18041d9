"""Build the site: ``python -m tools.site [FOLDER]``, by default ``build/site``; warnings are errors."""

import os
import sys

os.environ.setdefault("MPLBACKEND", "agg")

if __name__ == "__main__":
    from tools.site.build import main

    sys.exit(main(sys.argv[1:]))
