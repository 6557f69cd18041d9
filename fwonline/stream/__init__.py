"""Sources of samples and sinks of results: iterables, files, Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fwonline.stream.arrays.npz import NPZSource
from fwonline.stream.arrays.parquet import ParquetSource
from fwonline.stream.base import Rejected, Sample, Sink, Source, as_source
from fwonline.stream.csvfile import CSVSource
from fwonline.stream.files import FileSource
from fwonline.stream.iterables import IterableSource
from fwonline.stream.jsonlines import JSONLinesSource
from fwonline.stream.sinks import CallbackSink, CSVSink, FileSink, JSONLinesSink
from fwonline.stream.svmlight import SVMLightSource

if TYPE_CHECKING:
    from fwonline.stream.kafka import KafkaDeadLetterSink, KafkaGroupSource, KafkaSink, KafkaSource

__all__ = [
    "CSVSink",
    "CSVSource",
    "CallbackSink",
    "FileSink",
    "FileSource",
    "IterableSource",
    "JSONLinesSink",
    "JSONLinesSource",
    "KafkaDeadLetterSink",
    "KafkaGroupSource",
    "KafkaSink",
    "KafkaSource",
    "NPZSource",
    "ParquetSource",
    "Rejected",
    "SVMLightSource",
    "Sample",
    "Sink",
    "Source",
    "as_source",
]


def __getattr__(name: str) -> Any:
    # kafka-python is an extra, and importing it costs time that a stream from a file need not pay
    if name in ("KafkaDeadLetterSink", "KafkaGroupSource", "KafkaSink", "KafkaSource"):
        from fwonline.stream import kafka

        return getattr(kafka, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
