"""What a run loads, and how packages wait for what is asked of them."""

import gc
import importlib
import importlib.util
import subprocess
import sys

import pytest

from fwonline._cli.opening import _Loader, open_when_asked, uncollected

DEFINITION = """
source = { class = "CSVSource", path = "rows.csv", target = "y" }
model = ["StandardScaler", { class = "FWClassifier", constraint = { class = "L1Ball", radius = 2.0 } }]
monitors = ["Accuracy", "Gap"]
"""
RUN = """
import sys
from fwonline.cli import main
assert main(["run", sys.argv[1], "--output", sys.argv[2]]) == 0
print(*sys.modules, file=sys.stderr)
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """The modules of a process that has learned a file, with a scaler and a metric of river's, and saved the model."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "rows.csv").write_text("a,y\n" + "1,1\n-1,0\n" * 20)
    (folder / "run.toml").write_text(DEFINITION)
    words = [sys.executable, "-c", RUN, str(folder / "run.toml"), str(folder / "runs")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Accuracy" in done.stdout
    return set(done.stderr.split())


@pytest.mark.parametrize(
    "module",
    [
        *("scipy.stats", "scipy.optimize", "scipy.integrate", "scipy.sparse.linalg"),
        *("scipy.special._ufuncs", "numpy.f2py.crackfortran", "numpy.testing._private"),
        *("sklearn", "pandas", "pyarrow", "polars", "matplotlib", "rich", "kafka"),
        *("river.stream", "river.datasets", "river.tree", "river.metrics.roc_auc", "river.metrics.geometric_mean"),
        *("fwonline.loop.group", "fwonline.covariance", "fwonline.reco", "fwonline.datasets"),
        *(
            "fwonline.optim.hindsight",
            "fwonline.optim.composite.base",
            "fwonline._cli.report",
            "fwonline.stream.sinks",
            "fwonline.stream.arrays",
        ),
    ],
)
def test_a_run_leaves_out_what_it_does_not_name(loaded, module):
    assert module not in loaded


def test_a_run_loads_what_it_names(loaded):
    named = {"river.metrics.accuracy", "river.preprocessing.scale", "fwonline.monitors.gap", "fwonline.stream.csvfile"}
    assert named <= loaded


def test_where_the_libraries_are_in_use_nothing_is_changed():
    importlib.import_module("river")
    before = list(sys.meta_path)
    open_when_asked()
    assert sys.meta_path == before


def test_garbage_is_looked_for_again_afterwards():
    with uncollected():
        assert not gc.isenabled()
    assert gc.isenabled()


@pytest.fixture
def package(tmp_path, request):
    """A package of two modules, `one` and `two`, with the ``__init__`` of the test."""
    name = "waits"
    (tmp_path / "__init__.py").write_text(request.param)
    (tmp_path / "one.py").write_text("One = 1")
    (tmp_path / "two.py").write_text("Two = 2\none = 3")
    path = str(tmp_path / "__init__.py")
    spec = importlib.util.spec_from_file_location(
        name, path, loader=_Loader(name, path), submodule_search_locations=[str(tmp_path)]
    )
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        for key in [key for key in sys.modules if key.partition(".")[0] == name]:
            del sys.modules[key]


PLAIN = '''
"""What it is."""
from __future__ import annotations
import os
from . import two
from .one import One as First
from waits.two import Two
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from .nowhere import Nothing
__all__ = ["First", "Two", "two"]
def here():
    return os.sep
'''


@pytest.mark.parametrize("package", [PLAIN], indirect=True)
def test_a_package_waits_until_it_is_asked(package):
    assert package.__doc__ == "What it is."
    assert package.__all__ == ["First", "Two", "two"]
    assert package.here()
    assert {"First", "Two", "two", "here"} <= set(dir(package))
    assert not {"waits.one", "waits.two"} & set(sys.modules)
    assert package.one.One == package.First == 1  # a module of which a name waits is there, too
    assert "waits.two" not in sys.modules
    assert package.Two == package.two.Two == 2
    assert not hasattr(package, "three")
    with pytest.raises(AttributeError, match=r"module 'waits' has no attribute 'One'"):
        _ = package.One


@pytest.mark.parametrize("package", ["from .one import One\ndef here(of: int): ..."], indirect=True)
def test_what_is_run_is_compiled_as_it_stands(package):
    assert package.here.__annotations__ == {"of": int}  # this package has no annotations that wait


@pytest.mark.parametrize(
    "package",
    [
        "from .one import One\nif One:\n    from .two import Two",
        "from .one import One\ntwice = 2 * One",
        "from .one import *",
        "from .one import One\ndef one():\n    return One",
        "from .one import One\nfrom .two import one",  # which the module of that name would hide
        "from .one import One\nclass Own:\n    value = One",
        "from .one import One\nTYPE_CHECKING = 0\nif TYPE_CHECKING:\n    pass\nelse:\n    from .two import Two",
    ],
    indirect=True,
)
def test_a_package_that_does_more_is_run_as_it_is(package):
    assert vars(package)["One"] == 1
    assert "waits.one" in sys.modules
