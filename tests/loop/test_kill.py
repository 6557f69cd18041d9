"""kill -9 at any moment and start again: the same model, bit by bit, and every record once."""

import os
import signal
import sys
import time
import traceback

import numpy as np
import pytest
from river import linear_model, preprocessing
from support.loop_worker import make_loop, result, run, write_rows, write_stream

from fwonline import optim, sets
from fwonline.linear_model import FWClassifier

MODELS = {
    "river": lambda: preprocessing.StandardScaler() | linear_model.LogisticRegression(),
    "fwonline": lambda: preprocessing.StandardScaler() | FWClassifier(sets.L1Ball(5.0), seed=1, intercept=False),
    "bare": lambda: FWClassifier(sets.L1Ball(5.0), optim.SFW(), seed=1, intercept=False),
}


def start(folder, make_model) -> int:
    """Begin or go on with the run in a process of its own: a fork, since importing takes longer than the run."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115
            run(folder, make_model())
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return pid


@pytest.mark.parametrize("most", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_at_random_moments_in_blocks(most, tmp_path):
    write_rows(tmp_path / "stream.csv", 6000)
    loop = kill_and_compare("bare", tmp_path, most)
    assert loop._road.in_blocks
    assert loop.counts.n_learned == 5880
    assert loop.counts.n_rejected == {"malformed": 60, "features": 60}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["river", "fwonline"])
def test_killed_at_random_moments(name, tmp_path):
    write_stream(tmp_path / "stream.csv", 6000)
    loop = kill_and_compare(name, tmp_path, 20)
    assert loop.counts.n_learned > 4000
    assert loop.counts.n_rejected == {"malformed": 60, "features": 60}
    assert loop.counts.n_expired > 100
    assert loop.counts.n_unmatched > 100


def kill_and_compare(name, tmp_path, most):
    """Run to the end; then again, killed so many times, and compare what is left. Returns the first run's loop."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    began = time.perf_counter()
    loop = make_loop(whole, MODELS[name]())
    loop.run()
    for sink in loop.outputs:
        sink.close()
    duration = time.perf_counter() - began
    expected = result(loop)
    rng = np.random.default_rng(5)
    kills = rounds = 0
    while kills < most:
        folder = tmp_path / f"{killed.name}{rounds}"
        folder.mkdir()
        rounds += 1
        while not (folder / "result").exists():
            pid = start(folder, MODELS[name])
            time.sleep(rng.uniform(0.0, duration / 2))
            os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
            kills += os.WIFSIGNALED(status)
        assert (folder / "result").read_bytes() == expected
        for output in ("predictions.jsonl", "rejected.jsonl"):
            assert (folder / output).read_bytes() == (whole / output).read_bytes()
    return loop
