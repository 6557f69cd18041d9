"""Real Apache Kafka: one KRaft node, or three, on the loopback interface, for as long as a `with` block lasts."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tools.kafka import maven
from tools.kafka.cluster import BrokerUnavailable, Cluster

__all__ = ["RealCluster"]

_HOST = "127.0.0.1"
_GRACE = 10.0  # seconds a node has after SIGTERM
_BROKER_SESSION = 1.5  # seconds after which the controller does without a broker that says nothing
_QUORUM_FETCH = 2.0  # and the controllers without one that leads them
_STARTS = 3  # a free port may be taken by another program before it is used
_LOGGING = """\
rootLogger.level = WARN
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n
"""


class RealCluster(Cluster):
    """Apache Kafka from Maven's artifacts.

    Parameters
    ----------
    nodes
        1, or 3, each of them broker and controller.
    users
        Names and passwords. With any, each node has a second listener that speaks SASL_PLAINTEXT with the PLAIN
        mechanism, at `secured`.
    heap
        Megabytes of heap for each node.
    timeout
        Seconds from the start until every node must answer.

    Raises
    ------
    BrokerUnavailable
        When Java 17 or Maven is missing, when the artifacts cannot be had, or when the nodes do not come up.
    """

    is_mock = False

    def __init__(
        self,
        nodes: int = 1,
        *,
        users: Mapping[str, str] = MappingProxyType({}),
        heap: int = 256,
        timeout: float = 90.0,
    ) -> None:
        if nodes not in (1, 3):
            raise ValueError(f"nodes must be 1 or 3, got {nodes}")
        self._java = _java()
        self._classpath = maven.classpath()
        self._users = dict(users)
        self._heap = heap
        self.nodes = nodes
        self.version = maven.KAFKA_VERSION
        self.description = f"Apache Kafka {self.version} ({nodes} {'node' if nodes == 1 else 'nodes'})"
        for attempt in range(1, _STARTS + 1):
            self._folder = Path(tempfile.mkdtemp(prefix="fwonline-kafka-"))
            self._processes: list[subprocess.Popen | None] = [None] * nodes
            self.pids: list[int | None] = [None] * nodes
            try:
                self._configure()
                for node in range(nodes):
                    self.start_node(node)
                self.wait_until_ready(timeout)
            except BaseException as error:
                log = "".join(self.log(node) for node in range(nodes))
                self.stop()
                if isinstance(error, BrokerUnavailable) and "Address already in use" in log and attempt < _STARTS:
                    continue
                raise
            return

    def _configure(self) -> None:
        """Choose ports and write each node's folder: its configuration and its formatted storage."""
        ports = _free_ports(3 * self.nodes)
        plain, secured, controller = (ports[kind::3] for kind in range(3))
        self.bootstrap = ",".join(f"{_HOST}:{port}" for port in plain)
        self.secured = ",".join(f"{_HOST}:{port}" for port in secured) if self._users else None
        voters = ",".join(f"{node + 1}@{_HOST}:{port}" for node, port in enumerate(controller))
        cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A", 1)
        (self._folder / "log4j2.properties").write_text(_LOGGING)
        formatting = []
        for node in range(self.nodes):
            home = self._home(node)
            home.mkdir()
            settings = self._settings(node, plain[node], secured[node], controller[node], voters)
            config = home / "server.properties"
            config.write_text("".join(f"{name}={_quoted(str(value))}\n" for name, value in settings.items()))
            config.chmod(0o600)  # it holds the users' passwords
            command = self._command("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(config))
            formatting.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        for process in formatting:
            output, _ = process.communicate()
            if process.returncode != 0:
                raise BrokerUnavailable(f"Kafka's storage could not be formatted: {output.strip()[-500:]}")

    def _settings(self, node: int, plain: int, secured: int, controller: int, voters: str) -> dict[str, Any]:
        copies, in_sync = (1, 1) if self.nodes == 1 else (3, 2)
        listeners = {"PLAINTEXT": plain, "CONTROLLER": controller}
        settings: dict[str, Any] = {}
        if self._users:
            listeners["SASL_PLAINTEXT"] = secured
            known = " ".join(f'user_{name}="{_quoted(password)}"' for name, password in self._users.items())
            settings = {
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
                    f"org.apache.kafka.common.security.plain.PlainLoginModule required {known};"
                ),
            }
        return settings | {
            "process.roles": "broker,controller",
            "node.id": node + 1,
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join(f"{name}://{_HOST}:{port}" for name, port in listeners.items()),
            "advertised.listeners": ",".join(
                f"{name}://{_HOST}:{port}" for name, port in listeners.items() if name != "CONTROLLER"
            ),
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
            ),
            "log.dirs": self._home(node) / "data",
            "default.replication.factor": copies,
            "min.insync.replicas": in_sync,
            "offsets.topic.replication.factor": copies,
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": in_sync,
            "transaction.state.log.num.partitions": 4,
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": in_sync,
            # A test waits for none of the delays that keep a large cluster calm.
            "group.initial.rebalance.delay.ms": 0,
            "group.min.session.timeout.ms": 500,
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
            "controlled.shutdown.retry.backoff.ms": 500,
            # After a crash a node can come back when the controller has given up the one that was.
            "broker.heartbeat.interval.ms": 300,
            "broker.session.timeout.ms": int(1000 * _BROKER_SESSION),
            "controller.quorum.fetch.timeout.ms": int(1000 * _QUORUM_FETCH),
            # Messages may bear any time: those of long ago are not to be deleted half a minute after the start.
            "log.retention.ms": -1,
            "log.cleaner.dedupe.buffer.size": 4194304,
            "num.network.threads": 2,
            "num.io.threads": 2,
            "background.threads": 2,
            # A topic that a program misspells must be an error that its tests can see.
            "auto.create.topics.enable": "false",
        }

    def _home(self, node: int) -> Path:
        return self._folder / f"node-{node}"

    def _command(self, main: str, *arguments: str) -> list[str]:
        return [
            self._java,
            f"-Xmx{self._heap}m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",  # a broker that lives for a minute gains nothing from the optimising compiler
            f"-Dlog4j2.configurationFile={self._folder / 'log4j2.properties'}",
            "-cp",
            self._classpath,
            main,
            *arguments,
        ]

    def start_node(self, node: int) -> None:
        """Start a node that is not running, on the data it had."""
        watchdog = Path(__file__).with_name("watchdog.py")
        command = self._command("kafka.Kafka", str(self._home(node) / "server.properties"))
        with open(self._home(node) / "log", "ab") as log:
            process = subprocess.Popen(
                [sys.executable, str(watchdog), str(self._folder), str(_GRACE), *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        assert process.stdout is not None
        self.pids[node] = int(process.stdout.readline())
        self._processes[node] = process

    def stop_node(self, node: int) -> None:
        """End a node in good order: SIGTERM, and SIGKILL when that is not enough. A node that is down stays down."""
        self._ask_to_end(node)
        self._wait_for_end(node)

    def kill_node(self, node: int) -> None:
        """End a node as a crash would, with SIGKILL."""
        pid = self.pids[node]
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            self._wait_for_end(node)

    def _ask_to_end(self, node: int) -> None:
        process = self._processes[node]
        if process is not None and process.stdin is not None and not process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):  # it has ended by itself
                process.stdin.write(b"stop\n")
                process.stdin.close()

    def _wait_for_end(self, node: int) -> None:
        process = self._processes[node]
        if process is None:
            return
        process.wait(_GRACE + 5.0)
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()
        self._processes[node] = self.pids[node] = None

    def seconds_to_miss(self, node: int) -> float:
        """Return how long the others wait, by these settings, before they do without a node that has died.

        The one that leads the controllers is missed by these first; then its successor begins to miss the broker.
        """
        with contextlib.closing(self.admin()) as admin:
            (topic,) = admin.describe_metadata_quorum()["topics"]
        leads = topic["partitions"][0]["leader_id"] == node + 1
        return _BROKER_SESSION + (_QUORUM_FETCH if leads else 0.0)

    def log(self, node: int) -> str:
        """Return what a node wrote about its life (warnings and errors)."""
        with contextlib.suppress(FileNotFoundError):
            return (self._home(node) / "log").read_text(errors="replace")
        return ""

    def wait_until_ready(self, timeout: float = 90.0) -> None:
        """Return when every node is known to the others and accepts connections."""
        from kafka.errors import KafkaError

        deadline = time.monotonic() + timeout
        waiting_for = self.bootstrap.split(",")
        while True:
            for node, process in enumerate(self._processes):
                if process is not None and process.poll() is not None:
                    raise BrokerUnavailable(f"Kafka ended while it started: {self.log(node).strip()[-1000:]}")
            # kafka-python backs off from a port that refuses, so it is asked once all ports are open.
            waiting_for = [address for address in waiting_for if not _is_listening(address)]
            if not waiting_for:
                with (
                    contextlib.suppress(KafkaError),
                    contextlib.closing(self.admin()) as admin,
                ):
                    if len(admin.describe_cluster()["brokers"]) == self.nodes:
                        return
            if time.monotonic() > deadline:
                raise BrokerUnavailable(
                    f"{self.description} was not ready after {timeout:.0f} s: {self.log(0)[-1000:]}"
                )
            time.sleep(0.05)

    def stop(self) -> None:
        """End every node and remove what they stored. May be called twice."""
        for node in range(self.nodes):
            self._ask_to_end(node)
        for node in range(self.nodes):
            self._wait_for_end(node)
        shutil.rmtree(self._folder, ignore_errors=True)


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(home, "bin")) if home else shutil.which("java")
    if java is None:
        raise BrokerUnavailable("Apache Kafka 4 runs on Java 17 or later, and there is no `java` on the PATH")
    output = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    version = output.partition('version "')[2].partition('"')[0]
    if not version.split(".")[0].isdigit() or int(version.split(".")[0]) < 17:
        raise BrokerUnavailable(
            f"Apache Kafka 4 runs on Java 17 or later, and {java} is {version or 'of unknown version'}"
        )
    return java


def _free_ports(count: int) -> list[int]:
    """Return free ports, all different because they are held together."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((_HOST, 0))
        return [one.getsockname()[1] for one in sockets]


def _is_listening(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1.0).close()
    except OSError:
        return False
    return True


def _quoted(text: str) -> str:
    """Write text so that it stands for itself, in a properties file as in a JAAS string."""
    return text.replace("\\", "\\\\").replace('"', '\\"')
