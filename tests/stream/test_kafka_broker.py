"""The broker that the tests use: it starts, says what is missing, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tools.kafka import BrokerUnavailable, MockCluster, RealCluster, RunningCluster, maven, start_cluster

pytestmark = pytest.mark.kafka

_ROOT = Path(maven.__file__).resolve().parent.parent.parent
_HOLDER = """
import sys, time
from tools.kafka import RealCluster
cluster = RealCluster()
print(cluster.pids[0], cluster._folder, flush=True)
time.sleep(100)
"""


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_broker_outlives_the_program_that_started_it(real_kafka, number):
    holder = subprocess.Popen([sys.executable, "-c", _HOLDER], cwd=_ROOT, stdout=subprocess.PIPE, text=True)
    pid, folder = holder.stdout.readline().split()
    assert is_alive(int(pid))
    holder.send_signal(number)
    holder.communicate()
    deadline = time.monotonic() + 15
    while is_alive(int(pid)) or Path(folder).exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
def test_three_nodes_share_topics_and_survive_the_loss_of_one(real_kafka):
    from kafka import KafkaProducer

    with RealCluster(3) as cluster:
        cluster.create_topic("t", 3)
        cluster.kill_node(1)
        assert cluster.pids[1] is None
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap.split(","), acks="all")
        offsets = [producer.send("t", b"x", partition=partition).get(30).offset for partition in range(3)]
        producer.close(timeout=5)
        folder, pids = cluster._folder, [pid for pid in cluster.pids if pid]
    assert offsets == [0, 0, 0]
    assert len(pids) == 2
    assert not any(map(is_alive, pids))
    assert not folder.exists()


@pytest.mark.slow
@pytest.mark.parametrize(("options", "said"), [([], "Apache Kafka"), (["--mock"], "mock, not Kafka")])
def test_the_command_prints_the_address_and_ends_with_ctrl_c(request, options, said):
    if not options:
        request.getfixturevalue("real_kafka")
    command = [sys.executable, "-m", "tools.kafka", "up", "--topic", "clicks:2", *options]
    process = subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    address = process.stdout.readline().strip()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    host, _, port = address.partition(":")
    assert host == "127.0.0.1"
    assert port.isdecimal()
    assert process.returncode == 0
    assert said in errors
    assert errors.endswith("stopped\n")


@pytest.mark.parametrize("missing", ["java", "mvn"])
def test_what_is_missing_is_named_at_once(tmp_path, monkeypatch, missing):
    for name in {"java", "mvn"} - {missing}:
        (tmp_path / name).write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(BrokerUnavailable, match=f"no `{missing}` on the PATH"):
        RealCluster()


def test_an_old_java_is_named(tmp_path, monkeypatch):
    (tmp_path / "java").write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    (tmp_path / "java").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(BrokerUnavailable, match=r"Java 17 or later, and .*java is 11\.0\.2"):
        RealCluster()


def test_a_maven_that_fails_or_hangs_is_reported_and_leaves_no_process(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    fake = tmp_path / "mvn"
    fake.write_text("#!/bin/sh\necho '[ERROR] Connection refused'; exit 1\n")
    fake.chmod(0o755)
    with pytest.raises(BrokerUnavailable, match=r"could not fetch Kafka .*Connection refused"):
        maven.classpath()

    fake.write_text(f"#!/bin/sh\nsleep 60 & echo $! >> {tmp_path}/pids; wait\n")
    with pytest.raises(BrokerUnavailable, match="after 1 s"):
        maven.classpath(timeout=1)
    deadline = time.monotonic() + 10
    for pid in map(int, (tmp_path / "pids").read_text().split()):
        while is_alive(pid) and Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z":
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_a_classpath_is_looked_up_once(tmp_path, monkeypatch):
    jar = tmp_path / "broker.jar"
    jar.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    fake = tmp_path / "mvn"
    fake.write_text(
        f"#!/bin/sh\necho >> {tmp_path}/calls\n"
        f'for a in "$@"; do case $a in -Dmdep.outputFile=*) echo {jar} > "${{a#*=}}";; esac; done\n'
    )
    fake.chmod(0o755)

    assert maven.classpath() == maven.classpath() == str(jar)
    assert len((tmp_path / "calls").read_text()) == 1
    jar.unlink()
    maven.classpath()
    assert len((tmp_path / "calls").read_text()) == 2


def test_the_environment_chooses_the_cluster(monkeypatch):
    monkeypatch.setenv("FWONLINE_KAFKA", "127.0.0.1:9")
    with start_cluster() as cluster:
        assert isinstance(cluster, RunningCluster)
        assert (cluster.bootstrap, cluster.description) == ("127.0.0.1:9", "the Kafka that runs at 127.0.0.1:9")

    monkeypatch.setenv("FWONLINE_KAFKA", "mock")
    with start_cluster() as cluster:
        assert isinstance(cluster, MockCluster)
        assert cluster.is_mock
        assert "mock" in repr(cluster)

    monkeypatch.setattr("tools.kafka.broker._java", lambda: (_ for _ in ()).throw(BrokerUnavailable("no java")))
    monkeypatch.setenv("FWONLINE_KAFKA", "real")
    with pytest.raises(BrokerUnavailable, match="no java"):
        start_cluster()

    monkeypatch.delenv("FWONLINE_KAFKA")
    with start_cluster() as cluster:
        assert cluster.is_mock
        assert "because no real Kafka can be had: no java" in cluster.description
