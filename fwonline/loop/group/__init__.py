"""A group of workers that share out a stream: state belongs to partitions and moves with them."""

from fwonline.loop.group.group_loop import GroupLoop
from fwonline.loop.group.states import PartitionStates

__all__ = ["GroupLoop", "PartitionStates"]
