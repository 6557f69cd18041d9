"""Hints name what works from where the user is."""

import sys

from fwonline import _install


def test_a_clone_an_installed_package_and_an_environment_that_is_not_active(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_install, "__file__", str(tmp_path / "site-packages" / "fwonline" / "_install.py"))
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    assert _install.how_to_install("viz") == "pip install 'fwonline[viz]'"
    clone = tmp_path / "site-packages"
    clone.mkdir()
    (clone / "pyproject.toml").write_text('[project]\nname = "fwonline"\n')
    assert _install.how_to_install("viz") == f"pip install '{clone}[viz]'"
    monkeypatch.chdir(clone)
    assert _install.how_to_install("kafka") == "pip install '.[kafka]'"
    monkeypatch.setenv("VIRTUAL_ENV", "elsewhere")
    monkeypatch.setattr(sys, "prefix", str(clone / ".venv"))
    monkeypatch.setattr(sys, "executable", str(clone / ".venv" / "bin" / "python"))
    assert _install.how_to_install("viz") == ".venv/bin/python -m pip install '.[viz]'"
