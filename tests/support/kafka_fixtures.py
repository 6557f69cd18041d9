"""The broker that tests marked `kafka` share: real where one can be had, and named in pytest's last lines."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# The broker is a tool of this repository, not a part of the package; pytest may have been started from anywhere.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.kafka import Cluster, RunningCluster, start_cluster

_USERS = {"alice": "correct horse"}
_used = pytest.StashKey[set]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_used] = set()


@pytest.fixture(scope="session")
def kafka(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """A cluster for the whole session. `kafka.is_mock` tells whether it is no Kafka but librdkafka's mock of one."""
    with start_cluster(users=_USERS) as cluster:
        pytestconfig.stash[_used].add(cluster.description)
        yield cluster


@pytest.fixture
def real_kafka(kafka: Cluster) -> Cluster:
    """The session's cluster, for a test that needs more of it than the mock has; elsewhere the test is skipped."""
    if kafka.is_mock:
        pytest.skip(f"needs a real Kafka, and this session has {kafka.description}")
    return kafka


@pytest.fixture
def make_topic(kafka: Cluster) -> Iterator[Callable[..., str]]:
    """A function that creates a topic of a new name with so many partitions at least."""
    made: list[str] = []
    numbers = itertools.count()

    def make(partitions: int = 1, **settings: str) -> str:
        name = f"fwonline-test-{os.getpid()}-{os.urandom(4).hex()}-{next(numbers)}"
        assert kafka.create_topic(name, partitions, **settings) >= partitions
        made.append(name)
        return name

    yield make
    if isinstance(kafka, RunningCluster):  # the others end with the session, and their topics with them
        for name in made:
            kafka.delete_topic(name)


def pytest_sessionfinish(session: pytest.Session) -> None:
    # A worker of pytest-xdist tells the process that writes the last lines.
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["kafka"] = sorted(session.config.stash[_used])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node) -> None:
    node.config.stash[_used].update(getattr(node, "workeroutput", {}).get("kafka", ()))


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    for description in sorted(config.stash[_used]):
        terminalreporter.write_line(f"kafka tests ran on: {description}")
