"""The pages that are made of the code: the reference, one page a public module, and the list of the papers' figures."""

from __future__ import annotations

import importlib
import re
import shutil
from pathlib import Path

__all__ = ["MODULES", "write_pages"]

MODULES = {
    "linear_model": "Linear models",
    "sets": "Sets",
    "optim": "Optimizers",
    "optim.schedules": "Step sizes",
    "optim.river": "Optimizers for river's models",
    "losses": "Losses",
    "monitors": "Monitors",
    "covariance": "Covariances",
    "reco": "Ratings",
    "cluster": "Clustering",
    "tables": "Tables",
    "stream": "Sources and sinks",
    "loop": "The loop",
    "checkpoint": "Checkpoints",
    "definition": "Definitions of runs",
    "datasets": "Simulated streams and the papers' data",
    "compat.sklearn": "For scikit-learn",
    "exceptions": "Errors",
}


#: Pages that stand beside the code, so that they are read there, too.
READMES = {
    "choosing-an-optimizer": "fwonline/optim/README.md",
    "covariance": "fwonline/covariance/README.md",
    "kafka": "fwonline/stream/kafka/README.md",
}

_LINK = re.compile(r"(!?)\[([^\[\]]*)\]\((?!https?:|#)([^()\s]+)\)")


def write_pages(site: Path) -> None:
    """Write the pages into the folder of the site."""
    root = site.parents[1]
    (site / "generated").mkdir(exist_ok=True)
    for name, readme in READMES.items():
        _write(site / f"{name}.md", [_without_links((root / readme).read_text(encoding="utf-8"), root / readme, site)])
    contributing = (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for name, title in (("layout", "Layout"), ("walk", "A walk of one sample")):
        section = contributing.split(f"## {title}\n")[1].split("\n## ")[0]
        _write(site / "generated" / f"{name}.md", [section])
    api = site / "api"
    api.mkdir(exist_ok=True)
    names = []
    for name, title in MODULES.items():
        module = importlib.import_module(f"fwonline.{name}")
        head = [title, "=" * len(title), "", f".. currentmodule:: fwonline.{name}", "", (module.__doc__ or "").strip()]
        table = [".. autosummary::", "   :toctree: generated", "   :nosignatures:", ""]
        members = [f"   {each}" for each in sorted(module.__all__, key=str.lower)]
        names.append(name.replace(".", "-"))
        _write(api / f"{names[-1]}.rst", [*head, "", *table, *members])
    whole = [".. currentmodule:: fwonline", "", ".. autosummary::", "   :toctree: generated", "", "   load_model", ""]
    title = [
        "Reference",
        "=========",
        "",
        "What each part has, what a step costs, what it raises, where it is from.",
        "",
    ]
    _write(api / "index.rst", [*title, *whole, ".. toctree::", "   :maxdepth: 1", "", *(f"   {n}" for n in names)])
    _write_figures(site / "generated")


def _without_links(text: str, source: Path, site: Path) -> str:
    """Return a page whose pictures stand beside it, and whose links to other files of the repository are text."""

    def plain(match: re.Match) -> str:
        is_picture, words, to = match.groups()
        if is_picture:
            shutil.copyfile(source.parent / to, site / "generated" / Path(to).name)
            return f"![{words}](generated/{Path(to).name})"
        return words

    return _LINK.sub(plain, text)


def _write_figures(folder: Path) -> None:
    from tools.papers.figures import FIGURES

    rows = [(f"``{name}``", figure.title) for name, figure in FIGURES.items()]
    lines = [".. list-table::", "   :header-rows: 1", "", "   * - name", "     - what it redraws"]
    for name, title in rows:
        lines += [f"   * - {name}", f"     - {title}"]
    _write(folder / "papers.rst", lines)


def _write(path: Path, lines: list[str]) -> None:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
