"""What the source and the sinks share: addresses, client settings with their secrets, a connection within a time."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from fwonline.exceptions import SourceError
from fwonline.stream.kafka.compat import net_client
from fwonline.stream.records import listed

__all__ = ["ClientSettings", "Deadline", "addresses", "connect", "kafka_python", "wait_for"]

# One attempt to connect is no longer than this, so that a stream that is asked to end while it waits for a broker ends
# soon.
_ATTEMPT = 2.0
_SECRET_WORDS = ("password", "secret", "token")
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_NO_PROTOCOL = f"client: expected a security_protocol among {listed(_PROTOCOLS)}"
# Given to every client, unless the user's settings say otherwise: a broker that comes back is met within a second (30 s
# by default).
_DEFAULTS = {"reconnect_backoff_max_ms": 1000}
# What the source and the sinks decide themselves.
_OURS = frozenset(
    {
        "acks",
        "auto_offset_reset",
        "bootstrap_servers",
        "bootstrap_timeout_ms",
        "consumer_timeout_ms",
        "enable_auto_commit",
        "group_id",
        "kafka_client",
        "key_deserializer",
        "key_serializer",
        "transactional_id",
        "value_deserializer",
        "value_serializer",
    }
)


def kafka_python() -> Any:
    """Return the module `kafka`.

    Raises
    ------
    SourceError
        When kafka-python is not installed.

    """
    try:
        import kafka
    except ImportError as error:
        raise SourceError('Kafka needs kafka-python: pip install "fwonline[kafka]"') from error
    return kafka


def addresses(bootstrap_servers: str | Sequence[str]) -> list[str]:
    """Return `host:port` for each server of a list or of a text with commas.

    Raises
    ------
    ValueError
        When one of them is something else.

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


class ClientSettings:
    """Settings passed on to kafka-python's client. They are shown by name alone, since some are secret.

    A value `{"env": "NAME"}` is read from the environment variable NAME at each connection, and kept nowhere.

    Parameters
    ----------
    settings
        kafka-python's own names to values.
    known
        The names its client takes.

    Raises
    ------
    ValueError
        When a name is unknown, or is one that the source or sink decides itself.

    """

    def __init__(self, settings: Mapping[str, Any] | None, known: Mapping[str, Any]) -> None:
        self._settings = dict(settings or {})
        for name in self._settings:
            if name in _OURS:
                raise ValueError(f"client: {name!r} is not set here: it follows from the other parameters")
            if name not in known:
                raise ValueError(
                    f"client: kafka-python has no setting {name!r}; it has {listed(sorted(known.keys() - _OURS), 200)}"
                )
        protocol = self._settings.get("security_protocol", _PROTOCOLS[0])
        if isinstance(protocol, str) and protocol not in _PROTOCOLS:
            # kafka-python takes any other word for PLAINTEXT
            raise ValueError(f"{_NO_PROTOCOL}, found {protocol!r}")

    def __repr__(self) -> str:
        return f"<{', '.join(self._settings)}>"

    @property
    def given(self) -> dict[str, Any]:
        """The settings as they were given, for another client of the same user."""
        return dict(self._settings)

    def resolved(self) -> dict[str, Any]:
        """Return the settings with what the environment holds.

        Raises
        ------
        SourceError
            When an environment variable is not set, or no security_protocol is in it.

        """
        resolved = {name: _from_environment(name, value) for name, value in self._settings.items()}
        if resolved.get("security_protocol", _PROTOCOLS[0]) not in _PROTOCOLS:
            raise SourceError(f"{_NO_PROTOCOL} in the environment")
        return resolved

    @property
    def hint(self) -> str:
        """What to look at when a connection breaks without a reason given."""
        # Kafka answers a wrong password late, and often kafka-python sees no more of it than the closed connection.
        return "; a wrong user or password can look like this" if "sasl_mechanism" in self._settings else ""

    def hide(self, text: object) -> str:
        """Return `text` without the secrets that stand in it."""
        shown = str(text)
        for name, value in self._settings.items():
            is_reference = isinstance(value, Mapping)
            if is_reference or any(word in name for word in _SECRET_WORDS):
                secret = os.environ.get(value.get("env", ""), "") if is_reference else value
                if isinstance(secret, str) and secret:
                    shown = shown.replace(secret, "***")
        return shown


class Deadline:
    """How long a client waits for brokers, until somebody is in a hurry."""

    def __init__(self) -> None:
        self._until = math.inf

    def set(self, seconds: float) -> None:
        """Wait no longer than so many seconds from now, whatever for; `math.inf` ends the hurry."""
        self._until = time.monotonic() + seconds

    def timeouts(self, seconds: float, longest: float) -> Iterator[float]:
        """Yield how long to wait next, `longest` at the most, until `seconds` are over or the hurry's end is there.

        Once at least: what needs no time has it.
        """
        end = time.monotonic() + seconds
        left = longest
        while left > 0.0:
            left = max(0.0, min(end, self._until) - time.monotonic())
            yield min(left, longest)

    def check(self) -> None:
        """Raise TimeoutError when the hurry's end is there."""
        if time.monotonic() >= self._until:
            raise TimeoutError("the run is to end")


def _from_environment(name: str, value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    if set(value) != {"env"} or not isinstance(value["env"], str):
        raise SourceError(f'client.{name}: expected a value or {{env = "NAME"}}')
    try:
        return os.environ[value["env"]]
    except KeyError:
        raise SourceError(f"client.{name}: the environment variable {value['env']} is not set") from None


def connect(
    kind: Callable[..., Any],
    options: Mapping[str, Any],
    settings: ClientSettings,
    *,
    seconds: float,
    keep_on: Callable[[], None] = lambda: None,
    defaults: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[Any, Any]:
    """Return a kafka-python client and what it knows of the cluster (its `ClusterMetadata`), at least one broker.

    Parameters
    ----------
    kind
        `KafkaConsumer` or `KafkaProducer`.
    options
        What the caller decides, `bootstrap_servers` among them.
    settings
        What the user adds.
    seconds
        How long to try.
    keep_on
        Called many times a second while waiting; what it raises ends the attempt.
    defaults
        What the caller decides unless the user does.

    Raises
    ------
    TimeoutError
        When no broker answered in time; the message says what was in the way.
    SourceError
        At once, when the broker refuses who asks, or the settings cannot be used.

    """
    from kafka.errors import AuthorizationError, KafkaConfigurationError, KafkaError, SaslAuthenticationFailedError

    started: list[Any] = []

    def start(**config: Any) -> Any:
        started.append(net_client()(**config))
        return started[-1]

    servers = ",".join(options["bootstrap_servers"])
    deadline = time.monotonic() + seconds
    with _troubles() as troubles:
        while True:
            attempt_ms = 1000 * max(0.1, min(_ATTEMPT, deadline - time.monotonic()))
            try:
                config = {**_DEFAULTS, **defaults, **settings.resolved(), **options}
                client = kind(**config, bootstrap_timeout_ms=attempt_ms, kafka_client=start)
                cluster = started[-1].cluster
                # A client that was told the broker's version (`api_version`) has not asked anybody yet.
                if wait_for(cluster.request_update(), cluster.brokers, deadline, keep_on):
                    return client, cluster
            except KafkaConfigurationError as error:
                _close(started)
                raise SourceError(f"{servers}: {settings.hide(error)}") from None
            except KafkaError as error:
                troubles.append(error)
            except BaseException:
                # A client that was not finished holds a thread and sockets that nobody else can close.
                _close(started)
                raise
            _close(started)
            for trouble in troubles:
                if isinstance(trouble, (SaslAuthenticationFailedError, AuthorizationError)):
                    # Asking again would change nothing but lock the account.
                    raise SourceError(f"{servers} refuses this client: {settings.hide(trouble)}")
            keep_on()
            if time.monotonic() >= deadline:
                why = f" ({settings.hide(troubles[0])}{settings.hint})" if troubles else ""
                raise TimeoutError(f"no answer from {servers} in {seconds:g} s{why}")


def wait_for(future: Any, answer: Callable[[], Any], deadline: float, keep_on: Callable[[], None]) -> Any:
    """Return `answer()` when it says something or `future` is done, or what it says at the deadline.

    kafka-python has a call that waits for the same, and it can wait for ever.
    """
    while not (said := answer()) and not future.is_done and time.monotonic() < deadline:
        keep_on()
        time.sleep(0.005)
    return said or answer()


def _close(clients: list[Any]) -> None:
    for client in clients:
        client.close()
    clients.clear()


@contextlib.contextmanager
def _troubles() -> Iterator[list[Exception]]:
    """Collect why connections fail, in order.

    kafka-python keeps trying and in the end says only that time is up; that the password is wrong or the port closed it
    tells its log alone.
    """
    found: list[Exception] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if isinstance(record.args, tuple):
                found.extend(argument for argument in record.args if isinstance(argument, Exception))

    logger = logging.getLogger("kafka.net")
    listener = Listener(logging.WARNING)
    logger.addHandler(listener)
    try:
        yield found
    finally:
        logger.removeHandler(listener)
