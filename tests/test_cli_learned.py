"""``fwonline predict``, ``fwonline show`` and `fwonline.load_model`: what was learned, in use."""

import csv
import gzip
import io
import json
import sys

import pytest

import fwonline
from fwonline.cli import main
from fwonline.exceptions import FWOnlineError
from fwonline.loop import PartitionStates

LABELS = ("foliage", "path")
DEFINITION = """
source = {{ class = "CSVSource", path = "in.csv", target = "kind", key = "id", drop = ["note"] }}
model = ["StandardScaler", {{ class = "{model}", seed = 1{more} }}]
monitors = [{monitors}]
"""
BALL = ', constraint = { class = "L1Ball", radius = 10.0 }, optimizer = { class = "OneSampleFW" }'


def rows(n, labels=LABELS):
    for i in range(n):
        a, b = i % 7 - 3.0, i % 5 - 2.0
        yield {
            "id": f"r{i}",
            "note": "x",
            "a": a,
            "b": b,
            "kind": labels[0 if a < -1 else 1 % len(labels) if a < 2 else -1],
        }


def table(path, records, leave_out=()):
    records = [{key: value for key, value in record.items() if key not in leave_out} for record in records]
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, list(records[0]))
        writer.writeheader()
        writer.writerows(records)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run on two classes, and one on three."""
    folder = tmp_path_factory.mktemp("learned")
    for name, model, more, monitors, labels in (
        ("two", "FWClassifier", BALL, '{ class = "ROCAUC", positive = "path" }, "Accuracy"', LABELS),
        ("three", "FWSoftmax", "", '"Accuracy"', ("foliage", "path", "sky")),
    ):
        (folder / name).mkdir()
        table(folder / name / "in.csv", rows(300, labels))
        (folder / name / f"{name}.toml").write_text(DEFINITION.format(model=model, more=more, monitors=monitors))
        assert (
            main(["run", str(folder / name / f"{name}.toml"), "--quiet", "--output", str(folder / name / "run")]) == 0
        )
    return folder


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_of(runs, name="two"):
    return str(runs / name / "run")


def test_new_rows_are_predicted_in_their_order(runs, here, capsys):
    table(here / "new.csv", rows(20), leave_out=["kind", "note"])
    assert main(["predict", run_of(runs), "new.csv"]) == 0
    out, err = capsys.readouterr()
    found = list(csv.DictReader(io.StringIO(out)))
    model = fwonline.load_model(run_of(runs))
    for row, line in zip(rows(20), found, strict=True):
        p = model.predict_proba_one({"a": row["a"], "b": row["b"]})
        assert line == {"key": row["id"], "prediction": max(p, key=p.get), **{f"p({k})": str(v) for k, v in p.items()}}
    assert err == "20 predictions\n"


@pytest.mark.parametrize("shown", [True, False])
def test_a_terminal_shows_predictions_or_how_far_they_are(runs, here, monkeypatch, shown):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    table(here / "new.csv", rows(20))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", out := Terminal())
    monkeypatch.setattr(sys, "stderr", err := Terminal())
    assert main(["predict", run_of(runs), "new.csv", *([] if shown else ["--to", "out.csv"])]) == 0
    assert out.getvalue().count("\n") == (21 if shown else 1)
    assert ("predicting" in err.getvalue()) != shown


def test_targets_tell_how_good_the_predictions_are(runs, here, capsys):
    table(here / "new.csv", rows(40))
    assert main(["predict", run_of(runs), "new.csv", "--to", "out.csv"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("40 predictions written to out.csv  ROCAUC ")
    assert "  Accuracy " in out
    assert err == ""
    before = fwonline.load_model(run_of(runs)).steps["FWClassifier"].n_samples
    assert before == 300  # nothing was learned


@pytest.mark.parametrize("name", ["two", "three"])
def test_json_lines_from_standard_input_to_a_packed_file(runs, here, capsys, monkeypatch, name):
    lines = "".join(json.dumps({"a": row["a"], "b": row["b"]}) + "\n" for row in rows(5))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    assert main(["predict", run_of(runs, name), "--format", "jsonl", "--to", "out.jsonl.gz"]) == 0
    found = [json.loads(line) for line in gzip.decompress((here / "out.jsonl.gz").read_bytes()).splitlines()]
    assert len(found) == 5
    for line in found:
        assert line["key"] is None
        assert max(line["p"], key=line["p"].get) == line["prediction"]
        assert sum(line["p"].values()) == pytest.approx(1.0)
    assert not (here / "out.jsonl.gz.part").exists()


def test_a_parquet_file_may_lack_the_target(runs, here, capsys):
    pytest.importorskip("pyarrow")
    from pyarrow import Table, parquet

    records = [{key: row[key] for key in ("id", "a", "b")} for row in rows(5)]
    parquet.write_table(Table.from_pylist(records), here / "new.parquet")
    assert main(["predict", run_of(runs), "new.parquet"]) == 0
    assert [line.split(",")[0] for line in capsys.readouterr().out.splitlines()] == [
        "key",
        *(f"r{i}" for i in range(5)),
    ]


def test_svmlight_rows_need_no_label(runs, here, capsys):
    (here / "new.svm").write_text("1:2.0 2:0.5\n1 1:1.0\n")
    assert main(["predict", run_of(runs), "new.svm"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_a_row_that_cannot_be_predicted_has_an_empty_line(runs, here, capsys):
    (here / "new.csv").write_text("id,a,b\n1,1,2\n2,nan,0\n3,5\n4,0,oops\n5,1,1\n")
    assert main(["predict", run_of(runs), "new.csv", "--to", "out.csv"]) == 1
    out, err = capsys.readouterr()
    lines = (here / "out.csv").read_text().splitlines()
    assert [line.split(",")[1] != "" for line in lines[1:]] == [True, False, False, False, True]
    assert out == ""
    assert err.startswith(
        "fwonline: 3 of 5 samples could not be predicted, and their lines are empty; the first of them:"
    )
    assert "new.csv:3: " in err
    assert "new.csv:4: expected 3 fields" in err


@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        (["absent.csv"], 1, "absent.csv: cannot be read: No such file or directory"),
        (["new.xls"], 2, "new.xls: expected a file that ends in .csv, .tsv, .tab, .jsonl, .ndjson"),
        (["empty.csv"], 1, "empty.csv: is empty; expected a header and rows"),
    ],
)
def test_what_cannot_be_read_writes_nothing(runs, here, capsys, arguments, code, what):
    (here / "new.xls").write_text("x")
    (here / "empty.csv").write_text("")
    (here / "out.csv").write_text("before")
    assert main(["predict", run_of(runs), *arguments, "--to", "out.csv"]) == code
    assert what in capsys.readouterr().err
    assert (here / "out.csv").read_text() == "before"


def test_a_card_fits_a_narrow_terminal(runs, monkeypatch, capsys):
    for name, columns in (("two", 60), ("three", 60), ("two", 100)):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert main(["show", run_of(runs, name)]) == 0
        out = capsys.readouterr().out
        assert out.startswith(f"{name}: finished, 300 samples\nwhen  ")
        assert "CSVSource, path in.csv, target kind" in out
        assert max(map(len, out.splitlines())) <= columns
    assert "non-zeros  2 of 2 features\n" in out
    assert "classes    foliage, path (a weight above 0 is evidence of path)\n" in out
    assert "\x1b" not in out


def test_a_card_as_json_has_all_weights(runs, here, capsys):
    for name in ("two", "three"):
        assert main(["show", run_of(runs, name), "--json"]) == 0
        card = json.loads(capsys.readouterr().out)
        assert (card["name"], card["state"], card["learned"]) == (name, "finished", 300)
        assert card["monitors"]["Accuracy"] > 0.6
        assert main(["show", run_of(runs, name), "--weights", "weights.csv"]) == 0
        found = list(csv.DictReader((here / "weights.csv").read_text().splitlines()))
        assert [{**row, "weight": float(row["weight"])} for row in found] == card["weights"]
        sizes = [abs(row["weight"]) for row in card["weights"]]
        assert sizes == sorted(sizes, reverse=True)
        assert capsys.readouterr().out == f"{len(found)} weights written to weights.csv\n"
    model = fwonline.load_model(run_of(runs, "three")).steps["FWSoftmax"]
    assert {(row["class"], row["feature"]): row["weight"] for row in card["weights"]} == {
        (label, name): weight for label, weights in model.weights.items() for name, weight in weights.items()
    }


def test_a_loaded_model_learns_on(runs):
    model = fwonline.load_model(runs / "two" / "run" / "checkpoint")
    model.learn_one({"a": 1.0, "b": 0.0}, "path")
    assert model.steps["FWClassifier"].n_samples == 301


def test_a_groups_model_is_the_merge_of_its_partitions(runs, here, capsys):
    model = fwonline.load_model(run_of(runs))
    states = PartitionStates(here / "group" / "states", "clicks")
    for partition in ("topic[0]", "topic[1]"):
        states.write(partition, 1, 300, {"model": model, "counts": {"n": 300, "n_learned": 300}})
    states.write("topic[1]", 2, 600, {"model": model, "counts": {"n": 600, "n_learned": 600}})
    merged = fwonline.load_model(here / "group").steps["FWClassifier"]
    assert merged.n_samples == 600
    assert merged.weights == pytest.approx(model.steps["FWClassifier"].weights)

    assert main(["show", "group"]) == 0
    assert capsys.readouterr().out.startswith("group: a group's, 2 partitions, 900 samples\n")
    for folder in (here / "group", here / "group" / "worker-1"):
        folder.mkdir(exist_ok=True)
        (folder / "definition.toml").write_text("")
    assert main(["show", "group/worker-1"]) == 2
    assert "group/worker-1: the folder of a worker; what its group has learned is in group" in capsys.readouterr().err


def test_no_model_is_told(here, capsys):
    (here / "begun").mkdir()
    with pytest.raises(FWOnlineError, match="expected the folder of a run"):
        fwonline.load_model("begun")
    (here / "begun" / "definition.toml").write_text("")
    assert main(["show", "begun"]) == 2
    assert main(["predict", "absent", "x.csv"]) == 2
    assert capsys.readouterr().err == (
        "fwonline: begun: no model yet: the run has written no checkpoint\n"
        "fwonline: absent: no such run; expected the folder of a run, such as runs/phishing\n"
    )
