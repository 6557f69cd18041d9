"""The pages of the reference: one for each public module, made of its ``__all__``."""

from __future__ import annotations

import importlib
from pathlib import Path

__all__ = ["MODULES", "write"]

MODULES = {
    "linear_model": "Linear models",
    "sets": "Sets",
    "optim": "Optimizers",
    "optim.schedules": "Step-size schedules",
    "optim.river": "Optimizers for river's models",
    "losses": "Losses",
    "monitors": "Monitors",
    "covariance": "Covariance",
    "reco": "Ratings",
    "cluster": "Clustering",
    "tables": "Tables",
    "stream": "Sources and sinks",
    "loop": "The loop",
    "checkpoint": "Checkpoints",
    "definition": "Stream definitions",
    "datasets": "Simulated streams and the papers' data",
    "compat.sklearn": "For scikit-learn",
    "exceptions": "Errors",
}


def write(folder: Path) -> None:
    """Write the pages into `folder`."""
    folder.mkdir(exist_ok=True)
    pages = []
    for name, title in MODULES.items():
        module = importlib.import_module(f"fwonline.{name}")
        public = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
        said = (module.__doc__ or "").strip()
        lines = [title, "=" * len(title), "", f".. currentmodule:: fwonline.{name}", "", said, ""]
        lines += [".. autosummary::", "   :toctree: generated", "   :nosignatures:", ""]
        lines += [f"   {each}" for each in sorted(public, key=str.lower)]
        page = name.replace(".", "-")
        (folder / f"{page}.rst").write_text("\n".join(lines) + "\n", encoding="utf-8")
        pages.append(page)
    head = "API reference"
    text = [
        head,
        "=" * len(head),
        "",
        "What each part of the package has, what it costs a step, what it raises, and where it is from.",
        "",
    ]
    text += [".. toctree::", "   :maxdepth: 1", "", *(f"   {page}" for page in pages), ""]
    (folder / "index.rst").write_text("\n".join(text), encoding="utf-8")
