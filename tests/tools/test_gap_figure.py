"""The figure of the two gaps."""

from __future__ import annotations

import csv

import pytest

from tools.papers.cli import main

pytest.importorskip("matplotlib")


def test_the_estimate_comes_close_to_the_true_gap(tmp_path, capsys):
    assert main(["negiar-gap", "--quick", "--output", str(tmp_path)]) == 0
    assert "| RCV1 | 0." in capsys.readouterr().out
    assert (tmp_path / "negiar-gap.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / "negiar-gap.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["task"] == "Breast cancer"]
    true, estimate, bound = ([float(row[name]) for row in rows] for name in ("true_gap", "estimated_gap", "bound"))
    assert min(true) > 0.0
    distance = [abs(a - b) for a, b in zip(estimate, true, strict=True)]
    assert distance[-1] < 0.1 * max(distance)
    assert distance[-1] < bound[-1]


def test_the_gap_falls_where_losses_are_not_convex(tmp_path, capsys):
    assert main(["negiar-nonconvex", "--quick", "--output", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count("| SFW |") == 2
    assert (tmp_path / "negiar-nonconvex.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / "negiar-nonconvex.csv").open() as file:
        rows = list(csv.DictReader(file))
    for task in {row["task"] for row in rows}:
        gaps = [float(row["least_gap"]) for row in rows if row["task"] == task and row["method"] == "SFW"]
        assert 0.0 < gaps[-1] < 0.6 * gaps[0]
