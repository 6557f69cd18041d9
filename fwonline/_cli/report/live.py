"""``fwonline run --live``: the page of a run while it goes on.

It is served by a process of its own, which reads the log that the run writes: the run pays nothing for its readers.
That process ends with the run, however the run ends: then its standard input does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import socket
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from fwonline._cli.report.logs import (
    WHOLE,
    Row,
    drifts_of,
    here_and_there,
    log_of,
    one_a_sample,
    report_of,
    thinned,
)
from fwonline._cli.report.page import HOW, curves_of, facts, libraries, whole
from fwonline.definition.permissions import LOOPBACK

__all__ = ["History", "application"]

_LOOK = 2.0  # seconds between two looks at the log, while anybody reads
_ROWS = 2400  # reports that are kept; of more than these the history is thinned
_READERS = 64
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; connect-src 'self'"

# All that is not the libraries' own: take what is sent, change the values of a chart that is there, or draw it anew.
_GLUE = """
const main = document.querySelector("main"), shown = [];
let isBusy = false, told = null;
async function show({ facts, titles, charts }) {
  document.getElementById("facts").innerHTML = facts;
  while (main.children.length < charts.length) {
    main.insertAdjacentHTML("beforeend", "<figure><figcaption></figcaption><div class=chart></div></figure>");
  }
  for (let i = 0; i < charts.length; i++) {
    const { datasets, ...frame } = charts[i], key = JSON.stringify(frame), figure = main.children[i];
    figure.querySelector("figcaption").textContent = titles[i];
    const place = figure.querySelector(".chart");
    try {
      if (shown[i]?.key === key) {
        for (const name in datasets) shown[i].view.data(name, datasets[name]);
        await shown[i].view.runAsync();
      } else {
        shown[i]?.finalize();
        const how = { renderer: "svg", actions: false, ast: true, tooltip: { theme: "light" } };
        shown[i] = { ...(await vegaEmbed(place, charts[i], how)), key };
      }
      place.dataset.drawn = "yes";
    } catch (error) {  // of one chart; the others, and what comes later, are drawn all the same
      place.textContent = `not drawn: ${error}`;
      shown[i] = null;
    }
  }
}
const events = new EventSource("events" + location.search);
events.onmessage = async (event) => {
  told = JSON.parse(event.data);
  if (isBusy) return;
  isBusy = true;
  while (told) { const next = told; told = null; await show(next); }
  isBusy = false;
};
events.addEventListener("end", () => {
  events.close();
  document.getElementById("state").textContent = "The run has ended.";
});
"""


class History:
    """The reports of a log that grows, in bounded memory: thinned, the newer ones as they are.

    Parameters
    ----------
    path
        The log; it need not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[Row] = []
        self.drifts: list[int] = []
        self._place = 0
        self._file: int | None = None

    def read(self) -> bool:
        """Read what is new; return whether anything is."""
        try:
            with open(self.path, "rb") as file:
                lines = self._new_lines(file)
        except FileNotFoundError:
            return False
        rows = [row for line in lines if (row := report_of(line)) is not None]
        self.drifts = sorted({*self.drifts, *drifts_of([*self.rows[-1:], *rows])})[-200:]
        self.rows = one_a_sample([*self.rows, *rows])
        if len(self.rows) > _ROWS:
            self.rows = thinned(self.rows)
        return bool(rows)

    def _new_lines(self, file: Any) -> list[bytes]:
        about = os.fstat(file.fileno())
        if about.st_ino != self._file or about.st_size < self._place:  # another run's
            self.rows, self.drifts, self._place, self._file = [], [], 0, about.st_ino
        if about.st_size - self._place > WHOLE:  # much was written while nobody read: begin again, from its start on
            self.rows, self.drifts = [], []
            lines = here_and_there(file, about.st_size)
        else:
            file.seek(self._place)
            lines = file.readlines()
        self._place = file.tell()
        if lines and not lines[-1].endswith(b"\n"):  # half of it; the rest is still to come
            self._place -= len(lines.pop())
        return lines


class _Shown:
    """What readers get: made when somebody reads, once for all of them."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.history = History(run / "log.jsonl")
        self.text = ""
        self.version = 0
        self._read_at = float("-inf")
        self.ended = asyncio.Event()

    def look(self, *, again: bool = False) -> None:
        now = asyncio.get_running_loop().time()
        if not again and now - self._read_at < _LOOK:
            return
        self._read_at = now
        if not (self.history.read() or again) or not self.history.rows:
            return
        log = log_of(self.run.resolve().name, self.history.rows, self.history.drifts)
        titles, charts = zip(*curves_of([self.run], [log]), strict=True)
        sent = {"facts": facts([self.run], [log.name]), "titles": titles, "charts": charts}
        self.text = json.dumps(sent, allow_nan=False, separators=(",", ":"))
        self.version += 1

    async def events(self) -> AsyncIterator[str]:
        seen = 0
        while True:
            has_ended = self.ended.is_set()
            self.look(again=has_ended)
            if self.version != seen:
                seen = self.version
                yield f"data: {self.text}\n\n"
            if has_ended:
                yield "event: end\ndata: \n\n"
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.ended.wait(), _LOOK)


def application(run: Path, token: str | None) -> Any:
    """What answers: a page and its events, to who names the token; without one, to this machine alone."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
    from starlette.routing import Route

    shown = _Shown(run)
    plain = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff"}
    page: list[str] = []

    def refusal(request: Any) -> Response | None:
        given = request.query_params.get("token", "")
        if token is None or secrets.compare_digest(given.encode(), token.encode()):
            return None
        return PlainTextResponse("expected the token that the run has shown, as ?token=...\n", 403, plain)

    async def front(request: Any) -> Response:
        if (refused := refusal(request)) is not None:
            return refused
        if not page:
            body = f'<p id="state">{HOW}</p><div class="wide" id="facts">No report yet.</div><main></main>'
            page.append(whole(run.resolve().name, body, await asyncio.to_thread(libraries), _GLUE, _POLICY))
        return HTMLResponse(page[0], headers=plain)

    async def events(request: Any) -> Response:
        return refusal(request) or StreamingResponse(shown.events(), media_type="text/event-stream", headers=plain)

    # a name that another site has pointed at this machine is none of its names
    hosts = [*LOOPBACK, "[::1]"] if token is None else ["*"]
    routes = [Route("/", front), Route("/events", events)]
    found = Starlette(routes=routes, middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts)])
    found.state.shown = shown
    return found


def _serve(run: Path, descriptor: int) -> None:
    """Serve until standard input ends."""
    import uvicorn

    app = application(run, sys.stdin.readline().strip() or None)
    config = uvicorn.Config(
        app,
        log_level="critical",
        access_log=False,
        limit_concurrency=_READERS,
        timeout_graceful_shutdown=2,
        lifespan="off",
    )
    server = uvicorn.Server(config)

    async def main() -> None:
        loop, shown = asyncio.get_running_loop(), app.state.shown

        def wait_for_the_end() -> None:
            while os.read(0, 1):  # no lock is held, which Python would wait for when it exits
                pass
            loop.call_soon_threadsafe(shown.ended.set)

        async def stop() -> None:
            await shown.ended.wait()
            await asyncio.sleep(0.2)  # for the last numbers to be sent
            server.should_exit = True

        threading.Thread(target=wait_for_the_end, daemon=True).start()
        stopping = asyncio.create_task(stop())
        await server.serve(sockets=[socket.socket(fileno=descriptor)])
        stopping.cancel()

    asyncio.run(main())


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), int(sys.argv[2]))
