"""The covariance benchmark and figure run, and their literal version is the algorithm."""

import numpy as np
import pytest

from fwonline import covariance, datasets
from tools.bench import covariance as bench
from tools.bench.report import Settings, Table
from tools.papers import covariance_cost, locatello_covariance


@pytest.mark.slow
def test_the_benchmark_runs_and_compares_like_with_like():
    results = list(bench.run(Settings(quick=True)))
    assert isinstance(results[-1], Table)
    assert "eigsh" in results[0].peer
    stream = datasets.BlockCovariance(n_features=25, n_blocks=5, seed=0)
    trace, l1 = float(np.trace(stream.covariance)), float(np.abs(stream.covariance).sum())
    literal = bench.Literal(25, trace, l1)
    ours = covariance.SHCGMCovariance(trace, l1, center=False, rank=1, seed=0)
    for w in stream.to_arrays(300)[0]:
        literal.update(w)
        ours.learn_arrays(w[None])
    assert np.linalg.norm(ours.to_numpy() - literal.X) < 0.1 * np.linalg.norm(literal.X)


def test_the_figure_is_drawn_with_its_table(tmp_path, capsys):
    paths = locatello_covariance.draw(tmp_path / "figure", quick=True)
    assert all(path.stat().st_size for path in paths)
    lines = paths[0].read_text().splitlines()
    assert len(lines) > 3 * len(locatello_covariance.LINES) - 6
    assert "| second moment | 100 |" in capsys.readouterr().out


@pytest.mark.slow
def test_the_cost_is_drawn_with_its_table(tmp_path, capsys):
    paths = covariance_cost.draw(tmp_path / "cost", quick=True)
    assert all(path.stat().st_size for path in paths)
    header, *rows = paths[0].read_text().splitlines()
    assert header.startswith("n,vertex,block,dual,single,literal,")
    assert [row.split(",")[0] for row in rows] == ["20", "40"]
    assert "| 40 |" in capsys.readouterr().out
