"""A definition from a stranger: where it may write, what it may read from the environment, what it must not hold."""

from __future__ import annotations

import ast
import importlib
import os
from pathlib import Path

import pytest

from fwonline.definition import classes, load_definition, read_definition
from fwonline.definition.permissions import Permissions, hidden
from fwonline.exceptions import DefinitionError

RUN = 'source = "Phishing"\nmodel = ["StandardScaler", "LogisticRegression"]\n'
KAFKA = 'model = "LinearRegression"\nsource = { class = "KafkaSource", topics = "t", %s }\n'


@pytest.fixture
def load(tmp_path):
    def write_and_load(text, **allowed):
        (tmp_path / "stream.toml").write_text(text)
        return load_definition(tmp_path / "stream.toml", **allowed)

    return write_and_load


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    return folder


def close(loop):
    for sink in loop.outputs:
        sink.close()


# -- files


@pytest.mark.parametrize(
    "path",
    [
        "../out.jsonl",
        "inside/../../out.jsonl",
        "{tmp}/out.jsonl",
        "~/out.jsonl",
        "link/out.jsonl",
        "file-link",
        "/dev/stdout",
        "{tmp}/run-2/out.jsonl",
    ],
)
@pytest.mark.parametrize("part", ["sink", "dead letter"])
def test_what_is_outside_the_runs_folder_is_not_written(load, run, tmp_path, monkeypatch, path, part):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "run-2").mkdir()
    (run / "inside").mkdir()
    (run / "link").symlink_to(tmp_path)
    (run / "file-link").symlink_to(tmp_path / "out.jsonl")
    path = path.replace("{tmp}", str(tmp_path))
    sink = f'sinks = [{{ class = "JSONLinesSink", path = "{path}" }}]'
    text = RUN + (sink if part == "sink" else f'run = {{ dead_letter = "{path}" }}')
    there = sorted(tmp_path.rglob("*"))
    with pytest.raises(DefinitionError, match=r"toml:3: .*: '.*' is outside the run's folder .* --allow-write DIR"):
        load(text).build(run)
    assert sorted(path for path in tmp_path.rglob("*") if path.name != "stream.toml") == there
    if not path.startswith("/dev"):
        close(load(text, allow_write=[tmp_path]).build(run))
        assert len(sorted(tmp_path.rglob("*"))) == len(there) + 2


def test_a_file_may_be_allowed_alone_and_paths_inside_go_anywhere_inside(load, run, tmp_path):
    (run / "deep").mkdir()
    (run / "link").symlink_to(run / "deep")
    inside = ["out.jsonl", "deep/../other.jsonl", "link/third.jsonl", "-", str(run / "fourth.jsonl")]
    sinks = ", ".join(f'{{ class = "JSONLinesSink", path = "{path}" }}' for path in [*inside, "../one.jsonl"])
    definition = load(f"{RUN}sinks = [{sinks}]", allow_write=[tmp_path / "one.jsonl"])
    close(definition.build(run))
    assert (tmp_path / "one.jsonl").exists()
    assert (run / "deep" / "third.jsonl").exists()
    assert (run / "-").exists()
    with pytest.raises(DefinitionError, match="outside the run's folder"):
        load(f"{RUN}sinks = [{sinks.replace('one.', 'two.')}]", allow_write=[tmp_path / "one.jsonl"]).build(run)


@pytest.mark.parametrize(
    "name", ["definition.toml", "log.jsonl", "summary.json", ".lock", "checkpoint", "checkpoint.previous", "LOG.jsonl"]
)
def test_the_runs_own_files_are_not_for_sinks(load, run, name):
    definition = load(f'{RUN}sinks = [{{ class = "JSONLinesSink", path = "{name}" }}]')
    with pytest.raises(DefinitionError, match=r"sinks\[0\].path: .* is a name that the run keeps for a file"):
        definition.build(run)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("1", "expected a string, found 1"),  # an open file of the process
        ("true", "expected a string, found true"),
        ('["out.jsonl"]', "expected a string, found a list"),
        ('{ a = "b" }', "expected a string, found a table"),
        (r'"a\u0000b"', "not a path: .*embedded null"),
        ('"loop/a"', "not a path|is outside the run's folder|Too many levels"),
        ('"~nobody-of-that-name/a"', "home directory"),
    ],
)
def test_what_is_no_path_is_told(load, run, path, said):
    (run / "loop").symlink_to(run / "loop")
    with pytest.raises(DefinitionError, match=rf"stream.toml:3: sinks\[0\].*{said}"):
        load(f'{RUN}sinks = [{{ class = "JSONLinesSink", path = {path} }}]').build(run)
    assert [entry.name for entry in run.iterdir()] == ["loop"]


def test_a_source_reads_a_path_and_nothing_else(load):
    with pytest.raises(DefinitionError, match=r"source.path: expected a string, found 0"):
        load('model = "LinearRegression"\nsource = { class = "CSVSource", path = 0, target = "y" }')


def test_states_of_a_group_stay_inside_too(load, run, tmp_path):
    pytest.importorskip("kafka")
    text = 'model = ["StandardScaler", { class = "FWClassifier", constraint = { class = "L1Ball", radius = 5.0 } }]\n'
    text += 'source = { class = "KafkaGroupSource", topics = "t", group = "g", target = "y" }\n[group]\nstates = "%s"\n'
    folder = tmp_path / "shared"
    for states in ("../shared", str(folder)):
        with pytest.raises(DefinitionError, match=r"stream.toml:4: group.states: .* is outside the run's folder"):
            load(text % states).build_worker(run / "worker-1", shared=run)
        worker = load(text % states, allow_write=[folder]).build_worker(run / "worker-1", shared=run)
        assert worker.states.path.resolve() == folder


# -- the environment


@pytest.fixture
def secret(monkeypatch):
    pytest.importorskip("kafka")
    monkeypatch.setenv("SECRET", "hunter2")
    monkeypatch.setenv("HOST", "broker.example:9092")
    monkeypatch.delenv("KAFKA", raising=False)


@pytest.mark.usefixtures("secret")
def test_a_secret_is_read_under_client_and_kept_as_a_reference(load):
    source = load(KAFKA % 'client = { sasl_plain_password = "${SECRET}", client_id = "a-${HOST}" }').build().source
    assert source.client.settings == {"sasl_plain_password": {"env": "SECRET"}, "client_id": "a-broker.example:9092"}
    assert source.client.resolved()["sasl_plain_password"] == "hunter2"
    assert source.client.hide("it is hunter2") == "it is ***"


@pytest.mark.usefixtures("secret")
@pytest.mark.parametrize("allowed", [[], ["SECRET"]])
@pytest.mark.parametrize(
    "where",
    [
        'name = "${SECRET}"',
        'group = "g-${SECRET}"',
        'target = "${SECRET}"',
        'drop = ["${SECRET:-x}"]',
        'features = ["a", "${SECRET}"]',
    ],
)
def test_what_is_written_to_the_runs_files_takes_nothing_from_the_environment(load, where, allowed):
    with pytest.raises(DefinitionError, match=r"the environment is filled in only under `client`") as caught:
        load(KAFKA % where, allow_env=allowed)
    assert "hunter2" not in str(caught.value)
    with pytest.raises(DefinitionError, match=r"source.topics.*the environment is filled in only under `client`"):
        load('model = "LinearRegression"\nsource = { class = "KafkaSource", topics = ["${SECRET}"] }')


@pytest.mark.usefixtures("secret")
def test_other_variables_are_read_when_they_are_allowed(load, monkeypatch):
    text = KAFKA % 'bootstrap_servers = "${HOST}"' + 'sinks = [{ class = "KafkaSink", topic = "out-${SECRET}" }]'
    with pytest.raises(DefinitionError) as caught:
        load(text)
    first, second = str(caught.value).split("\n")
    assert "source.bootstrap_servers: the environment variable 'HOST' is read only when" in first
    assert "sinks[0].topic: the environment variable 'SECRET' is read only when" in second
    assert "--allow-env SECRET" in second
    assert "hunter2" not in str(caught.value)
    loop = load(text, allow_env=["HOST", "SECRET"]).build()
    assert loop.source.bootstrap_servers == ["broker.example:9092"]
    assert loop.sinks[0].topic == "out-hunter2"

    text = KAFKA % 'bootstrap_servers = "${KAFKA:-localhost:1}"'  # as in this project's own definitions
    assert load(text).build().source.bootstrap_servers == ["localhost:1"]
    monkeypatch.setenv("KAFKA", "localhost:2")
    assert load(text).build().source.bootstrap_servers == ["localhost:2"]
    # What is not set gives its default, whoever asks.
    assert load(KAFKA % 'bootstrap_servers = "${NOWHERE:-localhost:3}"').build().source.bootstrap_servers == [
        "localhost:3"
    ]


@pytest.mark.usefixtures("secret")
@pytest.mark.parametrize(
    "setting",
    [
        'sasl_plain_password = "correct horse"',
        'sasl_plain_password = "${SECRET:-correct horse}"',
        'sasl_plain_password = "${SECRET}correct horse"',
        'ssl_password = "correct horse"',
        "ssl_password = 112358",
        'ssl_password = ["correct horse"]',
        'ssl_password = { value = "correct horse" }',
        'socks5_proxy = "socks5://me:correct-horse@proxy:1"',
    ],
)
def test_a_password_that_is_written_out_is_refused_and_not_shown(load, setting):
    with pytest.raises(DefinitionError, match=r"source.client.*: a secret is not written in a def") as caught:
        load(KAFKA % f"client = {{ {setting} }}")
    assert "horse" not in str(caught.value)
    assert "112358" not in str(caught.value)


def test_a_password_that_an_older_run_was_given_is_not_shown(tmp_path):
    definitions = []
    for password in ("correct horse", "${PASSWORD}"):
        (tmp_path / "a.toml").write_text(KAFKA % f'client = {{ sasl_plain_password = "{password}" }}')
        definitions.append(read_definition(tmp_path / "a.toml"))
    assert definitions[0].differences(definitions[1]) == [
        "source.client.sasl_plain_password: *** before, '${PASSWORD}' now"
    ]
    assert "horse" not in repr(definitions[0])


def test_what_the_environment_gave_is_hidden_under_its_name(monkeypatch):
    for name, value in (("A", "long value"), ("B", "long"), ("C", "")):
        monkeypatch.setenv(name, value)
    values = {"client": {"x": {"env": "B"}}, "list": ["${A}", "${C}", "${D:-long}"]}
    assert hidden("a long value, a long one", values) == "a ${A}, a ${B} one"


def test_one_place_or_several_are_allowed(tmp_path):
    one = Permissions.of(tmp_path, "A")
    assert one == Permissions.of([str(tmp_path)], ["A"])
    assert one.obstacle(tmp_path / "x", tmp_path / "run") == ""
    assert one.may_read("A")
    assert not one.may_read("B")
    assert Permissions().obstacle(tmp_path.__class__(os.devnull), tmp_path) == ""


def test_what_a_module_exports_stands_in_its_text():
    n = 0
    for name in classes._MODULES:
        module = importlib.import_module(name)
        listed = classes._ALL.search(Path(module.__file__).read_text(encoding="utf-8"))
        if listed is not None:
            assert ast.literal_eval(listed["names"]) == list(module.__all__), name
            n += 1
    assert n > 20
