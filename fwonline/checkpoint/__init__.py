"""Checkpoints: what a run needs to go on, in one file that is whole or not there. Knows nothing of models or loops."""

from fwonline.checkpoint import codec
from fwonline.checkpoint.file import Checkpoint

__all__ = ["Checkpoint", "codec"]
