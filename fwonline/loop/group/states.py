"""The states of partitions: files that are written once, named by the group's commits, removed when superseded."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fwonline.checkpoint import file
from fwonline.exceptions import CheckpointError

__all__ = ["PartitionStates"]

# A file's name: the generation in which it was written, its offset, and eight random digits.
_FILE = re.compile(r"(?P<generation>[0-9]{10})-(?P<offset>[0-9]{20})-[0-9a-f]{8}\.state")
_NOTE = re.compile(rf"fwonline (?P<file>{_FILE.pattern}) (?P<checksum>[0-9a-f]{{64}})")
_NEW = "fwonline new"
_NEW_AT = re.compile(rf"{_NEW}( [0-9]{{1,19}})+")
_CURE = "Reset the group's offsets and its states together, or take another group"


class PartitionStates:
    """A folder of states, which all workers of a group see.

    Each state is a file of its own that is never changed. The valid one is named by a *note*, the metadata that the
    group commits with a partition's offset: the file's name, which repeats the offset, and its checksum. A file is
    removed when a later one of the same partition was committed, and never before.

    Parameters
    ----------
    path
        The folder. On several machines it lies on storage that all of them share.
    group
        The group's name. Groups do not see one another's states.

    Examples
    --------
    >>> import tempfile
    >>> from fwonline.loop import PartitionStates
    >>> folder = tempfile.TemporaryDirectory()
    >>> states = PartitionStates(folder.name, "click-model")
    >>> note = states.write("clicks[0]", 1, 1000, {"position": 1000})
    >>> states.read("clicks[0]", note)
    {'position': 1000}
    >>> folder.cleanup()
    """

    #: The start of the note of a partition of which nothing was learned yet: see `beginning`.
    NEW = _NEW

    def __init__(self, path: str | os.PathLike[str], group: str) -> None:
        self.path = Path(path)
        self.group = group
        self._is_begun = False  # from then on a missing folder was removed

    def __repr__(self) -> str:
        return f"PartitionStates({str(self.path)!r}, {self.group!r})"

    def folder(self, partition: str) -> Path:
        """The folder of the states of a partition."""
        topic, _, number = partition.rstrip("]").rpartition("[")
        return self.path / quote(self.group, safe="") / f"{quote(topic, safe='')}-{number}"

    def files(self, partition: str) -> list[Path]:
        """The files of a partition, committed or not."""
        try:
            return sorted(path for path in self.folder(partition).iterdir() if _FILE.fullmatch(path.name))
        except FileNotFoundError:
            return []

    def write(self, partition: str, generation: int, offset: int, state: Any) -> str:
        """Write the state at an offset (`CommittedOffsets.total_offset`) into a new file and return its note.

        Raises CheckpointError when it holds what no checkpoint can, or cannot be written.
        """
        if self._is_begun and not self.path.is_dir():
            raise CheckpointError(f"{self.path}: cannot write the state of {partition}: the folder has disappeared")
        self._is_begun = True
        name = f"{generation:010d}-{offset:020d}-{secrets.token_hex(4)}.state"
        return f"fwonline {name} {file.write(self.folder(partition) / name, state)}"

    def read(self, partition: str, note: str, into: Any = None) -> Any:
        """Return exactly the state that `note` names, filling `into` as `codec.loads` does.

        Raises CheckpointError when the note names no state, or the file is missing, damaged or another one.
        """
        return file.read(self._file(partition, note), into, self._parsed(partition, note)["checksum"])

    def is_there(self, partition: str, note: str) -> bool:
        """Whether the file of a note exists: not if it was superseded meanwhile."""
        return self._file(partition, note).exists()

    def latest_generation(self, partition: str) -> int:
        """The latest generation in which a state of the partition was written; -1 where there is none."""
        return max((int(path.name[:10]) for path in self.files(partition)), default=-1)

    def _file(self, partition: str, note: str) -> Path:
        return self.folder(partition) / self._parsed(partition, note)["file"]

    @staticmethod
    def _parsed(partition: str, note: str) -> re.Match[str]:
        if (parsed := _NOTE.fullmatch(note)) is None:
            raise CheckpointError(
                f"{partition}: expected the name of a state beside the group's offset, found {note[:60]!r}: the offset "
                f"was set by something else. {_CURE}"
            )
        return parsed

    @staticmethod
    def beginning(offsets: Mapping[str, int]) -> str:
        """Return the note of a partition that begins at these offsets, and of which nothing was learned yet."""
        return " ".join([_NEW, *(str(offsets[name]) for name in sorted(offsets))])

    @staticmethod
    def is_beginning(note: str) -> bool:
        """Whether a note says that nothing was learned of the partition yet."""
        return _NEW_AT.fullmatch(note) is not None

    def check_beginning(self, partition: str, note: str, offsets: Mapping[str, int]) -> None:
        """Raise CheckpointError where the note of a partition's beginning was committed with other offsets."""
        if note != self.beginning(offsets):
            raise _moved(partition, offsets, note.removeprefix(_NEW).strip())

    def check_position(self, partition: str, state: Any, offsets: Mapping[str, int]) -> None:
        """Raise CheckpointError where a state is not of the offsets that the group has committed with its note."""
        position = state["position"]
        if position != dict(offsets):
            of = ", ".join(map(str, position.values())) if isinstance(position, dict) else repr(position)
            raise _moved(partition, offsets, of)

    def begin(self, partition: str) -> None:
        """Raise CheckpointError where there are states of a partition without a committed offset: offsets were lost."""
        if files := self.files(partition):
            raise CheckpointError(
                f"{partition}: the group {self.group!r} has no offset there, and {files[0].parent} holds {len(files)} "
                "states of it: its offsets were deleted or have expired (offsets.retention.minutes). Set the offset, "
                f"with the note of the state to go on from, or remove the folder to begin anew"
            )

    def sweep(self, partition: str, note: str) -> None:
        """Remove the files that can never be valid again, now that `note` is committed.

        What was written in an earlier generation, or by this worker before, can be committed no more. Files of a later
        generation belong to its owner.
        """
        kept = self._file(partition, note).name
        generation = kept[:10]
        for path in self.files(partition):
            if path.name[:10] <= generation and path.name != kept:
                path.unlink(missing_ok=True)
        for path in self.folder(partition).glob("*.state.tmp"):  # of a worker that was killed while it wrote
            if path.name[:10] < generation:
                path.unlink(missing_ok=True)


def _moved(partition: str, offsets: Mapping[str, int], of: str) -> CheckpointError:
    found = ", ".join(map(str, offsets.values()))
    return CheckpointError(
        f"{partition}: the group's offset is {found}, and the note beside it is of {of}: the offset was set by "
        f"something else. {_CURE}"
    )
