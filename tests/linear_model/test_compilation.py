"""Nothing is compiled at import, nor by a second process."""

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

import fwonline

ROOT = pathlib.Path(fwonline.__file__).parent


def run(code, cache=None):
    environment = {**os.environ, "PYTHONPATH": str(ROOT.parent)}
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = str(cache)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_compiles_nothing(tmp_path):
    run("import fwonline.linear_model, fwonline.optim, fwonline.losses, fwonline.sets", tmp_path)
    assert not list(tmp_path.rglob("*.nb?"))


@pytest.mark.slow
def test_a_second_process_compiles_nothing(tmp_path):
    code = """
        import collections
        import numpy as np
        from numba.core import event
        from fwonline import optim, sets
        from fwonline.linear_model import FWClassifier, FWRegressor

        compiled = []

        class Listener(event.Listener):
            def on_start(self, e):
                compiled.append(str(e.data.get("dispatcher")))

            def on_end(self, e):
                pass

        event.register("numba:compile", Listener())
        X, y = np.eye(4)[:, :3], np.arange(4.0)
        for make in (lambda: optim.SFW(memory=3, batch_size=2, steps_per_sample=2), optim.MomentumFW, optim.OneSampleFW,
                     type(None), lambda: optim.OFW(memory=3), lambda: optim.ProjectedSGD(0.1)):
            for constraint in (sets.L1Ball(1.0), sets.ProbabilitySimplex(), sets.L2Ball(1.0), sets.KSparseBall(1, 1.0)):
                for kind in (FWRegressor, FWClassifier):
                    model = kind(constraint, make(), intercept=True, seed=0)
                    for t in range(8):
                        model.learn_one({"a": 1.0, t: 1.0}, t % 2)
                        model.predict_one({"a": 1.0})
                    model = kind(constraint, make(), intercept=True, seed=0)
                    model.learn_arrays(X, y % 2)
                    model.exact_gap
            (make() or optim.StochasticPairwiseFW()).minimize(X, y, constraint=sets.L1Ball(1.0), steps=5, seed=0)
        print(*compiled, sep="\\n")
    """
    run(code, tmp_path)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb?")}
    assert files
    # Loading from the cache is announced as a compilation too; a real one would leave a file.
    run(code, tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb?")} == files
