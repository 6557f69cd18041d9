"""Where the broker's jars are: Maven resolves and fetches them once, and the classpath is kept in the user's cache."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tools.kafka.cluster import BrokerUnavailable

__all__ = ["KAFKA_VERSION", "classpath"]

KAFKA_VERSION = "4.2.0"
# Kafka logs through slf4j 1.7, so the log4j binding is the one for slf4j 1, not log4j-slf4j2-impl.
_LOG4J_VERSION = "2.25.3"
_ARTIFACTS = (
    ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", _LOG4J_VERSION),
    ("org.apache.logging.log4j", "log4j-core", _LOG4J_VERSION),
)
_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:build-classpath"
# A repository that does not respond is reported within seconds; a slow one may take its time. Maven 3.8 and
# before listen to the wagon's names, Maven 3.9 and later to the resolver's.
_IMPATIENT = (
    "-Dmaven.wagon.http.connectionTimeout=5000",
    "-Dmaven.wagon.rto=20000",
    "-Dmaven.wagon.http.retryHandler.count=0",
    "-Daether.connector.connectTimeout=5000",
    "-Daether.connector.requestTimeout=20000",
    "-Daether.connector.http.retryHandler.count=0",
)


def classpath(timeout: float = 300.0) -> str:
    """Return the classpath of an Apache Kafka broker, fetching it on the first call.

    Raises
    ------
    BrokerUnavailable
        Within seconds when `mvn` is missing or its repository cannot be reached, and after `timeout` seconds when the
        download goes on for so long.
    """
    digest = hashlib.sha256(repr((_ARTIFACTS, _GOAL)).encode()).hexdigest()[:12]
    folder = _cache_folder() / f"kafka-{KAFKA_VERSION}-{digest}"
    kept = folder / "classpath"
    with _locked(folder):
        if kept.is_file():
            paths = kept.read_text()
            if paths and all(os.path.isfile(path) for path in paths.split(os.pathsep)):
                return paths
        paths = _resolve(timeout)
        fresh = kept.with_suffix(".new")
        fresh.write_text(paths)
        fresh.replace(kept)
    return paths


def _cache_folder() -> Path:
    # The specification of XDG_CACHE_HOME says that a relative path is to be ignored.
    root = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (root if root.is_absolute() else Path.home() / ".cache") / "fwonline"


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process at a time fill `folder`, so that parallel test workers do not fetch the same jars."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:  # no such locks on Windows; the worst that follows is work done twice
        yield
        return
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _resolve(timeout: float) -> str:
    mvn = shutil.which("mvn")
    if mvn is None:
        raise BrokerUnavailable("Maven 3.8 or later fetches the broker, and there is no `mvn` on the PATH")
    with tempfile.TemporaryDirectory(prefix="fwonline-maven-") as folder:
        pom, answer = Path(folder, "pom.xml"), Path(folder, "classpath")
        pom.write_text(_pom())
        command = [
            mvn,
            "-B",
            "-q",
            "-Dstyle.color=never",
            "-f",
            str(pom),
            _GOAL,
            f"-Dmdep.outputFile={answer}",
            "-Dmdep.includeScope=runtime",
        ]
        # What an earlier build left in the local repository needs no network, and -o says so at once.
        status, output = _run([*command, "-o"], min(timeout, 60.0))
        if status != 0 or not answer.is_file():
            # -U: a failed look-up of the past must not stand for the present.
            status, output = _run([*command, "-U", *_IMPATIENT], timeout)
        if status is None:
            raise BrokerUnavailable(f"Maven had not fetched Kafka {KAFKA_VERSION} after {timeout:.0f} s")
        if status != 0 or not answer.is_file():
            error = next((line for line in output.splitlines() if "ERROR" in line), output.strip()[-300:])
            error = error.removeprefix("[ERROR] ").removesuffix(" -> [Help 1]")
            raise BrokerUnavailable(
                f"Maven could not fetch Kafka {KAFKA_VERSION} (is its repository in reach?): {error}"
            )
        return answer.read_text().strip()


def _run(command: list[str], timeout: float) -> tuple[int | None, str]:
    """Run a command in a process group of its own, so that a time limit ends the JVM that `mvn` started as well."""
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=timeout)
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                return None, ""
            raise
    return process.returncode, output


def _pom() -> str:
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>"
        for group, artifact, version in _ARTIFACTS
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>fwonline</groupId><artifactId>broker</artifactId><version>0</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
