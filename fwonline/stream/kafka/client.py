"""What sources and sinks share: addresses, client settings with their secrets, a connection within a time limit."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from fwonline.exceptions import SourceError
from fwonline.stream.kafka.compat import Metadata, connection_errors, errors, kafka_python, network_client
from fwonline.stream.records import listed

__all__ = ["Client", "Deadline", "Failures", "addresses", "close_quietly"]

_ATTEMPT = 2.0  # seconds of one attempt to connect, so that a stream that is closed meanwhile ends soon
# Spoken with brokers whose answer about their own versions cannot be read, such as librdkafka's mock cluster.
_PLAIN_VERSION = {"api_version": (2, 3)}
_SECRET_WORDS = ("password", "secret", "token")
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_NO_PROTOCOL = f"client: expected a security_protocol among {listed(_PROTOCOLS)}"
# Given to every client unless the user's settings differ: a broker that returns is met within a second (default: 30 s).
_DEFAULTS = {"reconnect_backoff_max_ms": 1000}
# What the source and the sinks decide themselves.
_RESERVED = {"acks", "auto_offset_reset", "bootstrap_servers", "bootstrap_timeout_ms", "consumer_timeout_ms"}
_RESERVED |= {"enable_auto_commit", "group_id", "kafka_client", "transactional_id"}
_RESERVED |= {"key_deserializer", "key_serializer", "value_deserializer", "value_serializer"}


def addresses(bootstrap_servers: str | Sequence[str]) -> list[str]:
    """Return `host:port` for each server of a list or of a text with commas.

    Raises ValueError when one of them is something else.
    """
    servers = bootstrap_servers.split(",") if isinstance(bootstrap_servers, str) else list(bootstrap_servers)
    servers = [server.strip() for server in servers]
    for server in servers:
        host, _, port = server.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"bootstrap_servers: expected host:port, found {server!r}")
    if not servers:
        raise ValueError("bootstrap_servers: expected at least one host:port")
    return servers


class Failures:
    """Failures that follow one another within `gap` seconds: they count as one, which a caller's patience limits."""

    def __init__(self, gap: float) -> None:
        self.gap = gap
        self.count = 0
        self._first = self._last = -math.inf

    def add(self) -> float:
        """Count one; return for how many seconds they have followed one another."""
        now = time.monotonic()
        if now - self._last > self.gap:
            self._first, self.count = now, 0
        self._last = now
        self.count += 1
        return now - self._first

    def end(self) -> None:
        """Let the next failure be the first of others."""
        self._last = -math.inf


class Client:
    """How a source or sink reaches Kafka: its brokers, and the user's settings for kafka-python's client.

    Only the settings' names are shown, since some values are secret. A value `{"env": "NAME"}` is read from the
    environment variable NAME at each connection, and kept nowhere.
    """

    def __init__(self, kind: str, bootstrap_servers: str | Sequence[str], settings: Mapping[str, Any] | None) -> None:
        self._kind = getattr(kafka_python(), kind)  # KafkaConsumer or KafkaProducer
        self.addresses = addresses(bootstrap_servers)
        self.servers = ",".join(self.addresses)
        self.settings = dict(settings or {})
        known = self._kind.DEFAULT_CONFIG
        for name in self.settings:
            if name in _RESERVED:
                raise ValueError(f"client: {name!r} is not set here: it follows from the other parameters")
            if name not in known:
                has = listed(sorted(known.keys() - _RESERVED), 200)
                raise ValueError(f"client: kafka-python has no setting {name!r}; it has {has}")
        protocol = self.settings.get("security_protocol", _PROTOCOLS[0])
        if isinstance(protocol, str) and protocol not in _PROTOCOLS:  # which kafka-python takes for PLAINTEXT
            raise ValueError(f"{_NO_PROTOCOL}, found {protocol!r}")

    def __repr__(self) -> str:
        return f"<{', '.join(self.settings)}>"

    def resolved(self) -> dict[str, Any]:
        """Return the settings with the environment's values."""
        resolved = {name: _from_environment(name, value) for name, value in self.settings.items()}
        if resolved.get("security_protocol", _PROTOCOLS[0]) not in _PROTOCOLS:
            raise SourceError(f"{_NO_PROTOCOL} in the environment")
        return resolved

    def hide(self, text: object) -> str:
        """Return `text` without the secrets in it."""
        shown = str(text)
        for name, value in self.settings.items():
            is_reference = isinstance(value, Mapping)
            if is_reference or any(word in name for word in _SECRET_WORDS):
                secret = os.environ.get(value.get("env", ""), "") if is_reference else value
                if isinstance(secret, str) and secret:
                    shown = shown.replace(secret, "***")
        return shown

    def connect(
        self,
        seconds: float,
        check: Callable[[], None] = lambda: None,
        *,
        defaults: Mapping[str, Any] = MappingProxyType({}),
        **options: Any,
    ) -> tuple[Any, Metadata]:
        """Return a kafka-python client that knows at least one broker, and its metadata.

        `check` is called many times a second while waiting; what it raises ends the attempt. The caller decides
        `options`, and `defaults` unless the user does. Raises TimeoutError, with the reason, when no broker responded
        in time. Raises SourceError at once, when the broker refuses this client, or the settings cannot be used.
        """
        deadline = time.monotonic() + seconds
        started: list[Any] = []
        version: Mapping[str, Any] = {}

        def start(**config: Any) -> Any:
            started.append(network_client()(**config))
            return started[-1]

        with connection_errors() as failures:
            while True:
                attempt_ms = 1000 * max(0.1, min(_ATTEMPT, deadline - time.monotonic()))
                try:
                    config = {**_DEFAULTS, **version, **defaults, **self.resolved(), **options}
                    config |= {"bootstrap_servers": self.addresses, "bootstrap_timeout_ms": attempt_ms}
                    client = self._kind(**config, kafka_client=start)
                    metadata = Metadata(started[-1].cluster)
                    # A client whose `api_version` is given has not asked any broker yet.
                    if metadata.refresh(deadline, metadata.brokers, check):
                        return client, metadata
                except errors.KafkaConfigurationError as error:
                    _close(started)
                    raise SourceError(f"{self.servers}: {self.hide(error)}") from None
                except errors.KafkaError as error:
                    failures.append(error)
                    if any(isinstance(failure, errors.KafkaProtocolError) for failure in failures):
                        version = _PLAIN_VERSION
                except BaseException:
                    _close(started)  # an unfinished client holds a thread and sockets that nothing else can close
                    raise
                _close(started)
                for failure in failures:
                    if isinstance(failure, (errors.SaslAuthenticationFailedError, errors.AuthorizationError)):
                        # Asking again would only lock the account.
                        raise SourceError(f"{self.servers} refuses this client: {self.hide(failure)}")
                check()
                if time.monotonic() >= deadline:
                    raise TimeoutError(f"no answer from {self.servers} in {seconds:g} s{self._reason(failures)}")

    def _reason(self, failures: list[Exception]) -> str:
        if not failures:
            return ""
        # Brokers refuse a wrong password late, and kafka-python often sees only that the connection was closed.
        hint = "; a wrong user or password can look like this" if "sasl_mechanism" in self.settings else ""
        return f" ({self.hide(failures[0])}{hint})"


def _from_environment(name: str, value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    if set(value) != {"env"} or not isinstance(value["env"], str):
        raise SourceError(f'client.{name}: expected a value or {{env = "NAME"}}')
    try:
        return os.environ[value["env"]]
    except KeyError:
        raise SourceError(f"client.{name}: the environment variable {value['env']} is not set") from None


class Deadline:
    """A time after which no call may wait for brokers any more; there is none until it is set."""

    def __init__(self) -> None:
        self._at = math.inf

    def set(self, seconds: float) -> None:
        """Set it to so many seconds from now; `math.inf` removes it."""
        self._at = time.monotonic() + seconds

    def timeouts(self, seconds: float, longest: float) -> Iterator[float]:
        """Split `seconds`, cut at the deadline, into timeouts of at most `longest`.

        There is at least one, so that a call that needs no time is made.
        """
        end = time.monotonic() + seconds
        left = longest
        while left > 0.0:
            left = max(0.0, min(end, self._at) - time.monotonic())
            yield min(left, longest)

    def check(self) -> None:
        """Raise TimeoutError once the deadline has passed."""
        if time.monotonic() >= self._at:
            raise TimeoutError("the run is to end")


def close_quietly(client: Any, **options: Any) -> None:
    """Close a client, if there is one, whatever the brokers say."""
    if client is not None:
        with contextlib.suppress(errors.KafkaError):
            client.close(**options)


def _close(clients: list[Any]) -> None:
    while clients:
        clients.pop().close()
