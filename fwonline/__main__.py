"""``python -m fwonline`` is the command ``fwonline``."""

import sys

from fwonline.cli import main

sys.exit(main())
