"""A Kafka broker for tests and for people.

`python -m tools.kafka up` starts a real Apache Kafka on this machine and prints its address; Ctrl-C ends it. A test
takes `start_cluster()`: a real Kafka where Java and Maven's repository can be had, librdkafka's mock cluster elsewhere,
and the cluster that `FWONLINE_KAFKA` names when it names one.
"""

from __future__ import annotations

import os
from typing import Any

from tools.kafka.broker import RealCluster
from tools.kafka.cluster import BrokerUnavailable, Cluster, MockCluster, RunningCluster

__all__ = ["BrokerUnavailable", "Cluster", "MockCluster", "RealCluster", "RunningCluster", "start_cluster"]


def start_cluster(nodes: int = 1, **options: Any) -> Cluster:
    """Return the best cluster that can be had here, to be used in a `with` block.

    The environment variable FWONLINE_KAFKA decides, where it is set: `real` and `mock` ask for that kind and accept no
    other, anything else is the address, `host:port`, of a cluster that already runs.

    Parameters
    ----------
    nodes
        How many brokers, where they are started here: 1 or 3.
    options
        Passed to `RealCluster`, where one is started: `users`, `heap`, `timeout`.

    Raises
    ------
    BrokerUnavailable
        When FWONLINE_KAFKA is `real` and no real one can be had.
    """
    wish = os.environ.get("FWONLINE_KAFKA", "")
    if wish not in ("", "real", "mock"):
        return RunningCluster(wish)
    if wish == "mock":
        return MockCluster(nodes)
    try:
        return RealCluster(nodes, **options)
    except BrokerUnavailable as error:
        if wish == "real":
            raise
        cluster = MockCluster(nodes)
        cluster.description += f", because no real Kafka can be had: {error}"
        return cluster
