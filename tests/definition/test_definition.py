"""Stream definitions: what they build, and what they say about a mistake."""

import subprocess
import sys

import pytest
from river import compose, linear_model, metrics, optim, preprocessing, utils

from fwonline import datasets, monitors, stream
from fwonline.definition import load_definition
from fwonline.exceptions import DefinitionError

GOOD = """
name = "fish"

[source]
class = "Phishing"

[[model]]
class = "StandardScaler"

[[model]]
class = "LogisticRegression"
l2 = 0.1
loss = { class = "Log", weight_pos = 2 }

[[monitors]]
class = "Metric"
metric = { class = "ROCAUC" }

[run]
seed = 7
"""

SMALL = 'source = "Phishing"\nmodel = ["StandardScaler", "LogisticRegression"]\n'


@pytest.fixture
def load(tmp_path):
    def write_and_load(text, name="stream.toml"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_definition(path)

    return write_and_load


@pytest.fixture
def problems(load, tmp_path):
    """The messages of a definition, without the folder."""

    def said(text):
        with pytest.raises(DefinitionError) as error:
            load(text)
        return str(error.value).replace(f"{tmp_path}/stream.toml:", "").split("\n")

    return said


def test_a_definition_builds_what_it_names(load, tmp_path):
    definition = load(GOOD)
    run = definition.build(tmp_path)
    assert definition.name == "fish"
    assert run.source.name == "Phishing"
    assert run.source.length == 1250
    assert isinstance(run.model, compose.Pipeline)
    scaler, model = run.model.steps.values()
    assert isinstance(scaler, preprocessing.StandardScaler)
    assert isinstance(model, linear_model.LogisticRegression)
    assert model.l2 == 0.1
    assert isinstance(model.loss, optim.losses.Log)
    assert model.loss.weight_pos == 2
    assert isinstance(run.monitors[0].metric, metrics.ROCAUC)
    assert run.sinks == []
    assert definition.limit is None


def test_building_twice_shares_nothing(load):
    definition = load(GOOD)
    first, second = definition.build(), definition.build()
    first.model.learn_one({"a": 1.0}, True)
    assert first.model["LogisticRegression"].weights
    assert not second.model["LogisticRegression"].weights


def test_the_name_is_the_files_where_none_is_given(load):
    assert load(SMALL, "my-stream.toml").name == "my-stream"


def test_names_alone_and_metrics_do_as_objects(load):
    run = load(SMALL + 'monitors = ["Accuracy", "Throughput"]').build()
    assert isinstance(run.monitors[0], monitors.Metric)
    assert isinstance(run.monitors[0].metric, metrics.Accuracy)
    assert isinstance(run.monitors[1], monitors.Throughput)


def test_a_metric_with_a_window_forgets(load, recwarn):
    run = load(SMALL + 'monitors = [{ class = "FBeta", beta = 2.0, window = 3 }]').build()
    rolling = run.monitors[0].metric
    assert isinstance(rolling, utils.Rolling)
    assert rolling.window_size == 3
    assert rolling.obj.beta == 2.0
    assert not [w for w in recwarn if issubclass(w.category, DeprecationWarning)]
    assert list(run.monitors[0].get()) == ["RollingFBeta"]


def test_the_seed_flows_to_who_takes_one_and_has_none(load):
    text = """
    model = [{ class = "Select", keys = ["a", "b"] }, "LinearRegression"]
    source = { class = "SparseLinear" %s }
    [run]
    seed = 7
    """
    assert load(text % "").build().source.iterable.seed == 7
    assert load(text % ", seed = 3").build().source.iterable.seed == 3
    assert load((text % "").replace("seed = 7", "")).build().source.iterable.seed is None


def test_lists_become_the_arguments_that_have_no_name(load):
    model = load(
        """
        source = "Friedman"
        [[model]]
        class = "TransformerUnion"
        transformers = [{ class = "Select", keys = ["0", "1"] }, { class = "TFIDF", on = "t", ngram_range = [1, 2] }]
        [[model]]
        class = "LinearRegression"
        """
    ).build()
    union = model.model["TransformerUnion"]
    select, tfidf = union.transformers.values()
    assert select.keys == {"0", "1"}
    assert tfidf.ngram_range == (1, 2)


def test_the_hint_of_a_key_decides_between_modules(load):
    run = load('source = "Friedman"\nmodel = { class = "LinearRegression", loss = { class = "Quantile" } }').build()
    assert isinstance(run.model.loss, optim.losses.Quantile)
    run = load('source = "Phishing"\nmodel = "LogisticRegression"\nmonitors = ["Precision"]').build()
    assert isinstance(run.monitors[0].metric, metrics.Precision)


def test_paths_are_relative_to_the_definition_and_to_the_run(load, tmp_path):
    (tmp_path / "run").mkdir()
    definition = load(
        """
        source = { class = "CSVSource", path = "data/in.csv", target = "y" }
        model = "LinearRegression"
        sinks = [{ class = "JSONLinesSink", path = "out.jsonl" }, { class = "CSVSink", path = "/dev/null" }]
        run = { dead_letter = "rejected.jsonl" }
        """
    )
    assert not list((tmp_path / "run").iterdir())  # loading opens nothing
    run = definition.build(tmp_path / "run")
    assert run.source.path == str(tmp_path / "data/in.csv")
    assert [sink.name for sink in run.sinks] == [str(tmp_path / "run/out.jsonl"), "/dev/null"]
    assert run.outputs[-1].name == str(tmp_path / "run/rejected.jsonl")
    for sink in run.outputs:
        sink.close()


def test_standard_input_is_no_path(load):
    run = load('source = { class = "CSVSource", path = "-", target = "y" }\nmodel = "LinearRegression"').build()
    assert run.source.path == "-"


def test_a_sink_that_cannot_open_is_named(load, tmp_path):
    definition = load(SMALL + 'sinks = [{ class = "JSONLinesSink", path = "no/such/folder.jsonl" }]')
    with pytest.raises(DefinitionError, match=r"stream.toml:3: sinks\[0\]: JSONLinesSink: .*No such file"):
        definition.build(tmp_path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "",
            ["1: the key 'model' is missing: it says what learns",
             "1: the key 'source' is missing: it says what to read"],
        ),
        (
            SMALL + 'monitor = ["ROCAUC"]',
            ["3: monitor: unknown key. Did you mean 'monitors'? "
             "Expected one of: name, source, model, monitors, sinks, run, group, metrics"],
        ),
        (SMALL + 'name = "../x"', ["3: name: expected letters, digits, '_', '-' and '.', since it names the run's "
                                   "folder, found '../x'"]),
        (SMALL + "name = 3", ["3: name: expected a string, found 3"]),
        (
            'source = "Fishing"\nmodel = "LogisticRegression"',
            ["1: source: no class is called 'Fishing'. Did you mean 'Phishing'?"],
        ),
        (
            'source = "Phishing"\n[model]\nclass = "LogisticRegresion"',
            ["3: model.class: no class is called 'LogisticRegresion'. Did you mean 'LogisticRegression'?"],
        ),
        ('source = "Accuracy"\nmodel = "LogisticRegression"',
         ["1: source: expected a source or a dataset, found Accuracy"]),
        ('source = 3\nmodel = "LogisticRegression"',
         ["1: source: expected a table with a class, or the name of one, found 3"]),
        ('source = "Phishing"\nmodel = "StandardScaler"',
         ["2: model: the last step must learn and predict, and StandardScaler does not"]),
        ('source = "Phishing"\nmodel = [\n"LogisticRegression",\n"LogisticRegression"]',
         ["3: model[0]: every step but the last must transform, and LogisticRegression does not"]),
        ('source = "Phishing"\nmodel = []', ["2: model: expected at least one step, found an empty list"]),
        (SMALL + "[[monitors]]\nmetric = 1", ["3: monitors[0]: the key 'class' is missing: it names what to build"]),
        (SMALL + '[[monitors]]\nclas = "MAE"', ["4: monitors[0].clas: unknown key. Did you mean 'class'?"]),
        (SMALL + "monitors = [{class = 3}]", ["3: monitors[0].class: expected the name of a class, found 3"]),
        (SMALL + 'monitors = ["StandardScaler"]',
         ["3: monitors[0]: expected a monitor or a river metric, found StandardScaler"]),
        (SMALL + 'monitors = ["MAE"]', ["3: monitors[0]: MAE does not measure what LogisticRegression predicts"]),
        (SMALL + 'monitors = [{class = "Accuracy", window = 0}]',
         ["3: monitors[0].window: expected a positive integer, found 0"]),
        (SMALL + 'monitors = ["Metric"]', ["3: monitors[0]: Metric needs the key 'metric'"]),
        (SMALL + 'sinks = ["Throughput"]', ["3: sinks[0]: expected a sink, found Throughput"]),
        (
            'source = "Phishing"\nmodel = { class = "LogisticRegression", l_2 = 1 }',
            ["2: model.l_2: unknown key. Did you mean 'l2'? Expected one of: optimizer, loss, l2, l1, intercept_init, "
             "intercept_lr, clip_gradient, initializer"],
        ),
        ('source = "Phishing"\nmodel = { class = "LogisticRegression", l2 = "much" }',
         ["2: model.l2: expected a number, found the string 'much'"]),
        ('source = { class = "SparseLinear", n_features = 2.5 }\nmodel = "LinearRegression"',
         ["1: source.n_features: expected an integer, found 2.5"]),
        ('source = { class = "SparseLinear", classification = 1 }\nmodel = "LinearRegression"',
         ["1: source.classification: expected true or false, found 1"]),
        ('model = "LinearRegression"\n[source]\nclass = "SparseLinear"\n\nradius = -1',
         ["5: source.radius: SparseLinear: radius must be positive, not -1"]),
        (
            'source = "Phishing"\nmodel = { class = "LogisticRegression", optimizer = { class = "SGD", '
            'lr = { class = "Constant" } } }',
            ["2: model.optimizer.lr.class: 'Constant' is ambiguous: write river.optim.initializers.Constant or "
             "river.optim.schedulers.Constant"],
        ),
        (
            'source = "Phishing"\nmodel = ["TransformerUnion", { class = "Select", keys = "a" }, "LogisticRegression"]',
            ["2: model[1].keys: expected a list, found the string 'a'"],
        ),
        ('source = "Phishing"\n[model]\nclass = "FWClassifier"\nconstraint = "L1Ball"',
         ["4: model.constraint: expected an object, which is a table, found the string 'L1Ball': write "
          'constraint = { class = "L1Ball" }']),
        ('source = "Phishing"\n[model]\nclass = "FWClassifier"\n[model.constraint]\nclass = "L1Ball"\nradius = 0',
         ["6: model.constraint.radius: L1Ball: radius must be a finite number > 0, got 0"]),
        ('source = "Phishing"\n[model]\nclass = "FWClassifier"\nconstraint = { class = "L1Ball" }',
         ["4: model.constraint: L1Ball needs the key 'radius'"]),
        ('source = "Phishing"\nmodel = [{ class = "BagOfWords", tokenizer = "eval" }, "LogisticRegression"]',
         ["2: model[0].tokenizer: wants a function, and no definition can hold one"]),
        (SMALL + "run = 3", ["3: run: expected a table, found 3"]),
        (SMALL + "[run]\nlimit = 0", ["4: run.limit: expected an integer from 1 on, found 0"]),
        (SMALL + "[run]\nsource = 1",
         ["4: run.source: unknown key. Expected one of: seed, limit, on_error, dead_letter, max_rejected_share, "
          "check_values, max_pending, expire_items, expire_seconds, max_early, checkpoint_every, checkpoint_samples, "
          "report_every, report_samples, blocks"]),
        (SMALL + "[run]\nmax_rejected_share = 1.5",
         ["4: run.max_rejected_share: max_rejected_share must be from 0 to 1, found 1.5"]),
        (SMALL + '[run]\nmax_rejected_share = "half"',
         ["4: run.max_rejected_share: expected a number, found the string 'half'"]),
        (SMALL + "[run]\nreport_every = -1", ["4: run.report_every: report_every must be positive, found -1"]),
        (SMALL + '[run]\non_error = "ignore"',
         ["4: run.on_error: on_error must be 'raise', 'skip' or 'dead-letter', found 'ignore'"]),
        (SMALL + '[run]\non_error = "raise"\ndead_letter = "x"',
         ["5: run.dead_letter: dead_letter keeps what is rejected, and on_error='raise' rejects nothing: drop one"]),
        (SMALL + "[run]\nlimit = true", ["4: run.limit: expected an integer, found true"]),
        (SMALL + '[run]\nseed = "x"', ["4: run.seed: expected an integer, found the string 'x'"]),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_line_and_key(problems, text, expected):
    assert problems(text) == expected


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(problems):
    found = problems('sources = 1\nmodel = "LogReg"\nmonitors = ["Gapp"]\n[run]\nseeds = 1\n')
    assert [line.split(":")[0] for line in found] == ["1", "1", "2", "3", "5"]


def test_the_file_itself_may_be_the_mistake(load, tmp_path):
    with pytest.raises(DefinitionError, match=r"absent.toml: no such file"):
        load_definition(tmp_path / "absent.toml")
    with pytest.raises(DefinitionError, match="expected a TOML file, found a folder"):
        load_definition(tmp_path)
    with pytest.raises(DefinitionError, match="expected UTF-8 text, found byte 0xff at byte 4"):
        load(b'a = "\xff"'[1:])
    with pytest.raises(DefinitionError, match=r"stream.toml:1:10: this is not TOML: "):
        load("source = Phishing")


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(load):
    text = b"\xef\xbb\xbf" + SMALL.replace("\n", "\r\n").encode()
    assert load(text).build().source.name == "Phishing"


@pytest.mark.parametrize(
    "name",
    [
        "os.system",
        "builtins.eval",
        "subprocess.Popen",
        "river.base.Base",
        "FuncTransformer",
        "compose.FuncTransformer",
        "CallbackSink",
        "fwonline.loop.EventLoop",
        "pathlib.Path",
        "stream.base.sys",
        "fwonline.stream.as_source",
    ],
)
def test_nothing_else_can_be_named(problems, name):
    message = problems(f'source = "Phishing"\nmodel = {{ class = "{name}", func = "print" }}')[0]
    assert message.startswith(f"2: model.class: no class is called {name!r}.")


def test_the_environment_is_for_kafka_alone(problems, monkeypatch):
    monkeypatch.setenv("SECRET", "hunter2")
    text = 'source = { class = "CSVSource", path = "${SECRET}" }\nmodel = "LinearRegression"'
    assert problems(text) == ["1: source.path: the environment is only filled in for Kafka sources and sinks"]


def test_what_a_changed_definition_would_change(load):
    before = load(GOOD)
    again = load(GOOD.replace('name = "fish"', 'name = "other"  # a comment') + "limit = 10\n")
    assert before.differences(again) == []
    after = load(
        GOOD.replace("l2 = 0.1", "l1 = 0.2").replace("weight_pos = 2", "weight_pos = 3").replace("seed = 7", "")
    )
    assert before.differences(after) == [
        "model[1].l1: not set before, 0.2 now",
        "model[1].l2: 0.1 before, not set now",
        "model[1].loss.weight_pos: 2 before, 3 now",
        "run.seed: 7 before, not set now",
    ]


def test_every_name_on_the_list_can_be_found():
    from fwonline.definition import classes

    listing = classes.listing()
    assert "SparseLinear" in listing["fwonline.datasets"]
    assert datasets.SparseLinear is classes.find("SparseLinear")
    assert stream.CSVSource is classes.find("CSVSource")
    names = [f"{module}.{name}" for module, names in listing.items() for name in names if "Kafka" not in name]
    assert len(names) > 150
    assert all(classes.find(name) is not None for name in names)
    assert not {"Source", "Sink", "Monitor", "Sample"} & {name.rpartition(".")[2] for name in names}


def test_loading_a_definition_of_files_does_not_import_kafka():
    code = "import sys\nfrom fwonline.definition import load_definition\nassert 'kafka' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
