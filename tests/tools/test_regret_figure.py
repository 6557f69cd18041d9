"""The figure of regret against rounds."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from tools.papers import regret
from tools.papers.cli import main

pytest.importorskip("matplotlib")


def test_the_figure(tmp_path, capsys):
    assert main(["ofw-regret", "--quick", "--output", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count("| an adversary | ") == len(regret.LEARNERS)
    assert (tmp_path / "ofw-regret.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / "ofw-regret.csv").open() as file:
        rows = list(csv.DictReader(file))
    last = {(row["stream"], row["learner"]): float(row["regret"]) for row in rows}  # the last look of each
    assert last["an adversary", "OFW, adversarial"] < 0.2 * last["an adversary", "OFW"]
    assert last["i.i.d. samples", "OFW"] < last["i.i.d. samples", "OFW, adversarial"]
    assert last["two jumps", "AdaptiveOFW"] < 0.6 * last["two jumps", "OFW"]


def test_best_fixed_points_and_slopes():
    X, y = regret.STREAMS[1].rows(0, 50)
    assert set(X.sum(axis=1)) == {1.0}
    assert regret.STREAMS[1].best(X, y, np.array([50])) == pytest.approx([50 + X.sum(axis=0).min()])
    X, y = regret.STREAMS[2].rows(0, 60)
    whole = regret.STREAMS[0].best(X, y, np.array([60]))
    parts = regret.STREAMS[2].best(X, y, np.array([20, 60]))
    assert parts[1] < whole[0]
    assert parts[0] == pytest.approx(regret.STREAMS[0].best(X, y, np.array([20]))[0])
    looks = np.array([10, 100, 1000])
    assert regret.slope(regret.Curve(regret.LEARNERS[0], looks, looks**0.75, 1.0)) == pytest.approx(0.75)
    assert np.isnan(regret.slope(regret.Curve(regret.LEARNERS[0], looks, -looks, 1.0)))
