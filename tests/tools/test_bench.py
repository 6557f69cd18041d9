"""The benchmarks run, and say what they are asked to say; how fast anything is, is not looked at."""

from __future__ import annotations

import importlib
import json

import numpy as np
import pytest
from scipy import sparse

from fwonline import linear_model, optim, sets
from fwonline.exceptions import SourceError
from tools.bench import clock, peers, playing, report
from tools.bench.cli import main
from tools.bench.groups import GROUPS
from tools.papers import data


@pytest.mark.slow
@pytest.mark.parametrize("name", GROUPS)
def test_each_runs_on_small_data(name, tmp_path, capsys):
    assert main([name, "--quick", "--json", str(tmp_path / "out.json")]) == 0
    shown = capsys.readouterr().out
    written = json.loads((tmp_path / "out.json").read_text())
    assert "numpy" in shown
    assert "OPENBLAS_NUM_THREADS" in written["setting"]["threads"]
    assert written["tables"]
    for table in written["tables"]:
        assert table["title"] in shown
        assert all(len(row) == len(table["columns"]) for row in table["rows"])
    for line in written["comparisons"]:
        assert line["measure"]
        assert line["wanted"] or line["theirs"].startswith("skipped: pip install")
    if name == "startup":
        assert [line["ours"] for line in written["comparisons"] if "compilations" in line["measure"]] == ["0", "0"]


def test_list_and_mistakes(capsys):
    assert main(["--list"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in GROUPS)
    with pytest.raises(SystemExit):
        main(["learn_on"])
    assert "no benchmark is called 'learn_on'; there are learn_one," in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["progressive", "--data", "nowhere.npz"])
    assert "no file nowhere.npz" in capsys.readouterr().err


@pytest.mark.slow
def test_a_missing_peer_is_a_line_that_says_how_to_install_it(monkeypatch, capsys):
    find = importlib.import_module

    def gone(module, *package):
        if module.partition(".")[0] in ("copt", "sklearn", "vowpalwabbit"):
            raise ImportError(f"no {module}")
        return find(module, *package)

    monkeypatch.setattr(peers.importlib, "import_module", gone)
    assert main(["learn_arrays", "--quick"]) == 0
    shown = capsys.readouterr().out
    for how in ("copt==0.9.2", "pip install vowpalwabbit", "pip install scikit-learn"):
        assert how in shown
    assert "bare compiled" in shown


def test_ratios_are_medians_of_turns():
    times = clock.Times({"a": [1.0, 10.0, 1.0], "b": [2.0, 20.0, 4.0]})
    assert times.ratio("b", "a") == 2.0
    assert times.median("a") == 1.0
    turns = []
    clock.interleaved({name: lambda name=name: turns.append(name) or 1.0 for name in "ab"}, 2)
    assert "".join(turns) == "ababab"


def test_lines_tell_whether_what_was_wanted_came_out():
    assert report.faster("m", 1e-6, "p", 3e-6, 3.0, 2.0).met
    assert not report.faster("m", 1e-6, "p", 3e-6, 3.0, 4.0).met
    assert report.faster("m", 1e-6, "p", 3e-6, 3.0, None).met is None
    assert report.within("m", 3e-6, "p", 1e-6, 3.0, 4.0).met
    assert not report.within("m", 1e-6, "p", 1e-6, 1.0, 1.0).met
    assert report.markdown(("a", "b"), [(1, "long")]) == "| a | b    |\n|---|------|\n| 1 | long |"


def test_a_play_is_the_mean_loss_of_predictions_made_before_learning():
    rows = data.rcv1(quick=True).shuffled(3)
    one = playing.play(
        "", linear_model.FWClassifier(sets.L1Ball(10.0), optim.SFW(memory=50), seed=1, intercept=False), rows
    )
    model = linear_model.FWClassifier(sets.L1Ball(10.0), optim.SFW(memory=50), seed=1, intercept=False)
    losses = []
    for i, label in enumerate(rows.y):
        row = rows.X[[i]]
        losses.append(-np.log(model.predict_proba_one(dict(zip(row.indices, row.data, strict=True)))[bool(label)]))
        model.learn_one(dict(zip(row.indices, row.data, strict=True)), bool(label))
    assert one.progressive == pytest.approx(np.mean(losses), rel=1e-9)
    w = np.zeros(rows.X.shape[1])
    for j, weight in model.weights.items():
        w[j] = weight
    assert one.final == pytest.approx(playing.log_loss(rows, rows.X @ w), rel=1e-9)
    assert one.nonzeros == np.count_nonzero(w)


@pytest.mark.slow
def test_a_tournament_keeps_the_best_of_a_grid_in_hindsight():
    task = playing.Task(data.rcv1(quick=True), sets.L1Ball(30.0))

    def grid(task, seed):
        for step in (1e-6, 3.0):
            yield (
                f"step {step:g}",
                linear_model.FWClassifier(task.constraint, optim.ProjectedSGD(step), intercept=False),
            )

    best, tuned = playing.tournament([task], [playing.Learner("tuned", grid)], seeds=[0, 1])
    row = dict(zip(playing.COLUMNS, tuned, strict=True))
    assert row["setting"] == "step 3"
    low, high = map(float, row["regret a sample"].split(" to "))
    assert low <= high
    assert best[2] == "best fixed point"


def test_data_of_a_file_of_ones_own(tmp_path):
    X, y = sparse.random_array((20, 6), density=0.5, format="csr", rng=0), np.arange(20) % 2
    sparse.save_npz(tmp_path / "a.npz", sparse.csr_matrix(X))
    with np.load(tmp_path / "a.npz") as arrays:
        np.savez(tmp_path / "b.npz", **arrays, y=np.where(y, 4, 2))
    rows = data.from_file(tmp_path / "b.npz")
    assert rows.name == "b"
    assert (rows.y == (y == 1)).all()
    assert abs(rows.X - X).max() == 0
    (tmp_path / "c.svm").write_text("+1 0:1.5 3:2\n\n-1 2:1\n")
    rows = data.from_file(tmp_path / "c.svm")
    assert rows.X.toarray().tolist() == [[1.5, 0, 0, 2], [0, 0, 1, 0]]
    assert rows.y.tolist() == [True, False]
    with pytest.raises(SourceError, match="labels in the array y"):
        data.from_file(tmp_path / "a.npz")
    (tmp_path / "d.svm").write_text("1 0:1\n1 1:1\n")
    with pytest.raises(SourceError, match="two classes, found 1"):
        data.from_file(tmp_path / "d.svm")
    (tmp_path / "e.svm").write_text("1 0:x\n")
    with pytest.raises(SourceError, match=r"e\.svm:1"):
        data.from_file(tmp_path / "e.svm")
