"""Sources of samples and sinks of results: iterables, files, Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fwonline.stream.base import Rejected, Sample, Sink, Source, as_source
from fwonline.stream.iterables import IterableSource
from fwonline.stream.sinks import CallbackSink

if TYPE_CHECKING:
    from fwonline.stream.kafka import KafkaSink, KafkaSource

__all__ = [
    "CallbackSink",
    "IterableSource",
    "KafkaSink",
    "KafkaSource",
    "Rejected",
    "Sample",
    "Sink",
    "Source",
    "as_source",
]


def __getattr__(name: str) -> Any:
    # kafka-python is an extra, and importing it costs time that a stream from a file need not pay
    if name in ("KafkaSink", "KafkaSource"):
        from fwonline.stream import kafka

        return getattr(kafka, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
