"""What stands behind the commands of `fwonline.cli`: each module is imported by the command that needs it."""

from fwonline.exceptions import FWOnlineError

__all__ = ["FolderError", "IncompleteError"]


class FolderError(FWOnlineError):
    """A run folder that is not what the command needs: taken, foreign, empty or of another definition."""


class IncompleteError(FWOnlineError):
    """A command that did what it could, and could not do it for all samples."""
