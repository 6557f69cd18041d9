"""What a figure keeps when it is stopped, and what it shows on the way."""

import io

import pytest

from tools.papers import locatello_covariance, parts


def test_a_figure_that_is_stopped_keeps_the_curves_that_are_done(tmp_path, monkeypatch, capsys):
    def stopped(data, at):
        raise KeyboardInterrupt

    first = locatello_covariance.LINES[-1]
    later = locatello_covariance.Line("later", stopped, "red")
    monkeypatch.setattr(locatello_covariance, "LINES", (first, later))
    with pytest.raises(KeyboardInterrupt):
        locatello_covariance.draw(tmp_path / "figure", quick=True)
    kept = (tmp_path / "figure.csv").read_text().splitlines()
    assert kept[0].startswith("method,steps")
    assert len(kept) == 4
    assert all(row.startswith(first.label) for row in kept[1:])
    assert capsys.readouterr().err == ""


def test_a_terminal_shows_how_many_are_done(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    assert list(parts.shown(range(3), "draws")) == [0, 1, 2]
    monkeypatch.setattr(parts.sys, "stderr", terminal := Terminal())
    assert list(parts.shown(range(3), "draws")) == [0, 1, 2]
    assert "draws" in terminal.getvalue()
