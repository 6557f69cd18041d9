"""Mistakes that people make in definitions: one line each, with the place, what was found and what was expected."""

import pytest

from fwonline.cli import main

BALL = 'constraint = { class = "L1Ball", radius = 5.0 }'


def linear(more="", cls="FWClassifier"):
    return f'["StandardScaler", {{ class = "{cls}", {BALL}{", " * bool(more)}{more} }}]'


CSV = '{{ class = "CSVSource", path = "customers.csv"{} }}'.format
TABLE = "an object, which is a table, found the string"

MISTAKES = [
    (
        {"model": linear('loss = "log"')},
        f"2: model[1].loss: expected {TABLE} 'log': write loss = {{ class = \"Log\" }}",
    ),
    (
        {"model": linear('loss = "Log"')},
        f"2: model[1].loss: expected {TABLE} 'Log': write loss = {{ class = \"Log\" }}",
    ),
    (
        {"model": linear('optimizer = { class = "SFW", schedule = "harmonic" }')},
        f"2: model[1].optimizer.schedule: expected {TABLE} 'harmonic': write schedule = {{ class = \"Harmonic\" }}",
    ),
    (
        {"model": linear('optimizer = "sfw"')},
        f"2: model[1].optimizer: expected {TABLE} 'sfw': write optimizer = {{ class",
    ),
    ({"model": '{ class = "FWRegressor", constraint = "l1" }'}, "'l1': write constraint = { class = \"L1Ball\" }"),
    (
        {"model": '{ class = "FWRegressor", constraint = 5 }'},
        "2: model.constraint: FWRegressor: constraint must be a set",
    ),
    ({"model": '{ class = "FWRegressor", constraint = { class = "L1Ball" } }'}, "L1Ball needs the key 'radius'"),
    (
        {"model": linear().replace("5.0", '"5"')},
        "2: model[1].constraint.radius: expected a number, found the string '5'",
    ),
    (
        {"model": linear().replace("5.0", "-1.0")},
        "2: model[1].constraint.radius: L1Ball: radius must be a finite number > 0",
    ),
    ({"model": linear().replace("radius", "raduis")}, "constraint.raduis: unknown key. Did you mean 'radius'?"),
    (
        {"model": linear('optimizer = { class = "SFW", memory = 0 }')},
        "optimizer.memory: SFW: memory must be an integer >= 1",
    ),
    ({"model": linear('optimizer = { class = "SFW", memory = 1.5 }')}, "memory: expected an integer, found 1.5"),
    (
        {"model": linear('optimizer = { class = "SFW", batch_size = 9, memory = 5 }')},
        "must be at most memory = 5, got 9",
    ),
    ({"model": linear('seed = "one"')}, "2: model[1].seed: expected an integer, found the string 'one'"),
    (
        {"model": linear('loss = { class = "Huber" }')},
        "2: model[1].loss: FWClassifier: FWClassifier cannot minimise Huber",
    ),
    ({"model": linear("intercpt = true")}, "2: model[1].intercpt: unknown key. Did you mean 'intercept'?"),
    ({"model": '"StandardScaler"'}, "2: model: the last step must learn and predict, and StandardScaler does not"),
    ({"model": "[]"}, "2: model: expected at least one step, found an empty list"),
    ({"model": '{ class = "fwclassifier" }'}, "no class is called 'fwclassifier'. Did you mean 'FWClassifier'?"),
    ({"model": '{ clas = "FWClassifier" }'}, "2: model.clas: unknown key. Did you mean 'class'?"),
    ({"model": "3"}, "2: model: expected a table with a class, or the name of one, found 3"),
    (
        {"source": '"customers.csv"'},
        "1: source: 'customers.csv' is a file, and a source is a table: write { class = \"CSV",
    ),
    ({"source": '"customers.csv"'}, "or have it written: fwonline init customers.csv --target COLUMN"),
    (
        {"source": '{ path = "a.jsonl", target = "y" }'},
        'is missing: it names what to build, such as class = "JSONLinesSource"',
    ),
    ({"source": '"Fishing"'}, "1: source: no class is called 'Fishing'. Did you mean 'Phishing'?"),
    ({"source": CSV(", targte = 'y'")}, "1: source.targte: unknown key. Did you mean 'target'?"),
    (
        {"source": CSV(", delimiter = ';;'")},
        "1: source.delimiter: CSVSource: delimiter: expected one character, found ';;'",
    ),
    ({"source": CSV(", target = 3")}, "1: source.target: expected a string, found 3"),
    ({"source": CSV(", target = '${HOME}'")}, "1: source.target: the environment is only filled in for Kafka"),
    ({"monitors": '["ROCAC"]'}, "3: monitors[0]: no class is called 'ROCAC'. Did you mean 'ROCAUC'?"),
    ({"monitors": '["MAE"]'}, "3: monitors[0]: MAE does not measure what FWClassifier predicts"),
    (
        {"monitors": '["ConfusionMatrix"]'},
        "3: monitors[0]: ConfusionMatrix has no number that a run could show; Accuracy",
    ),
    (
        {"monitors": '[{ class = "Accuracy", window = 0 }]'},
        "3: monitors[0].window: expected a positive integer, found 0",
    ),
    (
        {"monitors": '[{ class = "Accuracy", positive = true }]'},
        "only a metric of two classes has a positive one, and Acc",
    ),
    (
        {"monitors": '[{ class = "ROCAUC", pos_val = "yes" }]'},
        "river's metrics count wrongly with it; give positive='yes'",
    ),
    (
        {"monitors": '["F1"]', "model": '"FWSoftmax"'},
        "3: monitors[0]: F1 measures two classes, and FWSoftmax predicts any",
    ),
    (
        {"monitors": '["Gap"]', "model": '"LogisticRegression"'},
        "3: monitors[0]: Gap needs a model with the attribute 'gap'",
    ),
    (
        {"monitors": '["Regret"]', "model": '"LogisticRegression"'},
        "3: monitors[0]: Regret compares with the best fixed",
    ),
    ({"run": '{ seed = "a" }'}, "3: run.seed: expected an integer, found the string 'a'"),
    ({"run": "{ limit = 0 }"}, "3: run.limit: expected an integer from 1 on, found 0"),
    (
        {"run": '{ on_error = "skp" }'},
        "3: run.on_error: on_error must be 'raise', 'skip' or 'dead-letter', found 'skp'",
    ),
    (
        {"run": '{ on_error = "dead-letter" }'},
        "on_error='dead-letter' keeps what is rejected: dead_letter must be a sink",
    ),
    ({"run": '{ report_every = "1s" }'}, "3: run.report_every: expected a number, found the string '1s'"),
    ({"sinks": '["JSONLinesSink"]'}, "3: sinks[0]: JSONLinesSink needs the key 'path'"),
    (
        {"checkpoint": '"x"'},
        "3: checkpoint: unknown key. Expected one of: name, source, model, monitors, sinks, run, group, metrics",
    ),
    ({"source": "Phishing"}, "1:10: this is not TOML: invalid value"),
]


@pytest.mark.parametrize(("sections", "what"), MISTAKES)
def test_a_mistake_is_answered_in_one_line(tmp_path, monkeypatch, capsys, sections, what):
    monkeypatch.chdir(tmp_path)
    values = {"source": '"Phishing"', "model": linear(), **sections}
    (tmp_path / "m.toml").write_text("".join(f"{key} = {value}\n" for key, value in values.items()))
    assert main(["run", "m.toml"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert any(line.removeprefix("fwonline: ").startswith("m.toml:") and what in line for line in lines), lines
    assert len(lines) <= 3
    assert not (tmp_path / "runs").exists()
