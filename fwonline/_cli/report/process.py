"""The process that serves the page of a run; the run itself imports nothing of what the page is made of."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from fwonline._cli import interpreter
from fwonline._cli.metrics import Place, refused, url
from fwonline.definition.permissions import LOOPBACK

__all__ = ["showing"]


@contextlib.contextmanager
def showing(run: Path, place: Place) -> Iterator[str]:
    """Serve the page of the run in a folder while the block runs; yield its address.

    Raises
    ------
    OSError
        When the port is taken or is not to be had here, and on Windows.
    ImportError
        When the server, or what draws, is not installed.
    """
    for name in ("uvicorn", "starlette", "vl_convert"):
        if importlib.util.find_spec(name) is None:
            raise ImportError(name, name=name)
    if os.name == "nt":
        raise OSError(
            "live: Windows hands no open port on to another process; `fwonline report` draws a run at any time"
        )
    try:
        family = socket.AF_INET6 if ":" in place[0] else socket.AF_INET
        server = socket.create_server(place, family=family)
    except OSError as error:
        raise OSError(refused("live", place, error)) from error
    token = "" if place[0] in LOOPBACK else secrets.token_urlsafe(16)
    with server:
        address = url((place[0], server.getsockname()[1]), f"?token={token}" if token else "")
        command = [*interpreter(), "-m", "fwonline._cli.report.live", str(run), str(server.fileno())]
        # Ctrl-C is for the run, whose end is this process's end; the token is not for the list of processes
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, pass_fds=[server.fileno()], start_new_session=True, text=True
        )
    assert process.stdin is not None
    process.stdin.write(f"{token}\n")
    process.stdin.flush()
    try:
        yield address
    finally:
        process.stdin.close()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
