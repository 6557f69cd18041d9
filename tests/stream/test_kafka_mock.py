"""librdkafka's mock cluster, as `python -m tools.kafka up --mock` starts it, serves definitions as they are."""

import pytest

from fwonline.stream import KafkaSink, KafkaSource
from tools.kafka import MockCluster

pytest.importorskip("kafka")
pytest.importorskip("confluent_kafka")


def test_a_broker_whose_versions_cannot_be_read_is_spoken_to_plainly():
    with MockCluster() as cluster:
        cluster.create_topic("numbers")
        with KafkaSink("numbers", cluster.bootstrap) as sink:
            for a in range(5):
                sink.write({"a": a, "y": a % 2})
            sink.flush(durable=True)
        with KafkaSource("numbers", cluster.bootstrap, target="y", end="latest") as source:
            assert sorted((item.x["a"], item.y) for item in source if item is not None) == [
                (a, a % 2) for a in range(5)
            ]
