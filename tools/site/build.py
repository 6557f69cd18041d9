"""What builds the site, and looks at its links."""

from __future__ import annotations

import argparse
import html.parser
import urllib.parse
from collections.abc import Sequence
from pathlib import Path

from tools.site.pages import write_pages

__all__ = ["broken_links", "build", "main"]

HERE = Path(__file__).parent


def build(folder: Path) -> int:
    """Build the site into `folder`; return 0 where there was no warning."""
    from sphinx.cmd.build import build_main

    write_pages(HERE)
    return build_main(
        ["-q", "-W", "--keep-going", "-b", "html", "-d", str(folder / ".doctrees"), str(HERE), str(folder)]
    )


class _Links(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name == "id" and value:
                self.ids.add(value)


def broken_links(folder: Path) -> list[str]:
    """Return the links within the site that lead nowhere, each with its page."""
    pages = {}
    for path in folder.rglob("*.html"):
        if "_static" in path.parts:  # the theme's own
            continue
        parser = _Links()
        parser.feed(path.read_text(encoding="utf-8"))
        pages[path.resolve()] = parser
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            to = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            to = to / "index.html" if to.is_dir() else to
            wanted = urllib.parse.unquote(parts.fragment)
            if not to.exists() or (wanted and to in pages and wanted not in pages[to].ids):
                broken.append(f"{path.relative_to(folder.resolve())}: {link}")
    return sorted(set(broken))


def main(argv: Sequence[str]) -> int:
    """Build, check the links, and say where the site is."""
    parser = argparse.ArgumentParser(prog="python -m tools.site", description="Build the guide and its reference.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("build/site"))
    folder = parser.parse_args(argv).folder
    code = build(folder)
    broken = broken_links(folder)
    for line in broken:
        print(f"leads nowhere: {line}")
    if not code and not broken:
        print(f"{folder / 'index.html'}")
    return code or int(bool(broken))
