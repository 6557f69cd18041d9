"""The interface of all clusters: real ones, mocks, and those that already run."""

from __future__ import annotations

import abc
import contextlib
import time
from typing import Any, Self

__all__ = ["BrokerUnavailable", "Cluster", "MockCluster", "RunningCluster"]


class BrokerUnavailable(RuntimeError):
    """No broker can be started here; the message says what is missing."""


class Cluster(abc.ABC):
    """A Kafka cluster that runs for as long as a `with` block lasts.

    Attributes
    ----------
    bootstrap
        `host:port`, or several with commas.
    secured
        The same for the listener that requires a user and a password, or None.
    description
        What it is; tests print it.
    version
        Of the broker, or None where that is not known.
    is_mock
        Whether this is a mock: it has no transactions, admin requests or compaction; every topic has four partitions,
        is created when it is named, and cannot be deleted.
    """

    bootstrap: str
    secured: str | None = None
    description: str
    version: str | None = None
    is_mock: bool

    @property
    def client(self) -> dict[str, Any]:
        """The settings that every kafka-python client needs for it, beyond the address."""
        return {}

    @property
    def consumer(self) -> dict[str, Any]:
        """The settings kafka-python's consumer needs."""
        return self.client

    def admin(self, **options: Any) -> Any:
        """Return a kafka-python `KafkaAdminClient` that the caller closes."""
        from kafka import KafkaAdminClient

        return KafkaAdminClient(bootstrap_servers=self.bootstrap.split(","), **self.client, **options)

    def create_topic(self, name: str, partitions: int = 1, **settings: str) -> int:
        """Create a topic, wait until it can be used, and return its number of partitions.

        `settings` are Kafka's topic settings with underscores for dots: `cleanup_policy="compact"`. The mock's topics
        have four partitions and no settings.
        """
        from kafka.admin import NewTopic

        topic = NewTopic(
            name, partitions, -1, topic_configs={key.replace("_", "."): value for key, value in settings.items()}
        )
        with contextlib.closing(self.admin()) as admin:
            admin.create_topics([topic])
            admin.wait_for_topics([name])
        return partitions

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        with contextlib.closing(self.admin()) as admin:
            admin.delete_topics([name])

    @abc.abstractmethod
    def stop(self) -> None:
        """Stop the cluster. May be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<{self.description} at {self.bootstrap}>"


class RunningCluster(Cluster):
    """A cluster that already runs; it is left as it was, but for the topics created in it."""

    is_mock = False

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.description = f"the Kafka that runs at {bootstrap}"

    def stop(self) -> None:
        """Do nothing: the cluster was not started here."""


class MockCluster(Cluster):
    """librdkafka's mock cluster: a stand-in inside this process, no Kafka.

    It keeps 5 MiB a partition, gives every topic four partitions, creates a topic when it is requested, and has
    neither transactions nor admin requests.
    """

    is_mock = True
    partitions = 4

    def __init__(self, nodes: int = 1) -> None:
        try:
            import confluent_kafka
        except ImportError as error:
            raise BrokerUnavailable(
                "the mock cluster is a part of confluent-kafka: pip install confluent-kafka"
            ) from error
        self.version = None
        self.description = f"librdkafka {confluent_kafka.libversion()[0]}'s mock cluster (a mock, not Kafka)"
        # The cluster lives as long as this client, which sends nothing itself.
        self._owner: Any = confluent_kafka.Producer(
            # The address is never used: it is what librdkafka requires. The log level hides its notice of that.
            {"bootstrap.servers": "127.0.0.1:1", "test.mock.num.brokers": nodes, "log_level": 4}
        )
        brokers = self._owner.list_topics(timeout=10).brokers.values()
        self.bootstrap = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)

    @property
    def client(self) -> dict[str, Any]:
        """The version is given because the mock's response about it misleads kafka-python."""
        return {"api_version": (2, 3)}

    @property
    def consumer(self) -> dict[str, Any]:
        """Short timeouts: the mock answers at once or not at all."""
        return self.client | {"session_timeout_ms": 1500, "heartbeat_interval_ms": 500, "fetch_max_wait_ms": 50}

    def create_topic(self, name: str, partitions: int = 1, **settings: str) -> int:
        """Request the topic, which creates it with four partitions; `partitions` and `settings` are ignored."""
        deadline = time.monotonic() + 10.0
        while len(self._owner.list_topics(name, timeout=10).topics[name].partitions) < self.partitions:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the mock cluster did not create {name!r}")
            time.sleep(0.01)
        return self.partitions

    def stop(self) -> None:
        """End the mock cluster with the client that owns it."""
        self._owner = None
