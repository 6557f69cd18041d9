"""The event loop: predict, score, learn, tell the monitors; and go on after a crash as if there had been none."""

from fwonline.loop.event_loop import EventLoop
from fwonline.loop.group import GroupLoop, MergedModel, PartitionStates, merge, merge_step
from fwonline.loop.report import Observer, Report, Start, Summary

__all__ = [
    "EventLoop",
    "GroupLoop",
    "MergedModel",
    "Observer",
    "PartitionStates",
    "Report",
    "Start",
    "Summary",
    "merge",
    "merge_step",
]
