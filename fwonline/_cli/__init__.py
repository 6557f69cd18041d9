"""What stands behind the commands of `fwonline.cli`: each module is imported by the command that needs it."""

import os
import sys

from fwonline.exceptions import FWOnlineError

__all__ = ["FolderError", "IncompleteError", "interpreter"]


class FolderError(FWOnlineError):
    """A run folder that is not what the command needs: taken, foreign, empty or of another definition."""


class IncompleteError(FWOnlineError):
    """A command that did what it could, and could not do it for all samples."""


def interpreter() -> list[str]:
    """The words that start another Python, which finds modules where this one does.

    ``python -m`` looks in the present folder first. A definition of somebody else's may lie there, and a ``json.py``.
    """
    return [sys.executable, *([] if {"", os.getcwd()} & set(sys.path) else ["-P"])]
