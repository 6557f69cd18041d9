"""What a group must live through: deaths, frozen workers, rebalances, brokers that fall."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tools.soak.trial import SESSION, Trial

__all__ = ["freeze", "kill", "nodes", "rebalance"]

Say = Callable[[str], None]


def kill(trial: Trial, kills: int, samples: int, pause: float, say: Say) -> dict[str, Any]:
    """Kill a worker at a random moment, `kills` times, while samples come in; another takes its place at once."""
    trial.start()
    trial.start()
    session = SESSION["session_timeout_ms"] / 1000
    trial.write_meanwhile(samples, kills * pause)
    for k in range(kills):
        time.sleep(trial.rng.uniform(0.0, 2 * pause))
        trial.look_after()
        victim = trial.workers.pop(int(trial.rng.integers(len(trial.workers))))
        victim.kill()
        trial.disturbed("a worker was killed", session)
        trial.start()
        if (k + 1) % 20 == 0:
            say(f"{k + 1} kills, {sum(trial.learned()):,} samples committed")
    trial.await_end(120)
    trial.stop()
    return {"kills": kills}


def freeze(trial: Trial, times: int, samples: int, say: Say) -> dict[str, Any]:
    """Stop a worker for longer than its session, so that others take over, and let it go on."""
    trial.start()
    trial.start()
    session = SESSION["session_timeout_ms"] / 1000
    trial.write_meanwhile(samples, times * 2.5 * session)
    for k in range(times):
        time.sleep(trial.rng.uniform(0.0, session))
        trial.look_after()
        victim = trial.workers[int(trial.rng.integers(len(trial.workers)))]
        victim.freeze()
        trial.disturbed("a worker was frozen", session)
        time.sleep(session * trial.rng.uniform(1.2, 2.0))
        victim.wake()
        trial.disturbed("a worker woke up")
        if (k + 1) % 10 == 0:
            say(f"{k + 1} times frozen, {sum(trial.learned()):,} samples committed")
    trial.await_end(120)
    trial.stop()
    return {"frozen": times}


def rebalance(trial: Trial, times: int, samples: int, say: Say) -> dict[str, Any]:
    """Let workers join and leave, between one and four of them."""
    trial.start()
    trial.write_meanwhile(samples, times * 1.5)
    joined = left = 0
    goodbye = 0.0
    for k in range(times):
        time.sleep(trial.rng.uniform(0.5, 2.0))
        trial.look_after()
        if len(trial.workers) == 1 or (len(trial.workers) < 4 and trial.rng.random() < 0.5):
            trial.start()
            joined += 1
        else:
            leaver = trial.workers.pop(int(trial.rng.integers(len(trial.workers))))
            told = time.monotonic()
            leaver.end()
            # -15: it was told before it had begun to listen, and had joined nothing.
            if not leaver.join(15) or leaver.exit_code not in (0, -15):
                raise RuntimeError(f"a worker that was told to go ended with {leaver.exit_code}")
            goodbye = max(goodbye, time.monotonic() - told)
            trial.disturbed("a worker left")
            left += 1
        if (k + 1) % 10 == 0:
            say(f"{k + 1} rebalances, {sum(trial.learned()):,} samples committed")
    trial.await_end(120)
    trial.stop()
    return {"joined": joined, "left": left, "longest goodbye": f"{goodbye:.1f} s after SIGTERM"}


def nodes(trial: Trial, seconds: float, samples: int, say: Say) -> dict[str, Any]:
    """Kill a broker every few seconds and start it again; nobody helps the workers."""
    trial.start()
    trial.start()
    trial.write_meanwhile(samples, seconds)
    began, falls = time.monotonic(), 0
    cluster: Any = trial.cluster
    while time.monotonic() - began < seconds:
        node = falls % cluster.nodes
        to_miss = cluster.seconds_to_miss(node)
        cluster.kill_node(node)
        trial.disturbed("a broker was killed", to_miss)
        time.sleep(trial.rng.uniform(1.0, 3.0))
        cluster.start_node(node)
        cluster.wait_until_ready()
        trial.disturbed("a broker came back")
        falls += 1
        time.sleep(trial.rng.uniform(1.0, 3.0))
        trial.look_after()
        say(f"{falls} brokers fell, {sum(trial.learned()):,} samples committed")
    trial.await_end(180)
    trial.stop()
    return {"brokers killed": falls}
