"""The guide: its commands run, its links lead somewhere. (What it shows in Python is run by doctest.)"""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from fwonline.cli import main
from tools.site.build import broken_links, build

SITE = Path(__file__).parents[2] / "tools" / "site"
STREAMS = SITE.parents[1] / "streams"
COMMANDS = {
    page.stem: re.findall(r"^   \$ fwonline (.+)$", page.read_text(), re.MULTILINE)
    for page in sorted(SITE.glob("*.rst"))
}


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] if any("--set" in command for command in commands) else [])
        for page, commands in COMMANDS.items()
        if commands
    ],
)
def test_the_commands_of_a_page_run(page, tmp_path, monkeypatch, capsys):
    shutil.copytree(STREAMS, tmp_path / "streams")
    monkeypatch.chdir(tmp_path)
    for command in COMMANDS[page]:
        assert main(shlex.split(command)) == 0, command
        assert capsys.readouterr().out, command


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    (tmp_path / "a.html").write_text('<a href="b.html#here">b</a><a href="c.html">c</a><a href="https://x.org">x</a>')
    (tmp_path / "b.html").write_text('<p id="there"></p><img src="p.png">')
    assert broken_links(tmp_path) == ["a.html: b.html#here", "a.html: c.html", "b.html: p.png"]


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path):
    pytest.importorskip("sphinx_gallery")
    assert build(tmp_path) == 0
    assert broken_links(tmp_path) == []
    assert "plot_regret_and_gap" in (tmp_path / "regret-and-gap.html").read_text()
