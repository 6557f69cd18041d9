"""The figures on completion and clustering are drawn, and the literal versions that are timed beside ours are right."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from fwonline import cluster, reco
from tools.bench import completion, kmeans
from tools.papers.cli import main


@pytest.mark.parametrize(("name", "methods"), [("locatello-1", {"SHCGM", "SHCGM, beta0 10", "HCGM", "mean"}),
                                               ("locatello-4", {"SHCGM", "SFW", "hcgm"})])  # fmt: skip
def test_figures(name, methods, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    assert main([name, "--quick", "--output", str(tmp_path)]) == 0
    assert "simulated stand-in" in capsys.readouterr().out
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / f"{name}.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["method"] for row in rows} == methods
    assert max(int(row["steps"]) for row in rows) == 30


def test_the_figure_against_projections(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    assert main(["locatello-5", "--quick", "--output", str(tmp_path)]) == 0
    assert "simulated: 1,800 ratings, 200 to test, 60 x 80" in capsys.readouterr().out
    assert (tmp_path / "locatello-5.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / "locatello-5.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["method"] for row in rows} == {"SHCGM", "S3CCM", "S3CCM, all ratings"}
    for method in ("SHCGM", "S3CCM, all ratings"):
        steps = [int(row["steps"]) for row in rows if row["method"] == method]
        errors = [float(row["train_rmse"]) for row in rows if row["method"] == method]
        assert steps[0] == 1
        assert steps[-1] >= 40  # a number of steps, on any machine
        assert errors[-1] < errors[0]


@pytest.mark.parametrize(("dense", "method"), [(True, "shcgm"), (False, "hcgm")])
def test_the_literal_completion_comes_as_far_as_ours(dense, method):
    data = completion.simulated(1_500, 60, 80)
    literal = completion.Literal(data, 150.0, 10.0, 1500, dense)
    ours = reco.SHCGMCompletion(150.0, 1.0, 5.0, method=method, batch_size=1500, seed=0)
    ours.store(data.users, data.items, data.y)
    ours.advance(60)
    for _ in range(60):
        literal.step()
    whole = literal.X if dense else literal.X + literal.of_user[:, None] + literal.of_item + data.y.mean()
    mine = np.mean((ours.predict_arrays(data.users, data.items) - data.y) ** 2)
    theirs = np.mean((np.clip(whole[data.users, data.items], 1, 5) - data.y) ** 2)
    assert mine == pytest.approx(theirs, rel=0.15)


def test_the_literal_k_means_takes_our_steps():
    """Step by step: beside so heavy a penalty two inexact eigenvectors soon lead to different vertices."""
    points = np.random.default_rng(0).standard_normal((60, 3)) * 0.3
    literal = kmeans.Literal(points, 3, 60)
    ours = cluster.SHCGMKMeans(3, method="shcgm", n_points=60, batch_size=60, seed=0)
    ours.store(points)
    errors = []
    for k in range(50):
        literal.X = ours.to_numpy() if k else literal.X
        literal.step()
        ours.advance(1)
        errors.append(np.linalg.norm(ours.to_numpy() - literal.X) / np.linalg.norm(literal.X))
    assert np.median(errors) < 0.04
    assert max(errors) < 0.3
