"""The figures are drawn, and what they show is what was run."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from tools.papers import negiar
from tools.papers.cli import main

pytest.importorskip("matplotlib")


def test_list_and_mistakes(capsys):
    assert main(["--list"]) == 0
    assert "negiar-1" in capsys.readouterr().out
    for arguments, complaint in (([], "name a figure: negiar-1"), (["nobody-9"], "no figure is called 'nobody-9'")):
        with pytest.raises(SystemExit):
            main(arguments)
        assert complaint in capsys.readouterr().err


def test_negiar_figure_1(tmp_path, capsys):
    assert main(["negiar-1", "--quick", "--output", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "simulated stand-in for rcv1_binary_sample" in shown
    assert shown.count("f* in [") == 3
    assert shown.count("(the authors' measure): SFW ") == 3
    assert shown.count("exact Frank-Wolfe is at") == 2  # where columns are few
    assert (tmp_path / "negiar-1.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / "negiar-1.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["task"] for row in rows} == {"Breast cancer", "RCV1", "California housing"}
    assert {row["method"] for row in rows} == {"SFW", "Momentum", "Momentum/i", "Lu-Freund"}
    assert min(float(row["relative_suboptimality"]) for row in rows) >= 0.0


@pytest.mark.parametrize("k", range(3))
def test_curves(k):
    task = negiar.tasks(quick=True)[k]
    verdict = negiar.compare(task, passes=40, seeds=[0])
    assert verdict.optimum.lower <= verdict.optimum.upper < verdict.start
    for curve in verdict.curves:
        # As many gradients as steps times the batch, whatever the method.
        assert curve.gradients[0] == task.batch
        assert curve.gradients[-1] == 40 * len(task.data.y) // task.batch * task.batch
        assert (np.diff(curve.gradients) > 0).all()
        assert curve.values.min() >= verdict.optimum.lower
        # On columns whose scales differ a thousandfold the first steps lead far up.
        assert curve.values[-1] < max(verdict.start, 0.05 * curve.values.max())
    same = negiar.run(task, negiar.METHODS[0], passes=40, seed=0)
    assert (same.values == verdict.curves[0].values).all()


def test_budgets_at_which_a_method_is_not_below_another():
    task = negiar.tasks(quick=True)[0]
    at = np.array([1, 10, 100])
    curves = [
        negiar.Curve("SFW", 0, at, np.array([0.5, 0.3, 0.11]), 1.0),
        negiar.Curve("Momentum", 0, at, np.array([0.6, 0.2, 0.12]), 1.0),
    ]
    verdict = negiar.Verdict(task, 1.0, negiar.Bracket(np.zeros(10), 0.1, 0.1 - 1e-12, 1e-12, 1), curves)
    assert verdict.not_below().tolist() == [10]
    # Relative to the best, 0.11: SFW falls to (0.3 - 0.1) / 0.9 at 10 gradients, and Momentum below 0.05 at 100 alone.
    assert (verdict.reaches("SFW", 0.25), verdict.reaches("Momentum", 0.05)) == (10.0, 100.0)
    assert verdict.reaches("Momentum", 1e-3) == float("inf")
    assert verdict.relative(np.array([1.0, 0.1])) == pytest.approx([1.0, 0.0])
