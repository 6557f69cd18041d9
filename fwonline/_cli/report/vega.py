"""Panels as charts of Vega-Lite: plain values, in which a name from elsewhere is a datum and never a field."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fwonline._cli.report.logs import Log
from fwonline._cli.report.panels import COLORS, Panel, label_of, lines, scale_of

__all__ = ["bars", "chart", "heat_map"]

Chart = dict[str, Any]

_COLORS = (*COLORS[:-1], "#8a8a8a")  # no black, which the dark page would swallow
_POINTS = 40_000  # of all curves of a page
_HOVER = 60  # points of a curve that tell their values
_CELLS = 60  # rows of a heat map; of a larger matrix neighbours are taken together
_DRAG = "[pointerdown[event.shiftKey], window:pointerup] > window:pointermove!"  # without shift the page scrolls
_ZOOM = {"type": "interval", "encodings": ["x"], "zoom": "wheel![event.shiftKey]", "translate": _DRAG, "on": _DRAG}
_CONFIG = {
    "view": {"stroke": None},
    "axis": {"gridColor": "#80808033", "domainColor": "#808080", "tickColor": "#808080", "labelOverlap": "greedy"},
    "legend": {"orient": "bottom", "title": None, "labelLimit": 260, "columns": 2, "symbolStrokeWidth": 3},
}


def chart(panel: Panel, logs: Sequence[Log], n_curves: int, slope: float) -> tuple[str, Chart]:
    """The title of a panel and its chart, one of `n_curves` curves on a page; regret is compared with a slope."""
    most = int(np.clip(_POINTS // max(1, n_curves), 40, 600))
    values, order = [], []
    for label, log, low, high in _curves(panel, logs):
        order.append(label)
        values += _points(label, *log.curve(low, high), most, positive=panel.slope or panel.log_scale)
    has_bands, is_log = any("l" in value for value in values), (panel.log_scale or panel.slope) and bool(values)
    y: dict[str, Any] = {"field": "v", "type": "quantitative", "title": None, "scale": {"zero": False}}
    title = panel.title
    if is_log:
        y |= {"scale": {"type": "log"}, "axis": {"format": ".0e", "tickCount": 5}}
    elif panel.from_zero:
        title, top = scale_of(panel, max((value["v"] for value in values), default=0.0))
        y["scale"] = {"domain": [0.0, 1.05 * top], "nice": False}
        if top < 1e-3:
            y["axis"] = {"format": ".1e"}
    x: dict[str, Any] = {"field": "n", "type": "quantitative", "title": "samples", "axis": {"format": "~s"}}
    x["scale"] = {"type": "log"} if is_log and panel.slope else {"nice": False}
    color: dict[str, Any] = {
        "field": "s",
        "type": "nominal",
        "scale": {"domain": order, "range": _colors(len(order))},
        "sort": None,
    }
    color["legend"] = {"symbolOpacity": 1} if len(order) > 1 else None
    faded = {"condition": {"param": "pick", "value": 1}, "value": 0.15}
    both = {"x": x, "y": y, "color": color}
    layers: list[Chart] = [
        {
            "mark": {"type": "line", "strokeWidth": 1.6, "clip": True},
            "encoding": {**both, "opacity": faded},
            "params": [
                {"name": "zoom", "select": _ZOOM, "bind": "scales"},
                {"name": "pick", "select": {"type": "point", "fields": ["s"]}, "bind": "legend"},
            ],
        },
        {
            "transform": [{"filter": "datum.h"}],
            "mark": {"type": "point", "filled": True, "size": 70, "clip": True},
            "encoding": {**both, "opacity": _seen_or_hovered(values), "tooltip": _tooltip(has_bands)},
            "params": [{"name": "near", "select": {"type": "point", "on": "pointerover", "clear": "pointerout"}}],
        },
    ]
    if has_bands:
        lower = {"field": "l", "type": "quantitative"}
        area = {"type": "area", "opacity": 0.25, "clip": True}
        edge = {"type": "line", "strokeWidth": 0.8, "clip": True}
        layers[:0] = [
            {"mark": area, "encoding": {**both, "y2": {"field": "l"}}},
            {"mark": edge, "encoding": {**both, "y": {**y, **lower}}},
        ]
    found = _frame(values)
    if panel.slope and is_log:
        found["datasets"]["slope"] = _slope(values, slope)
        dashed = {"type": "line", "strokeDash": [6, 4], "color": "#808080", "clip": True}
        layers.append({"data": {"name": "slope"}, "mark": dashed, "encoding": {"x": x, "y": y}})
    if panel.has_drifts and len(logs) == 1 and logs[0].drifts:
        found["datasets"]["drifts"] = [{"n": n} for n in logs[0].drifts]
        layers.append(_drifts(x))
    return title, {**found, "layer": layers}


def _frame(values: list[dict[str, Any]], height: int = 210) -> Chart:
    schema = "https://vega.github.io/schema/vega-lite/v5.json"
    size = {"width": "container", "height": height, "background": "transparent"}
    return {"$schema": schema, **size, **_named(values), "config": _CONFIG}


def _named(values: list[dict[str, Any]]) -> Chart:
    """The data by a name, under which a page that is shown may get others."""
    return {"data": {"name": "points"}, "datasets": {"points": values}}


def _curves(panel: Panel, logs: Sequence[Log]) -> Iterable[tuple[str, Log, str, str]]:
    several = list(lines(panel.keys))
    for log in logs:
        for label, low, high in several:
            if low in log.columns and high in log.columns:
                shown = label_of(label)
                if len(logs) > 1:
                    shown = log.name if len(several) == 1 else f"{shown} ({log.name})"
                yield shown, log, low, high


def _points(
    label: str, n: np.ndarray, lows: np.ndarray, highs: np.ndarray, most: int, *, positive: bool
) -> list[dict[str, Any]]:
    """The points of a curve; `h` are those that tell their value, `l` is the lower end of an interval."""
    if positive:  # a logarithm shows no others
        lows, highs, n = lows[highs > 0], highs[highs > 0], n[highs > 0]
        lows = np.maximum(lows, 1e-3 * highs) if not np.array_equal(lows, highs) else lows
    if len(n) > most:
        kept = np.unique(np.linspace(0, len(n) - 1, most).round().astype(int))
        n, lows, highs = n[kept], lows[kept], highs[kept]
    told = set(np.unique(np.linspace(0, len(n) - 1, min(_HOVER, len(n))).round().astype(int)).tolist())
    is_band = not np.array_equal(lows, highs)
    found = []
    for i, (at, low, high) in enumerate(zip(n.tolist(), lows.tolist(), highs.tolist(), strict=True)):
        point: dict[str, Any] = {"n": int(at), "v": _rounded(high), "s": label}
        if is_band:
            point["l"] = _rounded(low)
        if i in told:
            point["h"] = 1
        found.append(point)
    return found


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


def _colors(n: int) -> list[str]:
    return [_COLORS[i % len(_COLORS)] for i in range(n)]


def _seen_or_hovered(values: list[dict[str, Any]]) -> dict[str, Any]:
    """Points are seen where they are few, else where the pointer is."""
    few = len(values) <= 25
    return {"condition": {"param": "near", "empty": False, "value": 1}, "value": 0.9 if few else 0.0}


def _tooltip(has_bands: bool) -> list[dict[str, Any]]:
    told = [
        {"field": "s", "type": "nominal", "title": "curve"},
        {"field": "n", "type": "quantitative", "title": "samples", "format": ","},
        {"field": "v", "type": "quantitative", "title": "at most" if has_bands else "value", "format": ".5~g"},
    ]
    return [*told, {"field": "l", "type": "quantitative", "title": "at least", "format": ".5~g"}] if has_bands else told


def _slope(values: list[dict[str, Any]], slope: float) -> list[dict[str, Any]]:
    """The ends of a line of the slope that theory gives, a little above the end of the last curve."""
    last = values[-1]
    first = min(value["n"] for value in values)
    return [{"n": n, "v": _rounded(1.5 * last["v"] * (n / last["n"]) ** slope)} for n in (first, last["n"])]


def _drifts(x: dict[str, Any]) -> Chart:
    told = [{"field": "n", "type": "quantitative", "title": "drift found at", "format": ","}]
    mark = {"type": "rule", "strokeDash": [3, 3], "color": "#808080", "strokeWidth": 1.4, "clip": True}
    return {"data": {"name": "drifts"}, "mark": mark, "encoding": {"x": x, "tooltip": told}}


def bars(weights: Sequence[tuple[str, float]]) -> Chart:
    """Names and numbers, in their order."""
    values = [{"s": name, "v": _rounded(weight)} for name, weight in weights]
    y = {"field": "s", "type": "nominal", "sort": None, "title": None, "axis": {"labelLimit": 180}}
    x = {"field": "v", "type": "quantitative", "title": "weight"}
    color = {"condition": {"test": "datum.v < 0", "value": _COLORS[1]}, "value": _COLORS[0]}
    told = [{"field": "s", "title": "feature"}, {"field": "v", "type": "quantitative", "format": ".5~g"}]
    encoding = {"x": x, "y": y, "color": color, "tooltip": told}
    return {**_frame(values, 14 * len(values) + 20), "mark": "bar", "encoding": encoding}


def heat_map(matrix: np.ndarray, names: Sequence[str], most: float) -> Chart:
    """A square matrix, of which neighbours are taken together where it is large; colours end at `most`."""
    parts = np.array_split(np.arange(len(matrix)), min(len(matrix), _CELLS))
    values = []
    for row in parts:
        for column in parts:
            block = matrix[np.ix_(row, column)]
            value = float(block.flat[np.abs(block).argmax()])  # the one that weighs most
            at = {"a": int(row[0]), "b": int(column[0]), "s": f"{names[row[0]]}, {names[column[0]]}"}
            values.append({**at, "v": _rounded(value)})
    axis = {"labels": False, "ticks": False, "domain": False}
    place = {
        key: {"field": field, "type": "ordinal", "title": None, "axis": axis} for key, field in (("y", "a"), ("x", "b"))
    }
    scale = {"scheme": "blueorange", "domain": [-most, most], "domainMid": 0}
    color = {"field": "v", "type": "quantitative", "scale": scale, "legend": {"gradientLength": 180}}
    told = [{"field": "s", "title": "features"}, {"field": "v", "type": "quantitative", "format": ".5~g"}]
    return {**_frame(values, 300), "mark": "rect", "encoding": {**place, "color": color, "tooltip": told}}
