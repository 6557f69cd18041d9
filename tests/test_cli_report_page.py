"""The page of ``fwonline report``: what each panel draws, of logs of any length and whatever stands in them."""

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from fwonline._cli.report import logs, page, vega
from fwonline._cli.report.logs import load, load_all
from fwonline._cli.report.panels import panels_of
from fwonline.cli import main

vl_convert = pytest.importorskip("vl_convert")

SCRIPT = "<script>alert('x')</script>"


def rows(n=120, every=100):
    """Reports of a run with everything in it."""
    found = []
    for i in range(1, n + 1):
        at = every * i
        row = {"time": 1e9 + i, "n": at, "n_learned": at, "elapsed": i / 2, "rate": 2.0 * every, "loss": 1 / i}
        row |= {"MAE": 2 / i, "Accuracy": 1 - 1 / (i + 1), "ROCAUC": None, SCRIPT: 5.0 + i}
        row |= {"gap_upper": 3 / i, "gap_over_memory": 1 / i, "gap_over_memory_at": at - at % 300, "gap_estimate": 0.0}
        row |= {"regret_lo": 0.5 * i**0.5, "regret_hi": i**0.5, "regret_at": 2 ** (at.bit_length() - 1)}
        row |= {"violation": 1e-17, "violation_worst": 1e-16, "support": i % 7, "support_largest": 7}
        row |= {"drifts": i // 50, "drift_at": 5000 * (i // 50) or None, "rejected": i, "n_pending": 3, "lag": 9}
        row |= {"rejected_by": {"features": i - 1, SCRIPT: 1}, "lags": {"t[0]": 4, f"{SCRIPT}[1]": 5}}
        found.append({**row, "n_checkpoints": i // 10 + 1, "checkpoint_seconds": 0.01 * (i // 10 + 1)})
    return found


PANELS = {
    "MAE": 1,
    "Accuracy": 1,
    SCRIPT: 1,
    "Mean loss between reports": 1,
    "Frank-Wolfe gap": 2,  # the optimizer's own is 0, of which there is no logarithm
    "Regret against the best fixed point (dashed: slope 0.5)": 3,  # both ends, and the slope
    "Distance to the constraint set: at most 1e-16, which is rounding": 2,
    "Weights that are not zero, or rank": 2,
    "Samples a second": 1,
    "Waiting and set aside": 3,
    "Waiting, by partition": 2,
    "Rejected, by reason": 2,
    "Seconds a checkpoint takes": 1,
}


def run_folder(folder, log):
    folder.mkdir()
    (folder / "definition.toml").write_text(f'name = "x"\nmodel = "{SCRIPT}"\n')
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in log))
    return folder


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    return run_folder(tmp_path_factory.mktemp("runs") / "full", rows())


@pytest.fixture(scope="module")
def written(full):
    page.write([full], load_all([full]), full / "report.html")
    return full / "report.html"


def charts_in(text):
    return json.loads(re.search(r'<script type="application/json" id="charts">(.*?)</script>', text)[1])


def drawn(chart):
    return vl_convert.vegalite_to_svg({**chart, "width": 400})


def test_each_panel_draws_its_series(full):
    found = list(page.charts_of([full], load_all([full])))
    assert {title for title, _ in found} == set(PANELS)
    for title, chart in found:
        svg = drawn(chart)
        lines = re.findall(r'class="mark-line .*?</g>', svg)
        assert len(re.findall(r' d="M', "".join(lines))) == PANELS[title], title
        assert "NaN" not in svg, title


def test_a_page_asks_no_network_and_holds_no_script_of_a_stranger(written):
    text = written.read_text()
    assert len(text) < 2_000_000
    assert "default-src 'none'" in text
    assert not re.search(r"<(script|link|iframe)[^>]*\b(src|href)=", text)
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;" in text
    assert len(charts_in(text)) == len(PANELS)


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_a_browser_draws_the_page(written):
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", "--dump-dom"]
    done = subprocess.run(
        ["chromium", *flags, written.as_uri()], capture_output=True, text=True, timeout=120, check=False
    )
    dom = re.sub(r"<script.*?</script>", "", done.stdout, flags=re.DOTALL)
    assert dom.count('data-drawn="yes"') == len(PANELS), done.stderr[-2000:]
    assert "not drawn" not in dom
    for figure, n in zip(re.findall(r"<figure>.*?</figure>", dom, re.DOTALL), PANELS.values(), strict=True):
        assert len(re.findall(r'aria-roledescription="line mark"', figure)) >= n, figure[:200]
    assert "<script>alert" not in dom
    assert "alert('x')" in dom  # shown, as text


def test_runs_lie_over_one_another(full, tmp_path):
    other = run_folder(tmp_path / "other", rows(60))
    found = dict(page.charts_of([full, other], load_all([full, other])))
    gap = found["Frank-Wolfe gap: upper estimate"]
    assert {value["s"] for value in gap["datasets"]["points"]} == {"full", "other"}
    page.write([full, other], load_all([full, other]), tmp_path / "both.html")
    text = (tmp_path / "both.html").read_text()
    assert "<th>full</th><th>other</th>" in text
    assert len(charts_in(text)) == len(found)


def test_a_long_log_is_thinned_and_its_means_are_kept(full, tmp_path, monkeypatch):
    long = run_folder(tmp_path / "long", rows(20_000))
    whole = load(long)
    assert len(whole.n) <= 600
    assert whole.n[0] == 100
    assert whole.n[-1] == 2_000_000
    spans = np.diff(whole.n, prepend=0)
    total = sum(100 / i for i in range(1, 20_001))
    assert np.sum(whole.columns["loss"] * spans) == pytest.approx(total)
    assert whole.columns["rate"] == pytest.approx(np.full(len(whole.n), 200.0))
    assert np.nansum(whole.columns["checkpoint"] > 0) > 100
    assert whole.drifts[:1] != [5000]  # of many the last
    page.write([long], load_all([long]), tmp_path / "long.html")
    assert (tmp_path / "long.html").stat().st_size < 2_000_000
    monkeypatch.setattr(logs, "WHOLE", 1 << 20)  # then lines here and there are read
    some = load(long)
    assert 300 < len(some.n) <= 600
    assert (some.n[0], some.n[-1]) == (100, 2_000_000)
    assert (np.diff(some.n) > 0).all()


def test_lines_that_are_no_reports_are_left_out_and_told(tmp_path, capsys):
    run = run_folder(tmp_path / "run", rows(5))
    with open(run / "log.jsonl", "a") as log:
        log.write('{"n": 4\n[1]\n{"n": "x"}\n{"n": NaN}\n\xff\n{"m": 1}\n{"n": 600, "MAE": 1.0}\n{"n": 700, "MA')
    found = load(run)
    assert found.n.tolist() == [100, 200, 300, 400, 500, 600]
    assert capsys.readouterr().err == f"warning: {run}/log.jsonl: 6 broken lines were left out\n"


def test_a_folder_that_is_half_written(tmp_path, capsys):
    assert main(["report", str(tmp_path), "--output", str(tmp_path / "x.html")]) == 2
    assert "expected the folder of a run (with definition.toml and log.jsonl)" in capsys.readouterr().err
    (tmp_path / "definition.toml").touch()
    (tmp_path / "log.jsonl").write_text('{"n": 1, "ra')
    assert main(["report", str(tmp_path), "--output", str(tmp_path / "x.html")]) == 2
    assert "log.jsonl: no reports yet; let the run go on for a while" in capsys.readouterr().err
    (tmp_path / "log.jsonl").write_text(f'{{"n": 1, "MAE": 1{"0" * 400}}}\n{{"n": 1{"0" * 400}, "MAE": 1.0}}\n')
    assert main(["report", str(tmp_path), "--output", str(tmp_path / "x.html")]) == 2
    assert "log.jsonl: its reports hold no number that could be drawn" in capsys.readouterr().err
    (tmp_path / "log.jsonl").write_text('{"n": 1, "rate": 2.0, "road": "row by row"}\n')
    (tmp_path / "checkpoint").write_bytes(b"FW")
    (tmp_path / "summary.json").write_text('{"state": "failed", "error": "<b>it</b>"')
    assert main(["report", str(tmp_path), "--output", str(tmp_path / "x.html")]) == 0
    assert len(charts_in((tmp_path / "x.html").read_text())) == 1
    assert "row by row" not in (tmp_path / "x.html").read_text()  # for the log alone
    (tmp_path / "summary.json").write_text('{"state": "failed", "error": "<b>it</b>"}')
    page.write([tmp_path], load_all([tmp_path]), tmp_path / "x.html")
    assert "failed: &lt;b&gt;it&lt;/b&gt;</p>" in (tmp_path / "x.html").read_text()


def test_the_largest_weights_of_a_run_by_their_names(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    sample = json.dumps({SCRIPT: 1.0, "b": -1.0, "y": 2.0})
    (tmp_path / "a.jsonl").write_text(f"{sample}\n" * 50)
    source = '{ class = "JSONLinesSource", path = "a.jsonl", target = "y" }'
    (tmp_path / "a.toml").write_text(f'source = {source}\nmodel = "LinearRegression"\nmonitors = ["MAE"]\n')
    assert main(["run", "a.toml", "--quiet"]) == 0
    assert main(["report", "runs/a"]) == 0
    assert capsys.readouterr().out == "drawn: runs/a/report.png\nwritten: runs/a/report.html\n"
    text = (tmp_path / "runs/a/report.html").read_text()
    assert "<script>alert" not in text
    chart = charts_in(text)[-1]
    assert [value["s"] for value in chart["datasets"]["points"]] == [SCRIPT, "b"]
    svg = drawn(chart)
    assert svg.count('aria-roledescription="bar"') == 2
    assert "&lt;script&gt;" in svg


def test_a_matrix_is_drawn_with_neighbours_taken_together():
    matrix = np.diag(np.arange(-50.0, 51.0))
    chart = vega.heat_map(matrix, [str(i) for i in range(101)], 50.0)
    assert len(chart["datasets"]["points"]) == 3600
    assert max(value["v"] for value in chart["datasets"]["points"]) == 50.0
    small = vega.heat_map(matrix[:3, :3], ["a", SCRIPT, "c"], 50.0)
    assert drawn(small).count('aria-roledescription="rect mark"') == 9


def test_the_truth_of_a_simulated_covariance_is_known(tmp_path):
    source = 'source = { class = "BlockCovariance", n_features = 6, n_blocks = 2 }\nrun = { seed = 3 }\n'
    (tmp_path / "definition.toml").write_text(source)
    from fwonline.datasets import BlockCovariance

    assert (page._truth(tmp_path, 6) == BlockCovariance(6, 2, seed=3).covariance).all()
    assert page._truth(tmp_path, 7) is None


def test_names_that_look_alike_stay_apart():
    assert page._told_apart([("1", 1.0), ("1", 2.0)]) == [("1", 1.0), ("1 [2]", 2.0)]


def test_without_the_library_the_picture_is_drawn_all_the_same(full, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    assert main(["report", str(full), "--output", str(tmp_path / "x.png")]) == 0
    said = capsys.readouterr()
    assert said.out == f"drawn: {tmp_path / 'x.png'}\n"
    assert re.search(r"not written: .*x\.html: a page needs vl-convert-python: .*install .*\[report\]'", said.err)
    assert main(["report", str(full), "--output", str(tmp_path / "x.html")]) == 1


def test_panels_of_nothing():
    assert panels_of([logs.Log("a", np.array([1.0]), {})]) == []
