"""SIGINT and SIGTERM: the sample in hand, a checkpoint, an orderly end."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from river import base, linear_model
from support.block_loops import ByRows
from support.loop_worker import make_loop, result, write_stream
from support.waiting import wait_until

from fwonline.checkpoint import Checkpoint, codec
from fwonline.loop import EventLoop, Observer
from fwonline.stream import JSONLinesSource

WORKER = Path(__file__).parents[1] / "support" / "loop_worker.py"


@codec.register
class Signalling(base.Regressor):
    """Sends itself a signal in the middle of learning."""

    def __init__(self, signals: tuple = ()):
        self.signals = signals
        self.n = 0
        self.done = 0

    def predict_one(self, x):
        return 0.0

    def learn_one(self, x, y):
        self.n += 1
        for n, number in self.signals:
            if n == self.n:
                signal.raise_signal(number)
        self.done += 1


STREAM = [({"a": float(i)}, float(i)) for i in range(1, 101)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_finishes_the_sample_and_saves(number, tmp_path):
    class Heard(Observer):
        def on_interrupt(self, signal_name):
            heard.append(signal_name)

    heard, before = [], (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))
    model = Signalling(((7, int(number)),))
    loop = EventLoop(STREAM, model, checkpoint=tmp_path / "c", observers=[Heard()])
    summary = loop.run()
    assert summary.interrupted
    assert str(summary).startswith("interrupted: 7 samples learned")
    assert (summary.n, model.n, model.done) == (7, 7, 7)
    assert heard == [signal.Signals(number).name]
    assert Checkpoint(tmp_path / "c").load()["model"].done == 7
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    summary = loop.run()
    assert not summary.interrupted
    assert model.done == 100


def test_a_second_interrupt_ends_at_once(tmp_path):
    before = signal.getsignal(signal.SIGINT)
    model = Signalling(((7, 15), (7, 15), (7, 2)))  # a second SIGTERM changes nothing
    loop = EventLoop(STREAM, model, checkpoint=tmp_path / "c", checkpoint_samples=5)
    with pytest.raises(KeyboardInterrupt):
        loop.run()
    assert (model.n, model.done) == (7, 6)
    assert Checkpoint(tmp_path / "c").load()["model"].done == 5
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("blocks", [False, True])
def test_a_wait_that_may_never_end_is_ended(blocks, tmp_path):
    """A pipe without a next line: the signal wakes the reader, and the run goes on later with the very next line."""
    read, write = os.pipe()
    n = 40 if blocks else 2
    os.write(write, b"".join(b'{"a":%d.0,"y":%d.0}\n' % (i % 5, i) for i in range(1, n + 1)))
    with open(read, "rb") as file:
        model = linear_model.LinearRegression()
        model = ByRows(model) if blocks else model
        loop = EventLoop(JSONLinesSource(file, target="y"), model, checkpoint=tmp_path / "c")

        def stop():  # once the first rows are learned, for which compiled code may have to be loaded
            wait_until(lambda: loop.source.position["line"] == n, 60.0)
            began.append(time.perf_counter())
            os.kill(os.getpid(), signal.SIGTERM)

        began = []
        threading.Timer(0.3, stop).start()
        summary = loop.run()
        os.write(write, b'{"a":3.0,"y":3.0}\n')
        os.close(write)
    assert time.perf_counter() - began[0] < 5
    assert summary.interrupted
    assert summary.n_learned == n
    assert summary.position["line"] == n
    state = Checkpoint(tmp_path / "c").load()
    assert state["position"] == summary.position
    weights = [getattr(one, "model", one).weights for one in (state["model"], model)]
    assert weights[0] == weights[1]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_process_ends_in_order_and_another_goes_on(number, tmp_path):
    write_stream(tmp_path / "stream.csv", 60_000)
    folder, whole = tmp_path / "run", tmp_path / "whole"
    folder.mkdir()
    whole.mkdir()
    outputs = []
    for attempt in range(3):
        process = subprocess.Popen([sys.executable, WORKER, folder], stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "started\n"
        if attempt < 2:
            time.sleep(0.3)
            process.send_signal(number)
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        outputs.append(output)
    assert outputs[0].startswith("interrupted")
    assert not outputs[2].startswith("interrupted")
    loop = make_loop(whole)
    loop.run()
    for sink in loop.outputs:
        sink.close()
    assert (folder / "result").read_bytes() == result(loop)
    assert (folder / "predictions.jsonl").read_bytes() == (whole / "predictions.jsonl").read_bytes()
