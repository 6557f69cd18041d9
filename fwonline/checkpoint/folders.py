"""Folders on the disk."""

from __future__ import annotations

import os

__all__ = ["sync_folder"]


def sync_folder(path: str | os.PathLike[str]) -> None:
    """Wait until the folder's entries are on the disk, where the system can."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:  # Windows does not open folders
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
