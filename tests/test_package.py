"""What `import fwonline` brings, and what it does not."""

import importlib
import pkgutil
import subprocess
import sys

import pytest

import fwonline


def test_import_loads_nothing_of_weight():
    code = """
        import sys
        import fwonline
        heavy = {"numba", "river", "scipy", "numpy", "rich", "msgspec"} & set(sys.modules)
        assert not heavy, heavy
        assert "linear_model" in dir(fwonline)
        assert fwonline.linear_model.FWRegressor.__name__ == "FWRegressor"
        assert "numba" in sys.modules
    """
    code = "\n".join(line.strip() for line in code.splitlines())
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_dir_shows_every_public_part():
    public = {name for _, name, _ in pkgutil.iter_modules(fwonline.__path__) if not name.startswith("_")}
    assert public - {"cli"} <= set(dir(fwonline))
    for name in dir(fwonline):
        assert getattr(fwonline, name) is not None
    assert fwonline.sets is importlib.import_module("fwonline.sets")


def test_what_it_has_not():
    with pytest.raises(AttributeError, match=r"no attribute 'linearmodel'; it has checkpoint, .*linear_model"):
        _ = fwonline.linearmodel
