"""Twelve kinds of messages that no model may learn, among ones that it must."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import numpy as np

from fwonline.checkpoint import codec
from fwonline.loop import EventLoop
from fwonline.stream import KafkaDeadLetterSink, KafkaSource
from tools.kafka import Cluster
from tools.soak.worker import make_model, make_monitors

__all__ = ["POISON", "poison"]

GOOD = {"id": 0, "a": 0.5, "b": 0.25, "y": True}


def _json(**changes: Any) -> bytes:
    return json.dumps({name: value for name, value in {**GOOD, **changes}.items() if value is not ...}).encode()


#: By kind, the bytes of a message.
POISON: dict[str, bytes] = {
    "torn JSON": b'{"id": 1, "a": 0.5, "b"',
    "no JSON": b"a,b,y\n0.5,0.25,1\n",
    "no UTF-8": b'{"id": 1, "a": "\xff\xfe"}',
    "nothing at all": b"",
    "a list": b"[1, 2, 3]",
    "a number": b"42",
    "a NaN": b'{"id": 1, "a": NaN, "b": 0.5, "y": true}',
    "an infinite number": b'{"id": 1, "a": 1e999, "b": 0.5, "y": true}',
    "text where a number belongs": _json(a="half"),
    "a list where a number belongs": _json(b=[0.5]),
    "no target": _json(y=...),
    "a target of no class": _json(y={"yes": 1}),
}


def poison(cluster: Cluster, name: str, samples: int, seed: int = 1) -> dict[str, Any]:
    """Learn a topic with 1% poison beside the same topic without, and read the dead letters back."""
    from kafka import KafkaConsumer, KafkaProducer

    rng = np.random.default_rng(seed)
    dirty, clean, letters = name, f"{name}.clean", f"{name}.dlq"
    for topic in (dirty, clean, letters):
        cluster.create_topic(topic)
    put = []
    kinds = list(POISON.values())
    with contextlib.closing(
        KafkaProducer(bootstrap_servers=cluster.bootstrap.split(","), acks="all", **cluster.client)
    ) as producer:
        for i in range(samples):
            if rng.random() < 0.01:
                value = kinds[len(put) % len(kinds)]
                headers = [("kind", str(len(put)).encode()), ("trace", bytes(rng.integers(0, 256, 8, dtype=np.uint8)))]
                producer.send(dirty, value=value, partition=0, headers=headers)
                put.append((value, headers))
            a, b = rng.normal(size=2).round(6)
            value = json.dumps({"id": i, "a": a, "b": b, "y": bool(a > b)}).encode()
            producer.send(dirty, value=value, partition=0)
            producer.send(clean, value=value, partition=0)
        producer.flush(120)

    states, rejected = [], 0
    for topic in (dirty, clean):
        with (
            KafkaDeadLetterSink(letters, cluster.bootstrap, client=cluster.client) as sink,
            KafkaSource(topic, cluster.bootstrap, "y", partitions=[0], end="latest", client=cluster.consumer) as source,
        ):
            loop = EventLoop(source, make_model(), make_monitors(), on_error="dead-letter", dead_letter=sink)
            summary = loop.run()
        rejected += sum(summary.n_rejected.values())
        states.append(codec.dumps(codec.loads(codec.dumps((loop.model, loop.monitors)))))

    with contextlib.closing(
        KafkaConsumer(
            bootstrap_servers=cluster.bootstrap.split(","),
            auto_offset_reset="earliest",
            consumer_timeout_ms=1000,
            **cluster.consumer,
        )
    ) as consumer:
        from kafka import TopicPartition

        places = [TopicPartition(letters, number) for number in consumer.partitions_for_topic(letters)]
        consumer.assign(places)
        consumer.seek_to_beginning()
        came = {}
        for message in consumer:
            headers = dict(message.headers)
            came[int(headers["kind"])] = (message.value, list(message.headers)[:2], headers)
    whole = sum(
        came.get(k, (None, None))[:2] == (value, headers)
        and came[k][2]["topic"].decode() == dirty
        and {"partition", "offset", "error", "origin"} <= came[k][2].keys()
        for k, (value, headers) in enumerate(put)
    )
    return {
        "samples": samples,
        "poison": len(put),
        "kinds": min(len(put), len(kinds)),
        "rejected": rejected,
        "dead letters whole": whole,
        "model equals the clean one": states[0] == states[1],
        "ok": rejected == whole == len(put) == len(came) and states[0] == states[1] and len(put) >= len(kinds),
    }
