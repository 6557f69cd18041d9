"""The event loop: predict, score, learn, tell the monitors; after a crash a run goes on as if it had never stopped."""

from fwonline.loop.event_loop import EventLoop
from fwonline.loop.group import GroupLoop, MergedModel, PartitionStates, merge, merge_step
from fwonline.loop.options import BadSamples, Questions, Timing
from fwonline.loop.report import Counts, Observer, Report, Road, Start, Summary

__all__ = [
    "BadSamples",
    "Counts",
    "EventLoop",
    "GroupLoop",
    "MergedModel",
    "Observer",
    "PartitionStates",
    "Questions",
    "Report",
    "Road",
    "Start",
    "Summary",
    "Timing",
    "merge",
    "merge_step",
]
