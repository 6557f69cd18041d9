"""``report.html``: one file with everything in it, to look into the runs that it shows; it asks no network."""

from __future__ import annotations

import contextlib
import html
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fwonline._cli.compare import rows_of
from fwonline._cli.files import replacing
from fwonline._cli.folder import RunFolder
from fwonline._cli.report import vega
from fwonline._cli.report.logs import Log
from fwonline._cli.report.panels import lines, panels_of
from fwonline.definition import read_definition
from fwonline.exceptions import FWOnlineError

__all__ = ["HOW", "charts_of", "curves_of", "facts", "libraries", "whole", "write"]

_FEW = 4  # runs whose models are shown
_WEIGHTS = 25
_VISIBLE = 0.005  # of the largest one
_SLOPES = {"AdaptiveOFW": 0.75, "AdversarialOFW": 0.75}  # of the regret's bound; 0.5 for the others
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --dim: #666; --paper: #fff; --card: #fff; --line: #d9d9d9 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e8; --dim: #a0a0a0; --paper: #121416; --card: #1b1e21; --line: #33383d } }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  padding: 1.2rem; max-width: 1500px }
h1 { font-size: 1.4rem; margin: 0 0 .3rem; overflow-wrap: anywhere }
p { color: var(--dim); margin: .2rem 0 1rem }
.failed { color: #d55e00; font-weight: 600; white-space: pre-wrap; overflow-wrap: anywhere }
.wide { overflow-x: auto; margin-bottom: 1.2rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 14px }
th, td { padding: .15rem .8rem .15rem 0; border-bottom: 1px solid var(--line); text-align: right }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); gap: .5rem 1.2rem; margin: 0 }
dt { color: var(--dim); font-size: 13px; overflow-wrap: anywhere } dd { margin: 0; font-variant-numeric: tabular-nums }
th:first-child { text-align: left; font-weight: 400; color: var(--dim) }
main { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fill, minmax(min(440px, 100%), 1fr)) }
figure { margin: 0; padding: .7rem .9rem; background: var(--card); border: 1px solid var(--line); border-radius: 6px;
  min-width: 0 }
figcaption { font-weight: 600; margin-bottom: .3rem; overflow-wrap: anywhere }
.chart { width: 100% }
.chart svg text { fill: var(--ink) }
details { margin-top: 1.2rem } pre { overflow-x: auto; font-size: 13px }
#vg-tooltip-element { color: #1b1b1b }
"""

HOW = "Point at a curve for its values, click a name below one to see it alone; shift and wheel, or drag, zooms."
# All that is not the libraries' own: draw each chart in its place, tell where one cannot be drawn.
_GLUE = """
const charts = JSON.parse(document.getElementById("charts").textContent);
charts.forEach((chart, i) => {
  const place = document.getElementById(`chart-${i}`);
  vegaEmbed(place, chart, { renderer: "svg", actions: false, ast: true, tooltip: { theme: "light" } })
    .then(() => { place.dataset.drawn = "yes"; })
    .catch((error) => { place.textContent = `not drawn: ${error}`; });
});
"""


def write(runs: Sequence[Path], logs: Sequence[Log], output: Path) -> None:
    """Write the page of `runs`, whose logs are given.

    Raises ImportError when vl-convert is not installed.
    """
    titles, charts = zip(*charts_of(runs, logs), strict=True)
    script = libraries()
    names = [log.name for log in logs]
    title = " and ".join(names) if len(names) <= 2 else f"{len(names)} runs"
    figures = "\n".join(
        f'<figure><figcaption>{_text(title)}</figcaption><div class="chart" id="chart-{i}"></div></figure>'
        for i, title in enumerate(titles)
    )
    # JSON inside a script ends at "</script", and a comment may begin in it: no "<" is left
    data = json.dumps(charts, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    body = f"""<p>{HOW}</p>
{"".join(_failures(runs))}
<div class="wide">{facts(runs, names)}</div>
<noscript><p>The charts need JavaScript, which stands in this file.</p></noscript>
<main>
{figures}
</main>
{"".join(_definitions(runs, names))}
<script type="application/json" id="charts">{data}</script>"""
    with replacing(output) as file:
        file.write(whole(title, body, script, _GLUE, _POLICY))


def libraries() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script. Raises ImportError when vl-convert is not installed."""
    import vl_convert

    # its annotations ask for what its documentation makes optional
    return vl_convert.javascript_bundle().replace("</script", "<\\/script")  # type: ignore[call-arg]


def whole(title: str, body: str, script: str, glue: str, policy: str) -> str:
    """A page."""
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{_text(title)}</title><style>{_STYLE}</style></head><body>
<h1>{_text(title)}</h1>
{body}
<script>{script}</script>
<script>{glue}</script>
</body></html>
"""


def charts_of(runs: Sequence[Path], logs: Sequence[Log]) -> Iterator[tuple[str, vega.Chart]]:
    """Titles and charts: the curves of all runs over one another, then what each has learned."""
    yield from curves_of(runs, logs)
    for path, log in list(zip(runs, logs, strict=True))[:_FEW]:
        for title, chart in _model(path):
            yield title + (f": {log.name}" if len(logs) > 1 else ""), chart


def curves_of(runs: Sequence[Path], logs: Sequence[Log]) -> Iterator[tuple[str, vega.Chart]]:
    """Titles and charts of the curves of all runs, over one another."""
    panels = panels_of(logs)
    n_curves = sum(len(list(lines(panel.keys))) for panel in panels) * len(logs)
    slope = _slope(runs[0])
    for panel in panels:
        title, chart = vega.chart(panel, logs, n_curves, slope)
        if panel.slope:
            title += f" (dashed: slope {slope:g})"
        yield title, chart


def _slope(run: Path) -> float:
    """The power of T in the regret's bound of a run's optimizer."""
    text = RunFolder(run).definition.read_text(encoding="utf-8", errors="replace")
    return next((slope for name, slope in _SLOPES.items() if name in text), 0.5)


def _model(run: Path) -> Iterator[tuple[str, vega.Chart]]:
    """What the model of the last checkpoint looks like, where there is one."""
    from fwonline._cli.learned.show import weights_of
    from fwonline._cli.learned.state import load_state
    from fwonline._pipeline import final_estimator

    try:
        model = load_state(run)["model"]
    except FWOnlineError:  # none yet, or of another version: the curves are there all the same
        return
    weights = weights_of(model)[:_WEIGHTS]
    if weights := [weight for weight in weights if abs(weight[2]) >= _VISIBLE * abs(weights[0][2])]:
        named = [(str(name) if label is None else f"{name} ({label})", weight) for label, name, weight in weights]
        yield "Largest weights", vega.bars(_told_apart(named))
    final = final_estimator(model)
    if not (hasattr(final, "correlation") and hasattr(final, "to_numpy")):
        return
    estimate, features = final.to_numpy(), list(final.features)
    if not len(estimate):
        return
    matrices = {"Covariance, as learned": estimate}
    if (truth := _truth(run, len(estimate))) is not None:
        order = np.argsort([_position(name) for name in features])
        matrices = {"Covariance, as learned": estimate[np.ix_(order, order)], "Covariance, the truth": truth}
        features = [features[i] for i in order]
    most = max(float(np.abs(matrix).max()) for matrix in matrices.values()) or 1.0
    for title, matrix in matrices.items():
        yield title, vega.heat_map(matrix, [str(name) for name in features], most)


def _told_apart(named: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """Different names: two features may look alike as text."""
    seen: dict[str, int] = {}
    found = []
    for name, weight in named:
        seen[name] = seen.get(name, 0) + 1
        found.append((name if seen[name] == 1 else f"{name} [{seen[name]}]", weight))
    return found


def _position(name: Any) -> int:
    digits = "".join(filter(str.isdigit, str(name)))
    return int(digits) if digits else 0


def _truth(run: Path, n_features: int) -> np.ndarray | None:
    """The covariance that the simulated source of a run draws from."""
    values = read_definition(RunFolder(run).definition).values
    source = values.get("source")
    if (
        not isinstance(source, dict)
        or source.get("class") != "BlockCovariance"
        or source.get("n_features") != n_features
    ):
        return None
    from fwonline.datasets import BlockCovariance

    parameters = {key: value for key, value in source.items() if key != "class"}
    with contextlib.suppress(TypeError, ValueError, AttributeError):
        return BlockCovariance(**{"seed": values.get("run", {}).get("seed"), **parameters}).covariance
    return None


# Text


def _text(text: str) -> str:
    return html.escape(str(text))


def _failures(runs: Sequence[Path]) -> Iterator[str]:
    for run in runs:
        if error := RunFolder(run).read_summary().get("error"):
            yield f'<p class="failed">{_text(f"{run.name} failed: {error}")}</p>'


def facts(runs: Sequence[Path], names: Sequence[str]) -> str:
    """How runs stand, and in what their definitions differ, as HTML."""
    rows = rows_of([RunFolder(run) for run in runs])
    if len(runs) == 1:
        cells = (f"<div><dt>{_text(label)}</dt><dd>{_text(values[0])}</dd></div>" for label, values in rows.items())
        return f"<dl>{''.join(cells)}</dl>"
    head = "".join(f"<th>{_text(name)}</th>" for name in names)
    body = "".join(
        f"<tr><th>{_text(label)}</th>{''.join(f'<td>{_text(value)}</td>' for value in values)}</tr>"
        for label, values in rows.items()
    )
    return f"<table><tr><th></th>{head}</tr>{body}</table>"


def _definitions(runs: Sequence[Path], names: Sequence[str]) -> Iterator[str]:
    for run, name in list(zip(runs, names, strict=True))[:_FEW]:
        text = read_definition(RunFolder(run).definition).text
        yield f"<details><summary>Definition of {_text(name)}</summary><pre>{_text(text)}</pre></details>"
