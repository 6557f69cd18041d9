"""The figures of Kerdreux et al. are drawn, and what they show is what was run."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from tools.papers import kerdreux
from tools.papers.cli import main

pytest.importorskip("matplotlib")

NAMES = [
    "kerdreux-2",
    "kerdreux-groups",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("kerdreux-1", "kerdreux-3", "kerdreux-3-ads")),
]


@pytest.mark.parametrize("name", NAMES)
def test_figures(name, tmp_path, capsys):
    assert main([name, "--quick", "--output", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "f* in [" in shown
    assert "gradient coefficients" in shown
    if name == "kerdreux-2":
        assert "RAFW: the log of the suboptimality falls by" in shown
        assert "true coefficients" in shown
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / f"{name}.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert min(float(row["relative_suboptimality"]) for row in rows) >= 0.0
    labels = {"RAFW", "AFW"} if name in ("kerdreux-2", "kerdreux-3", "kerdreux-3-ads") else {"RFW", "FW"}
    assert {row["method"] for row in rows} == labels


def test_a_run_counts_what_it_spends(tmp_path):
    problem = kerdreux.lasso(True, tmp_path)
    twin, sampled = (kerdreux.run(problem, method, fraction=0.1, steps=50, seed=0) for method in kerdreux.AWAY)
    n, d = problem.X.shape
    assert (n, d) == (40, 100)
    assert (twin.coefficients == d * twin.steps).all()
    assert (sampled.coefficients >= 10 * sampled.steps).all()
    assert (sampled.coefficients < twin.coefficients).all()
    assert (np.diff(twin.values) <= 1e-12).all()
    assert (np.diff(sampled.seconds) > 0.0).all()
    again = kerdreux.run(problem, kerdreux.AWAY[1], fraction=0.1, steps=50, seed=0)
    assert (again.values == sampled.values).all()
