"""The event loop: predict, score, learn, tell the monitors; and go on after a crash as if there had been none."""

from fwonline.loop.checkpoint import Checkpoint
from fwonline.loop.report import Observer, Report, Start

__all__ = ["Checkpoint", "Observer", "Report", "Start"]
