"""A group of workers that share out a stream: state belongs to partitions and moves with them."""

from fwonline.loop.group.group_loop import GroupLoop
from fwonline.loop.group.merging import merge, merge_step
from fwonline.loop.group.serving import MergedModel
from fwonline.loop.group.states import PartitionStates

__all__ = ["GroupLoop", "MergedModel", "PartitionStates", "merge", "merge_step"]
