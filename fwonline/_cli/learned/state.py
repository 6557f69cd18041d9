"""What a run has learned, read from its folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fwonline._cli import FolderError
from fwonline._cli.folder import RunFolder
from fwonline.checkpoint import Checkpoint, file
from fwonline.loop import merge

__all__ = ["load_model", "load_state"]


def load_model(run: str | os.PathLike[str]) -> Any:
    """The model of a run: see `fwonline.load_model`."""
    return load_state(run)["model"]


def load_state(run: str | os.PathLike[str]) -> dict[str, Any]:
    """What the newest checkpoint of a run holds; of a group's run a merge of its partitions' models and no monitors.

    Raises FolderError where there is none.
    """
    path = Path(run)
    folder = RunFolder(path)
    if path.is_file():
        return Checkpoint(path).load()
    checkpoint = Checkpoint(folder.checkpoint)
    if checkpoint.exists():
        return checkpoint.load()
    newest = {state.parent: state for state in sorted(path.glob("states/*/*/*.state"))}
    if newest:
        states = [file.read(state) for state in newest.values()]
        counts = [state.get("counts", {}) for state in states]
        return {
            "model": merge([state["model"] for state in states]),
            "monitors": [],
            "counts": {key: sum(one.get(key, 0) for one in counts) for key in ("n", "n_learned")},
            "partitions": len(states),
        }
    if not path.exists():
        raise FolderError(f"{path}: no such run; expected the folder of a run, such as runs/phishing")
    if path.name.startswith("worker-") and RunFolder(path.resolve().parent).is_run:
        raise FolderError(f"{path}: the folder of a worker; what its group has learned is in {path.parent}")
    if not folder.is_run:
        raise FolderError(f"{path}: expected the folder of a run (with definition.toml and checkpoint)")
    raise FolderError(f"{path}: no model yet: the run has written no checkpoint")
