"""``fwonline list``: what a definition may name."""

import pytest

from fwonline.cli import main
from fwonline.definition import classes


def listed(capsys, *arguments):
    assert main(["list", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def test_a_class_has_a_line_for_each_parameter(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = listed(capsys, "CSVSource")
    assert lines[:2] == ["CSVSource, of fwonline.stream", "The rows of a CSV file with a header"]
    names = [line.split()[0] for line in lines[2:]]
    assert names == list(classes.parameters(classes.find("CSVSource")))
    assert '  delimiter = ","        One character each' in lines
    assert "  require_target = true  Whether a record without" in "\n".join(lines)  # which another class says
    assert not any("As for" in line for line in lines)


@pytest.mark.parametrize("columns", [60, 100])
def test_no_class_is_wider_than_the_terminal(capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    for name in ("FWClassifier", "sets", "stream", "ROCAUC", "KafkaSource", "SparseLinear", "StandardScaler"):
        lines = listed(capsys, name)
        assert max(map(len, lines)) <= columns
        assert len(lines) > 3
    assert max(map(len, listed(capsys))) <= columns


def test_a_metric_has_the_keys_that_definitions_add(capsys):
    assert [line.split()[0] for line in listed(capsys, "ROCAUC")[2:]] == ["n_thresholds", "window", "positive"]
    assert [line.split()[0] for line in listed(capsys, "MAE")[2:]] == ["window"]


def test_a_name_of_two_classes_shows_both(capsys):
    assert [line for line in listed(capsys, "Quantile") if ", of " in line] == [
        "Quantile, of river.optim.losses",
        "Quantile, of river.stats",
    ]


def test_what_there_is_not(capsys):
    assert main(["list", "FWClassifer"]) == 2
    assert capsys.readouterr().err == (
        "fwonline: no class or module is called 'FWClassifer'. Did you mean 'FWClassifier'?\n"
    )


def test_every_class_can_be_listed(capsys):
    for module, names in classes.listing().items():
        for name in names[::8]:
            assert main(["list", f"{module}.{name}"]) in (0, 2)
    assert "cannot be used here" not in capsys.readouterr().err.replace("extra", "")
