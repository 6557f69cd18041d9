"""Streams from and to Apache Kafka, through kafka-python (the extra `kafka`)."""

from fwonline.stream.kafka.group import KafkaGroupSource
from fwonline.stream.kafka.sinks import KafkaDeadLetterSink, KafkaSink
from fwonline.stream.kafka.source import KafkaSource

__all__ = ["KafkaDeadLetterSink", "KafkaGroupSource", "KafkaSink", "KafkaSource"]
