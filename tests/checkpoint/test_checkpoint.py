"""The checkpoint file: whole or not there, and never a wrong load."""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from river import datasets, linear_model, preprocessing

from fwonline.checkpoint import Checkpoint, codec
from fwonline.checkpoint.document import FORMAT
from fwonline.exceptions import CheckpointError


@pytest.fixture
def checkpoint(tmp_path):
    return Checkpoint(tmp_path / "runs" / "a.ckpt")


def test_round_trip_and_the_one_before(checkpoint):
    assert not checkpoint.exists()
    with pytest.raises(CheckpointError, match="cannot read"):
        checkpoint.load()
    model = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    for n, (x, y) in enumerate(datasets.Phishing().take(20)):
        model.learn_one(x, y)
        checkpoint.save({"n": n, "model": model})
    assert checkpoint.load()["n"] == 19
    assert Checkpoint(checkpoint.previous).load()["n"] == 18
    assert checkpoint.load()["model"].predict_proba_one(x) == model.predict_proba_one(x)
    assert sorted(path.name for path in checkpoint.path.parent.iterdir()) == ["a.ckpt", "a.ckpt.previous"]


@pytest.mark.parametrize("use", [Checkpoint.save, Checkpoint.load])
def test_a_folder_that_disappears_is_not_made_anew(checkpoint, use):
    checkpoint.save(1)
    if use is Checkpoint.load:
        checkpoint = Checkpoint(checkpoint.path)
        assert checkpoint.load() == 1
    shutil.rmtree(checkpoint.path.parent)
    with pytest.raises(CheckpointError, match="cannot write the checkpoint: its folder has disappeared"):
        checkpoint.save(2)
    assert not checkpoint.path.parent.exists()


def test_every_flipped_bit_and_every_cut_is_an_error(checkpoint):
    checkpoint.save({"n": 1, "a": np.arange(3), "key": (1, "x")})
    whole = checkpoint.path.read_bytes()
    for position in range(len(whole)):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[position] ^= 1 << bit
            checkpoint.path.write_bytes(damaged)
            with pytest.raises(CheckpointError, match=r"a\.ckpt"):
                checkpoint.load()
        checkpoint.path.write_bytes(whole[:position])
        with pytest.raises(CheckpointError, match=r"a\.ckpt"):
            checkpoint.load()
    checkpoint.path.write_bytes(whole + b"\0")
    with pytest.raises(CheckpointError, match="damaged"):
        checkpoint.load()
    checkpoint.path.write_bytes(whole)
    assert checkpoint.load()["n"] == 1


def test_a_damaged_file_gives_way_to_the_one_before_with_a_warning(checkpoint):
    checkpoint.save({"n": 1})
    checkpoint.save({"n": 2})
    checkpoint.path.write_bytes(checkpoint.path.read_bytes()[:-1])
    with pytest.warns(UserWarning, match=r"a\.ckpt: damaged.*going on from the one before"):
        assert checkpoint.load() == {"n": 1}
    checkpoint.path.unlink()
    with pytest.warns(UserWarning, match="going on from the one before"):
        assert checkpoint.load() == {"n": 1}
    checkpoint.previous.write_bytes(b"")
    with pytest.raises(CheckpointError, match="no fwonline checkpoint"):
        checkpoint.load()


def test_what_cannot_be_saved_leaves_the_files_alone(checkpoint):
    checkpoint.save({"n": 1})
    with pytest.raises(CheckpointError, match=r"model\['f'\] cannot be saved"):
        checkpoint.save({"model": {"f": lambda: 0}})
    assert checkpoint.load() == {"n": 1}


def test_a_disk_that_refuses_is_a_checkpoint_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot write"):
        Checkpoint(tmp_path / "file" / "a.ckpt").save({})


def frame(document: bytes, version: int = FORMAT) -> bytes:
    body = b"FWONLINE" + version.to_bytes(2, "little") + len(document).to_bytes(8, "little") + document
    return body + hashlib.blake2b(body, digest_size=32).digest()


def test_a_right_checksum_does_not_make_a_file_trusted(checkpoint):
    checkpoint.save({})
    checkpoint.path.write_bytes(frame(codec.dumps({"n": 1})))
    assert checkpoint.load() == {"n": 1}
    text = b'{"format":%d,"root":["c","posix","system"],"objects":[],"order":[],"blobs":[]}' % FORMAT
    checkpoint.path.write_bytes(frame(len(text).to_bytes(8, "little") + text))
    with pytest.raises(CheckpointError, match=r"posix\.system.*not allowed"):
        checkpoint.load()
    checkpoint.path.write_bytes(frame(codec.dumps({}), version=1))
    with pytest.raises(CheckpointError, match=r"format 1 by version 0\.1\.0 of fwonline; this version reads format 2"):
        checkpoint.load()


def test_a_declared_size_takes_no_memory(checkpoint):
    checkpoint.save({})
    checkpoint.path.write_bytes(b"FWONLINE\2\0" + (2**62).to_bytes(8, "little") + b"{}")
    with pytest.raises(CheckpointError, match="damaged"):
        checkpoint.load()


WRITER = """
import sys
import numpy as np
from fwonline.checkpoint import Checkpoint
checkpoint, n = Checkpoint(sys.argv[1]), 0
while True:
    n += 1
    checkpoint.save({"n": n, "array": np.full(20_000, n)})
    print(n, flush=True)
"""


@pytest.mark.slow
def test_a_kill_while_writing_leaves_a_whole_checkpoint(checkpoint):
    rng = np.random.default_rng(0)
    for _ in range(8):
        process = subprocess.Popen([sys.executable, "-c", WRITER, checkpoint.path], stdout=subprocess.PIPE, text=True)
        written = int(process.stdout.readline())
        time.sleep(rng.uniform(0, 0.05))
        os.kill(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        written = max([written, *map(int, output.split())])
        state = checkpoint.load()
        assert state["n"] >= written
        assert (state["array"] == state["n"]).all()
