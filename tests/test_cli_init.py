"""``fwonline init``: what is written for a file, and what is said where nothing can be; the definitions run."""

import csv
import gzip
import io
import json
import random
import tomllib

import pytest

from fwonline import stream
from fwonline.cli import main
from fwonline.definition import load_definition

PLANS = ["basic", "plus", "pro"]


def rows(n=300):
    rng = random.Random(1)
    for i in range(n):
        age, plan = rng.randrange(18, 80), rng.choice(PLANS)
        yield {
            "customer_id": 1000 + 7 * i,
            "age": age if rng.random() > 0.1 else "",
            "plan": plan,
            "churned": "yes" if (age < 40 and plan != "pro") != (rng.random() < 0.1) else "no",
            "joined": f"{1 + i % 28:02d}.{1 + i % 12:02d}.2024",
            "income": round(rng.lognormvariate(10, 0.5), 2) if rng.random() > 0.1 else "NA",
            "zip": f"{rng.randrange(1, 9):05d}",
            "is_new": rng.choice(["true", "false"]),
            "country": "CH",
            "note": f"called about {rng.random()} and then {rng.random()} again",
        }


def table(records, **options):
    records = list(records)
    out = io.StringIO()
    writer = csv.DictWriter(out, list(records[0]), lineterminator="\n", **options)
    writer.writeheader()
    writer.writerows(records)
    return out.getvalue()


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def summary_of(name):
    with open(f"runs/{name}/summary.json", encoding="utf-8") as file:
        return json.load(file)


def written(name):
    with open(f"{name}.toml", "rb") as file:
        return tomllib.load(file)


def test_a_csv_file_becomes_a_definition_that_runs(here, capsys):
    (here / "customers.csv").write_text(table(rows()))
    assert main(["init", "customers.csv", "--target", "churned"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "customers.csv: 300 rows looked at; columns: 2 numbers, 2 categories, 1 date, 1 bool, 1 text",
        "target: churned, two labels -> FWClassifier",
        "left out: customer_id, ids, a different whole number in each row",
        "left out: country, CH in every row",
        "written: customers.toml",
        "next: fwonline run customers.toml",
    ]
    found = written("customers")
    assert found["source"] == {
        **{"class": "CSVSource", "path": "customers.csv", "target": "churned", "na_values": ["NA"]},
        **{"converters": {"zip": "text", "note": "text"}, "drop": ["customer_id", "country"]},
    }
    encoder, words = found["model"][0]["transformers"]
    assert encoder["columns"] == {
        **{"age": "number", "plan": "category", "joined": "date:%d.%m.%Y"},
        **{"income": "number", "zip": "category", "is_new": "bool", "note": "drop"},
    }
    assert words["steps"] == [{"class": "TFIDF", "on": "note"}, {"class": "Prefixer", "prefix": "note:"}]
    assert found["monitors"][0] == {"class": "ROCAUC", "positive": "yes"}
    text = (here / "customers.toml").read_text()
    assert '\nis_new = "bool"           # true or false\n' in text
    assert max(map(len, text.splitlines())) <= 120
    assert main(["run", "customers.toml", "--quiet"]) == 0
    summary = summary_of("customers")
    assert summary["n_learned"] == 300
    assert summary["monitors"]["ROCAUC"] > 0.7


def test_run_does_both_at_once_and_goes_on_with_what_it_wrote(here, capsys):
    (here / "my file.csv").write_text(table(rows(60)))
    assert main(["run", "my file.csv", "--target", "churned", "--limit", "40"]) == 0
    assert "written: my file.toml" in capsys.readouterr().out
    assert main(["run", "my file.csv", "--target", "churned", "--resume"]) == 0
    assert "my file.toml: written before for my file.csv; it is run as it is" in capsys.readouterr().out
    assert summary_of("my file")["n_learned"] == 60
    assert main(["run", "my file.csv", "--target", "plan"]) == 2
    assert capsys.readouterr().err.startswith("fwonline: my file.toml: this file is there already; --force")


def test_other_files_and_targets(here):
    records = list(rows(60))
    (here / "semi.csv").write_bytes(b"\xef\xbb\xbf" + table(records, delimiter=";").replace("\n", "\r\n").encode())
    (here / "events.jsonl.gz").write_bytes(
        gzip.compress("".join(json.dumps({**row, "tags": ["a"]}) + "\n" for row in records).encode())
    )
    (here / "price.csv").write_text("a,rooms,price\n" + "".join(f"{i % 7}.5,{i % 4},{100 * i}.5\n" for i in range(50)))
    (here / "rows.svm").write_text("".join(f"{'+1' if i % 3 else -1} 1:{i}.5 7:{i % 4}\n" for i in range(50)))
    (here / "digits.csv").write_text("a,digit\n" + "".join(f"{i % 5}.5,{i % 5}\n" for i in range(50)))
    for name, target, model in (
        ("semi.csv", "churned", "FWClassifier"),
        ("events.jsonl.gz", "plan", "FWSoftmax"),
        ("price.csv", "price", "FWRegressor"),
        ("rows.svm", None, "FWClassifier"),
        ("digits.csv", "digit", "FWSoftmax"),
    ):
        assert main(["run", name, "--quiet", *(["--target", target] if target else [])]) == 0, name
        stem = name.partition(".")[0]
        found = written(stem)["model"]
        assert (found[-1] if isinstance(found, list) else found)["class"] == model
        assert summary_of(stem)["n_learned"] == (60 if stem in ("semi", "events") else 50)
    assert written("semi")["source"]["delimiter"] == ";"
    assert "tags" in written("events")["source"]["drop"]
    assert written("rows")["source"]["label"] == "bool"
    assert main(["init", "digits.csv", "--target", "digit", "--task", "regression", "--force"]) == 0
    assert written("digits")["model"][-1]["class"] == "FWRegressor"


@pytest.mark.parametrize("labels", [("spam", "ham"), ("1", "2"), ("true", "false"), ("-1", "1"), ("7", "x")])
def test_two_labels_of_any_kind_are_measured(here, labels):
    lines = (f"{i % 2},{labels[i % 2]}\n" for i in range(40))
    (here / "d.csv").write_text("a,y\n" + "".join(lines))
    assert main(["run", "d.csv", "--target", "y", "--quiet"]) == 0
    assert summary_of("d")["monitors"]["ROCAUC"] > 0.8


def test_odd_names_are_quoted(here):
    names = ['a "b"', "c\nd", "class", "#g", "y \x7f\nz"]
    records = [dict(zip(names, [i % 3, f"x{i % 2}\x7f\t", "a=b", f"#{i % 4}", i % 2], strict=True)) for i in range(30)]
    records[3]["class"] = "c"
    (here / "we:ird.csv").write_text(table(records))
    assert main(["run", "we:ird.csv", "--target", names[-1], "--quiet"]) == 0
    assert main(["run", "we:ird.csv", "--target", names[-1], "--quiet", "--fresh"]) == 0
    assert set(written("we-ird")["model"][0]["columns"]) == set(names[:-1])


def test_texts_that_read_as_numbers_stay_texts(here):
    lines = [f"{('inf', '007', 'b')[i % 3]},{('nan?', 'inf')[i % 2]}\n" for i in range(30)]
    (here / "d.csv").write_text("a,y\n" + "".join(lines) + "b,NA\n")
    assert main(["run", "d.csv", "--target", "y", "--quiet"]) == 0
    assert written("d")["source"]["converters"] == {"a": "text", "y": "text"}
    assert written("d")["source"]["na_values"] == ["NA"]
    assert summary_of("d")["n_learned"] == 30


def test_an_empty_label_of_json_is_a_label(here):
    lines = [json.dumps({"a": i % 3, "y": ("Yes", "No", "")[i % 3]}) + "\n" for i in range(30)]
    (here / "d.jsonl").write_text("".join(lines))
    assert main(["run", "d.jsonl", "--target", "y", "--quiet"]) == 0
    assert written("d")["model"][-1]["class"] == "FWSoftmax"
    assert summary_of("d")["n_learned"] == 30


def test_numbers_that_json_quotes_are_labels(here):
    lines = [json.dumps({"a": i % 3, "y": ("1", "2")[i % 2], "tags": 3 if i else [3]}) + "\n" for i in range(30)]
    (here / "d.jsonl").write_text("".join(lines))
    assert main(["run", "d.jsonl", "--target", "y", "--quiet"]) == 0
    assert written("d")["monitors"][0]["positive"] in ("1", "2")
    assert written("d")["source"]["drop"] == ["tags"]
    assert summary_of("d")["n_learned"] == 30


def test_rows_without_a_target_may_be_many(here):
    (here / "d.csv").write_text("a,y\n" + "".join(f"{i % 3},{i % 2 if i > 40 else ''}\n" for i in range(60)))
    assert main(["run", "d.csv", "--target", "y", "--quiet"]) == 0
    assert summary_of("d")["n_learned"] == 19


def test_long_values_are_not_cut(here):
    (here / "d.csv").write_text("a,y\n" + "".join(f"{i % 3},{10**140 if i % 2 else 7}\n" for i in range(30)))
    assert main(["init", "d.csv", "--target", "y"]) == 0
    assert written("d")["monitors"][0]["positive"] == 10**140


def test_numbers_with_a_few_words_are_numbers(here):
    (here / "d.csv").write_text("a,y\n" + "".join(f"{'unknown' if i % 9 == 4 else i},{i % 2}\n" for i in range(40)))
    assert main(["run", "d.csv", "--target", "y", "--quiet"]) == 0
    assert written("d")["source"]["na_values"] == ["unknown"]
    assert written("d")["model"][0]["columns"] == {"a": "number"}


def test_texts_alone_are_classified(here):
    rng = random.Random(2)
    words = {"good": "fine great warm", "bad": "slow cold broken"}
    lines = [
        f"the {rng.choice(words[y].split())} room and a {rng.choice(words[y].split())} bath {i},{y}\n"
        for i, y in enumerate(rng.choices(list(words), k=80))
    ]
    (here / "d.csv").write_text("review,verdict\n" + "".join(lines))
    assert main(["run", "d.csv", "--target", "verdict", "--quiet"]) == 0
    assert written("d")["model"][0] == {"class": "TFIDF", "on": "review"}
    assert summary_of("d")["n_learned"] == 80
    assert summary_of("d")["monitors"]["ROCAUC"] > 0.9


def test_decimal_commas_are_read(here):
    lines = [f"{i % 7},5;{'+' if i % 2 else '-'}0,25;a,{i % 3};{i},75\n" for i in range(40)]
    (here / "d.csv").write_text("a;b;c;y\n" + "".join(lines))
    assert main(["run", "d.csv", "--target", "y", "--quiet"]) == 0
    assert written("d")["source"]["decimal"] == ","
    assert written("d")["model"][0]["columns"] == {"a": "number", "b": "number", "c": "category"}
    assert summary_of("d")["monitors"]["MAE"] < 30


def test_many_columns_are_not_listed(here):
    header = [f"n{j}" for j in range(70)] + ["day", "y"]
    lines = [",".join([*(str(i % (j + 2)) for j in range(70)), "2024-01-01T10:00", str(i % 2)]) for i in range(15)]
    (here / "wide.csv").write_text("\n".join([",".join(header), *lines]) + "\n")
    assert main(["run", "wide.csv", "--target", "y", "--quiet"]) == 0
    assert written("wide")["model"][0]["columns"] == {"day": "date"}


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        (b"a,b,a,y\n1,2,3,0\n", ["--target", "y"], "d.csv:1: expected every column once, found 'a' twice"),
        (b"", ["--target", "y"], "d.csv: is empty; expected a header and rows"),
        (b"a,y\n", ["--target", "y"], "d.csv: expected rows under the header, found none"),
        (b"1,2\n3,4\n", ["--target", "y"], "d.csv: expected a column 'y' (--target), found 1, 2; the first line holds"),
        (b"a,y\n1,2\n", [], "d.csv: --target is missing: which column is to be predicted? There are: a, y"),
        (b"a,y\n1,2\n", ["--target", "z"], "d.csv: expected a column 'z' (--target), found a, y"),
        (b"a,y\n1,2\n2,2\n", ["--target", "y"], "d.csv: expected different values of the target 'y', found 2 alone"),
        (b"a,y\n1,\n2,\n", ["--target", "y"], "d.csv: expected values in the column 'y' (--target), found none"),
        (b"a,y\n", ["--target", "y", "--to", "d.csv"], "d.csv: expected rows under the header"),
        (b"\xff\xfea\x00", ["--target", "y"], "d.csv: expected UTF-8 text, found UTF-16"),
        (b"\x89PNG\r\n", ["--target", "y"], "d.csv:1: bad header: expected UTF-8 text, found byte 0x89"),
        (gzip.compress(b"a,y\n1,2\n", mtime=0)[:15], ["--target", "y"], "d.csv: cannot be read: Compressed file ended"),
        (
            b"a,y\n1,x\n2,z\n",
            ["--target", "y", "--task", "regression"],
            "d.csv: expected numbers in 'y' for a regression, found 'x'",
        ),
        (
            b"name,y\n" + b"".join(b"n%d,%d\n" % (i, i % 2) for i in range(60)),
            ["--target", "y"],
            "d.csv: expected a column that a model can learn from, found none (name: ids or names, 60 different ones",
        ),
        (
            b"a,y\n" + b"".join(b"%d,label%d\n" % (i % 3, i) for i in range(300)),
            ["--target", "y"],
            "d.csv: expected a target of numbers, or of at most 200 labels, found 300 different values of 'y'",
        ),
    ],
)
def test_what_cannot_be_described_is_named_in_one_line(here, capsys, content, options, said):
    (here / "d.csv").write_bytes(content)
    assert main(["init", "d.csv", *options]) != 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"fwonline: {said}")
    assert err.count("\n") == 1
    assert not list(here.glob("*.toml"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["."], ".: expected a file, found a folder"),
        (["nope.csv"], "nope.csv: cannot be read: No such file or directory"),
        (["-"], "-: expected a file: standard input cannot be read twice"),
        ([], "expected a file, kafka://host:port/topic or --example NAME"),
        (["array.json", "--target", "a"], "array.json:1: expected JSON lines (one object a line), found a JSON array"),
        (["kafka://host"], "kafka://host: expected kafka://host:port/topic"),
        (["--example", "phishin"], "--example phishin: no such example. Did you mean 'phishing'? There are: "),
        (["--example", "phishing", "--to", "nowhere"], "--to nowhere: expected a folder"),
    ],
)
def test_places_that_are_none(here, capsys, arguments, said):
    (here / "array.json").write_text('[{"a": 1}]')
    assert main(["init", *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"fwonline: {said}")


def test_examples_are_written_and_run(here, capsys):
    assert main(["init", "--example", "phishing"]) == 0
    assert capsys.readouterr().out == "written: phishing.toml\nnext: fwonline run phishing.toml\n"
    assert "streams/" not in (here / "phishing.toml").read_text()
    assert load_definition("phishing.toml").name == "phishing"
    assert main(["init", "--example", "phishing"]) == 2
    assert main(["init", "--example", "phishing", "--force"]) == 0


def test_an_example_brings_its_data(here, capsys):
    (here / "there").mkdir()
    assert main(["init", "--example", "csv", "--to", "there"]) == 0
    assert capsys.readouterr().out.startswith("written: there/csv.toml, there/customers.csv\n")
    assert main(["run", "there/csv.toml", "--quiet", "--limit", "20"]) == 0
    assert summary_of("csv")["n_learned"] == 20


@pytest.mark.kafka
def test_a_topic_is_sampled(here, make_topic, kafka, capsys):
    topic = make_topic()
    with stream.KafkaSink(topic, kafka.bootstrap) as sink:
        for row in rows(30):
            sink.write({**row, "age": row["age"] or None})
        sink.flush(durable=True)
    where = f"kafka://{kafka.bootstrap}/{topic}"
    assert main(["init", where, "--target", "churned", "--to", "d.toml"]) == 0
    out = capsys.readouterr().out
    assert "30 rows looked at; columns: 2 numbers, 2 categories, 1 date, 1 bool, 1 text" in out
    source = written("d")["source"]
    assert (source["class"], source["topics"], source["target"]) == ("KafkaSource", topic, "churned")
    assert main(["run", "d.toml", "--quiet", "--limit", "30"]) == 0
    assert summary_of("d")["n_learned"] == 30
