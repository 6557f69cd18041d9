"""Every script in ``examples/`` runs and prints what it promises."""

import re
import runpy
from pathlib import Path

import pytest

from fwonline.cli import main

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def printed(capsys):
    def run(name):
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out

    return run


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A client of an application that serves the model of a short run, and a function that starts it once more."""
    pytest.importorskip("fastapi")
    testclient = pytest.importorskip("fastapi.testclient", exc_type=(ImportError, RuntimeError))
    streams = EXAMPLES.parent / "streams"
    monkeypatch.chdir(tmp_path)
    assert main(["run", str(streams / "phishing.toml"), "--quiet", "--limit", "300"]) == 0

    def start(name):
        return testclient.TestClient(runpy.run_path(str(EXAMPLES / f"{name}.py"))["app"])

    return start


def numbers(pattern, text):
    """The numbers that the groups of `pattern` find, a tuple for each match."""
    matches = re.finditer(pattern, text)
    found = [tuple(float(group.replace(",", "")) for group in match.groups()) for match in matches]
    assert found, text
    return found


def test_all_examples_are_tested():
    tested = set(re.findall(r'(?:printed|served|drawn)\("(\w+)"\)', Path(__file__).read_text()))
    assert tested == {path.stem for path in EXAMPLES.glob("*.py")}


def test_sparse_classifier(printed):
    out = printed("sparse_classifier")
    rows = numbers(r"radius +([\d.]+): ROCAUC: ([\d.]+)%, (\d+) features", out)
    assert [radius for radius, _, _ in rows] == [1.0, 3.0, 10.0]
    assert all(rocauc > 90 for _, rocauc, _ in rows)
    assert rows[0][2] < rows[2][2]  # a smaller ball is sparser


def test_portfolio_regret(printed):
    out = printed("portfolio_regret")
    rows = numbers(r"day +([\d,]+): wealth ([\d.]+), average regret within \[([\d.]+), ([\d.]+)\]", out)
    assert [day for day, *_ in rows] == [500, 1000, 2000, 4000]
    assert all(lo <= hi for _, _, lo, hi in rows)
    assert rows[-1][3] < rows[0][2] / 2  # the average regret falls
    assert "they sum to 1.000000000000\n" in out


def test_sparse_arrays(printed):
    out = printed("sparse_arrays")
    assert "100,000 rows of 5,000 features, 100 of them present in a row\n" in out
    assert numbers(r"([\d,]+) rows a second", out)[0][0] > 5_000
    ((accuracy, best),) = numbers(r"never seen: ([\d.]+); with the true weights it would be ([\d.]+)", out)
    assert best - 0.02 < accuracy < best + 0.01
    ((_, hits),) = numbers(r"(\d+) weights; the 50 largest are (\d+) of the 50 true ones", out)
    assert hits >= 48


def test_offline_minimize(printed):
    out = printed("offline_minimize")
    (sfw_lo, sfw_hi), (momentum_lo, momentum_hi) = numbers(r"the optimum lies in \[([\d.]+), ([\d.]+)\]", out)
    assert max(sfw_lo, momentum_lo) <= min(sfw_hi, momentum_hi)  # two brackets of one optimum overlap
    assert sfw_hi - sfw_lo < 0.02


def test_own_source(printed):
    out = printed("own_source")
    assert "first run: 1,499 learned, MAE 0.0" in out
    assert "second run: goes on to 4,000, MAE 0.0" in out
    assert 'rejected: {\'features\': 4}, the first of them: {"origin":"thermometer#500"' in out
    assert numbers(r"weights: {'sensor3': ([\d.]+), 'sensor7': -([\d.]+)}", out)[0] == pytest.approx((2, 1), abs=0.1)
    assert numbers(r"outside the ball by at most ([\de+-.]+)", out)[0][0] < 1e-9


def test_own_loss(printed):
    out = printed("own_loss")
    ((_, plain),) = numbers(r"Squared : MAE: ([\d.]+), too low in (\d+)% of", out)
    ((_, careful),) = numbers(r"Shortage: MAE: ([\d.]+), too low in (\d+)% of", out)
    assert 40 < plain < 60
    assert careful < 35


def test_serve_http(served, monkeypatch):
    client = served("serve_http")
    page = {"popup_window": -1.0, "https": 1.0}
    before = client.post("/predict", json=page).json()
    assert before.keys() == {"False", "True"}
    assert sum(before.values()) == pytest.approx(1.0)
    for _ in range(50):
        assert client.post("/learn", json={"x": page, "y": True}).status_code == 200
    after = client.post("/predict", json=page).json()
    assert after != before
    assert client.post("/predict", content='{"https": NaN}').status_code == 422
    assert client.post("/predict", json=page).json() == after
    client.post("/save")
    monkeypatch.setenv("RUN", "served")
    assert served("serve_http").post("/predict", json=page).json() == after


def test_scikit_learn(printed):
    out = printed("scikit_learn")
    scores = [score for (score,) in numbers(r": accuracy ([\d.]+)", out)]
    assert len(scores) == 4
    assert max(scores) > 0.95
    ((_, accuracy, gap),) = numbers(r"(\d+) of 30 features.* seen: ([\d.]+); .* at most ([\d.e-]+) above", out)
    assert accuracy > 0.94
    assert gap < 1e-3
    assert numbers(r"three times their weight: ([\d.]+)", out)[0][0] > 0.9
    assert numbers(r"before it is learned: ([\d.]+)", out)[0][0] > 0.9


@pytest.fixture
def drawn(printed, monkeypatch):
    """Runs a script that draws; returns what it prints, and its axes."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setattr(pyplot, "show", lambda: None)
    yield lambda name: (printed(name), pyplot.gcf().axes)
    pyplot.close("all")


def test_plot_regret_and_gap(drawn):
    out, (gaps, regrets) = drawn("plot_regret_and_gap")
    ((_, low, high),) = numbers(r"samples: ([\d.]+); average regret within \[([\d.]+), ([\d.]+)\]", out)
    assert low <= high < low + 0.01
    upper, exact = (line.get_ydata() for line in gaps.lines)
    assert all(a <= b for a, b in zip(exact, upper, strict=True))
    assert list(regrets.lines[0].get_ydata()) == sorted(regrets.lines[0].get_ydata(), reverse=True)


def test_plot_drift(drawn):
    out, (axes,) = drawn("plot_drift")
    default, memory, everything = (error for (error,) in numbers(r"last 200 samples ([\d.]+)", out))
    assert default < memory < everything
    assert len(axes.lines) == 4


def test_plot_covariance(drawn):
    out, axes = drawn("plot_covariance")
    truth, empirical, estimate = (error for (error,) in numbers(r"relative error ([\d.]+)", out))
    assert truth == 0.0
    assert estimate < 0.8 * empirical
    assert [len(ax.images) for ax in axes] == [1, 1, 1]
