"""Checkpoints: what a run needs to go on, in one file, written whole or not at all. Independent of models and loops."""

from fwonline.checkpoint import codec
from fwonline.checkpoint.file import Checkpoint

__all__ = ["Checkpoint", "codec"]
