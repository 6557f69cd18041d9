"""A source of one's own
=====================

A source of one's own in the event loop, with monitors, a checkpoint, and a bad sample kept aside.

A source says where it stands (`position`) and can go back there (`seek`): that is all a resumable run needs.
"""

import math
import tempfile
from collections.abc import Iterator
from pathlib import Path

from river import metrics

from fwonline import linear_model, loop, monitors, optim, sets, stream


class Thermometer(stream.Source):
    """Readings of ten sensors, of which two say what the temperature will be; one reading in a thousand is broken."""

    name = "thermometer"

    def __init__(self, n: int) -> None:
        self.n = n
        self._next = 0

    def __iter__(self) -> Iterator[stream.Sample | stream.Rejected]:
        while self._next < self.n:
            t = self._next
            self._next += 1
            x = {f"sensor{j}": math.sin((j + 1) * 0.7 * t + j) for j in range(10)}
            y = 2.0 * x["sensor3"] - 1.0 * x["sensor7"]
            if t % 1000 == 500:
                x["sensor1"] = math.nan
            yield stream.Sample(x, y, origin=f"{self.name}#{t}")

    @property
    def position(self) -> int:
        return self._next

    def seek(self, position: int) -> None:
        self._next = position

    @property
    def length(self) -> int:
        return self.n


def make_loop(folder: Path) -> loop.EventLoop:
    """The same call begins a run and takes it up again."""
    model = linear_model.FWRegressor(
        constraint=sets.L1Ball(3.0), optimizer=optim.SFW(memory=200, steps_per_sample=3), intercept=False, seed=0
    )
    return loop.EventLoop(
        Thermometer(4_000),
        model,
        monitors=[monitors.Metric(metrics.MAE()), monitors.Gap(every=100), monitors.Feasibility()],
        checkpoint=folder / "thermometer.checkpoint",
        on_error="dead-letter",
        dead_letter=stream.JSONLinesSink(folder / "rejected.jsonl"),
    )


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    first = make_loop(folder).run(limit=1_500)  # as if the machine had been switched off here
    print(f"first run: {first.n_learned:,} learned, MAE {first.monitors['MAE']:.3f}")

    second = make_loop(folder)
    summary = second.run()
    print(f"second run: goes on to {summary.n:,}, MAE {summary.monitors['MAE']:.3f}")
    print(f"rejected: {summary.n_rejected}, the first of them: {(folder / 'rejected.jsonl').open().readline()[:58]}...")
    print(
        "weights:",
        {name: round(weight, 2) for name, weight in sorted(second.model.weights.items()) if abs(weight) > 0.1},
    )
    print(f"outside the ball by at most {summary.monitors['violation_worst']:.0e}")
