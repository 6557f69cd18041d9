"""Figure 1 of Cracco et al. runs on small data, and its objective is the optimizers' own."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from fwonline import linear_model, optim, sets
from tools.papers import cracco, data
from tools.papers.cli import main


@pytest.mark.slow
def test_it_is_drawn(tmp_path, capsys):
    assert main(["cracco-1", "--quick", "--output", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    with (tmp_path / "cracco-1.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {(row["parameters"], row["method"]) for row in rows} == {
        (parameters, method.label) for parameters in ("theorem", "tuned") for method in cracco.METHODS
    }
    assert all(f"| {method.label} |" in shown for method in cracco.METHODS)
    assert all(float(row["objective"]) > 0 for row in rows)
    assert (tmp_path / "cracco-1.png").stat().st_size > 10_000


def test_its_objective_is_what_minimize_says():
    rows = data.fashion_mnist(quick=True)
    model = linear_model.FWSoftmax(sets.NuclearBall(5.0), optim.SCGS(lipschitz=2.0, diameter=2.0), seed=0)
    result = model.minimize(rows.X, rows.y, steps=10)
    assert cracco.objective(rows.X, rows.y, result.x) == pytest.approx(result.fun)
    curve = cracco.run(rows, cracco.METHODS[3], True, 2.0, cracco.Run(1.0, 5.0))
    assert curve.gradients[-1] >= len(rows.y)
    assert np.all(np.diff(curve.gradients) > 0)
    assert curve.lower < curve.values.min()
