"""Checkpoints: everything a run needs to go on, in one file that is whole or not there."""

from __future__ import annotations

import contextlib
import hashlib
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fwonline.checkpoint import codec
from fwonline.checkpoint.document import FORMAT, check_format
from fwonline.checkpoint.folders import sync_folder
from fwonline.exceptions import CheckpointError

__all__ = ["Checkpoint"]

# magic, format version, length of the document; then the document, then the checksum of all that
_MAGIC = b"FWONLINE"
_HEADER = len(_MAGIC) + 2 + 8
_DIGEST = 32


class Checkpoint:
    """A checkpoint file and the one before it.

    `save` writes a temporary file beside it, waits until that is on the disk, keeps the present file as ``.previous``
    and renames: whatever happens, a whole checkpoint is there. A folder that disappears later is not made anew, for
    what else was in it is lost. `load` takes the newest that is whole, and warns when it is the previous one.

    The file is the `codec` document of the state between a header (magic, version, length) and a BLAKE2b checksum.
    Nothing in it is run when it is loaded.

    Parameters
    ----------
    path
        The file. Its folder is created when needed.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from river import stats
    >>> folder = tempfile.TemporaryDirectory()
    >>> checkpoint = Checkpoint(pathlib.Path(folder.name) / "run.ckpt")
    >>> checkpoint.exists()
    False
    >>> checkpoint.save({"model": stats.Mean(), "n": 0})
    >>> checkpoint.load()["n"]
    0
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.previous = self.path.with_name(self.path.name + ".previous")
        self._is_begun = False  # from then on a missing folder was removed

    def __repr__(self) -> str:
        return f"Checkpoint({str(self.path)!r})"

    def exists(self) -> bool:
        """Whether there is a file to load, whole or not."""
        return self.path.exists() or self.previous.exists()

    def discard(self) -> None:
        """Remove both files, so that a fresh run can never be mistaken for the one before."""
        for path in (self.path, self.previous):
            path.unlink(missing_ok=True)

    def save(self, state: Any) -> None:
        """Write `state`. When this returns, it is on the disk.

        Raises
        ------
        CheckpointError
            When `state` holds what no checkpoint can (see `codec.dumps`) or cannot be written; the files are as before.
        """
        if self._is_begun and not self.path.parent.is_dir():
            raise CheckpointError(f"{self.path}: cannot write the checkpoint: its folder has disappeared")
        write(self.path, state, before=self._keep_previous)
        self._is_begun = True

    def _keep_previous(self) -> None:
        if not self.path.exists():
            return
        link = self.path.with_name(self.path.name + ".link")
        link.unlink(missing_ok=True)
        try:
            os.link(self.path, link)  # the newest stays where it is while it also becomes the previous one
        except OSError:  # a file system without links
            os.replace(self.path, self.previous)
        else:
            os.replace(link, self.previous)

    def load(self, into: Any = None) -> Any:
        """Return the newest state that is whole, filling `into` as `codec.loads` does.

        Raises
        ------
        CheckpointError
            When there is none: neither file exists, or both are damaged or hold what is not allowed.

        Warns
        -----
        UserWarning
            When the newest is damaged or missing and the previous one is taken.
        """
        try:
            state = read(self.path, into)
        except CheckpointError as error:
            if not self.previous.exists():
                raise
            state = read(self.previous, into)
            warnings.warn(f"{error}; going on from the one before it", stacklevel=2)
        self._is_begun = True
        return state


def write(path: Path, state: Any, before: Callable[[], None] = lambda: None) -> str:
    """Write `state` into the file, which is whole or as before, and return its checksum in hexadecimal.

    `before` is called when all is on the disk but the name. Raises CheckpointError when `state` holds what no
    checkpoint can (see `codec.dumps`) or the file cannot be written.
    """
    parts = codec.encode(state)
    header = _MAGIC + FORMAT.to_bytes(2, "little") + sum(map(len, parts)).to_bytes(8, "little")
    checksum = hashlib.blake2b(header, digest_size=_DIGEST)
    temporary = path.with_name(path.name + ".tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb") as file:
            file.write(header)
            for part in parts:
                checksum.update(part)
                file.write(part)
            file.write(checksum.digest())
            file.flush()
            os.fsync(file.fileno())
        before()
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise CheckpointError(f"{path}: cannot write the checkpoint: {error}") from error
    return checksum.hexdigest()


def read(path: Path, into: Any = None, checksum: str | None = None) -> Any:
    """Return the state in the file, filling `into` as `codec.loads` does.

    Raises CheckpointError when the file cannot be read, is damaged, has another checksum than the one given, or holds
    what is not allowed.
    """
    try:
        data = memoryview(path.read_bytes())
    except OSError as error:
        raise CheckpointError(f"{path}: cannot read the checkpoint: {error}") from error
    if data[: len(_MAGIC)] != _MAGIC:
        raise CheckpointError(f"{path}: this is no fwonline checkpoint")
    version = int.from_bytes(data[len(_MAGIC) : len(_MAGIC) + 2], "little")
    length = int.from_bytes(data[len(_MAGIC) + 2 : _HEADER], "little")
    body = data[: len(data) - _DIGEST]
    if len(data) != _HEADER + length + _DIGEST:
        raise CheckpointError(f"{path}: damaged: expected {_HEADER + length + _DIGEST} bytes, found {len(data)}")
    found = hashlib.blake2b(body, digest_size=_DIGEST).digest()
    if found != data[len(body) :]:
        raise CheckpointError(f"{path}: damaged: its checksum does not fit its content")
    if checksum is not None and found.hex() != checksum:
        raise CheckpointError(f"{path}: expected the file of checksum {checksum}, found that of {found.hex()}")
    try:
        check_format(version)
        return codec.loads(body[_HEADER:], into)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from error
