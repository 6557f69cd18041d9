"""``fwonline report``: the pictures of a run."""

import json
import re
import struct
import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from fwonline.cli import main

pytest.importorskip("matplotlib")

DEFINITION = """
model = { class = "FWRegressor", constraint = { class = "ProbabilitySimplex" }, optimizer = { class = "OFW" } }
monitors = ["MAE", { class = "Gap", every = 100 }, "Regret", "Feasibility", "Support"]
[source]
class = "AdversarialLinear"
n_features = 4
[run]
seed = 1
limit = 600
report_samples = 50
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    definition = folder / "adversary.toml"
    definition.write_text(DEFINITION)
    for name in ("one", "two"):
        assert main(["run", str(definition), "--quiet", "--output", str(folder / name)]) == 0
        definition.write_text(DEFINITION.replace("OFW", "OneSampleFW"))
    return folder


def texts(path):
    root = ET.parse(path).getroot()
    return [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]


def test_a_png_shows_every_panel(runs, capsys):
    assert main(["report", str(runs / "one")]) == 0
    path = runs / "one" / "report.png"
    assert capsys.readouterr().out.startswith(f"drawn: {path}\n")
    from matplotlib.image import imread

    data = path.read_bytes()
    assert data.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", data[16:24])
    assert width == 1280
    assert height > 1500  # seven panels
    picture = imread(path)[:, :, :3]
    curves = (np.abs(picture - np.array([0, 0x72, 0xB2]) / 255) < 0.02).all(axis=2)
    assert curves.sum() > 2000
    inked = curves.any(axis=1)
    panels = np.flatnonzero(np.diff(np.concatenate([[False], inked]).astype(int)) == 1)
    assert len(panels) >= 6


@pytest.mark.slow
def test_an_svg_names_its_curves(runs):
    path = runs / "one.svg"
    assert main(["report", str(runs / "one"), "--output", str(path)]) == 0
    said = texts(path)
    for text in [
        "one",
        "MAE",
        "Frank-Wolfe gap",
        "upper estimate",
        "exact, over the memory",
        "optimizer's own (no bound)",
        "Regret against the best fixed point",
        "Average regret a sample",
        "Weights that are not zero, or rank",
        "most so far",
        "Samples a second",
        "samples",
    ]:
        assert text in said, text
    assert any(text.startswith("Distance to the constraint set: ") for text in said)


@pytest.mark.slow
def test_two_runs_lie_over_one_another(runs):
    path = runs / "both.svg"
    assert main(["report", str(runs / "one"), str(runs / "two"), "--output", str(path)]) == 0
    said = texts(path)
    assert "one and two" in said
    assert "Frank-Wolfe gap: upper estimate" in said  # one curve a run tells them apart; five do not
    assert "exact, over the memory" not in " ".join(said)
    assert said.count("one") == said.count("two") >= 1


def test_a_regret_is_drawn_where_it_was_taken_and_as_a_band(runs):
    from matplotlib.figure import Figure

    from fwonline._cli.report import figure, logs, panels

    log = logs.load(runs / "one")
    n, lows, highs = log.curve("regret_lo", "regret_hi")
    assert n.tolist() == [64, 128, 256, 512, 600]
    assert (lows <= highs).all()
    axes = Figure().subplots()
    log.columns["regret_hi"] = log.columns["regret_hi"] + 1.0
    figure._draw_panel(axes, panels.Panel("Regret", ["regret_lo", "regret_hi"]), [log])
    (band,) = axes.collections
    assert band.get_paths()[0].contains_point((256, lows[2] + 0.5))
    assert not band.get_paths()[0].contains_point((256, lows[2] + 1.5))


def test_runs_of_one_name_are_told_apart_by_their_folders(runs, tmp_path, monkeypatch):
    monkeypatch.chdir(runs)
    assert main(["report", "one", "one", "--output", str(tmp_path / "x.svg")]) == 0
    assert "one and one" in texts(tmp_path / "x.svg")


def test_what_cannot_be_drawn(runs, tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        f"fwonline: {tmp_path}: expected the folder of a run (with definition.toml and log.jsonl)\n"
    )
    (tmp_path / "definition.toml").touch()
    assert main(["report", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        f"fwonline: {tmp_path}/log.jsonl: no reports yet; let the run go on for a while\n"
    )
    with pytest.raises(SystemExit) as end:
        main(["report", str(tmp_path), "--output", "x.gif"])
    assert end.value.code == 2
    assert "expected a file that ends in .png, .svg, .pdf or .html, found 'x.gif'" in capsys.readouterr().err


def test_a_log_with_gaps_and_one_report_is_drawn(tmp_path):
    (tmp_path / "definition.toml").touch()
    row = {"n": 7, "rate": 3.0, "MAE": None, "gap_estimate": 0.0, "violation": 0.5, "lag": 3, "what": [1, 2]}
    (tmp_path / "log.jsonl").write_text(json.dumps(row) + "\n" + '{"n": 8, "rate')
    assert main(["report", str(tmp_path), "--output", str(tmp_path / "x.svg")]) == 0
    said = texts(tmp_path / "x.svg")
    assert "Waiting and set aside" in said
    assert "Distance to the constraint set" in said
    assert "MAE" not in said


def test_without_matplotlib_the_message_says_what_to_install(runs):
    code = (
        "import sys\nsys.modules['matplotlib'] = None\nfrom fwonline.cli import main\n"
        f"sys.exit(main(['report', {str(runs / 'one')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.fullmatch(r"fwonline: drawing needs matplotlib: .*pip install .*\[viz\]'\n", done.stderr)
