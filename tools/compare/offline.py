"""Cases: `minimize`, composite objectives, the comparator in hindsight and the constants of the theory."""

from __future__ import annotations

import itertools
import math
import typing
from collections.abc import Callable, Iterator

import numpy as np

from fwonline import optim, sets
from tools.compare.catalogue import (
    CUSTOM_LOSSES,
    DENSE_SETS,
    FIXED_SETS,
    LOSSES,
    OPTIMIZERS,
    SCHEDULES,
    SETS,
    SPREAD,
    WIDTH,
    Tilted,
    as_csr,
    table,
)
from tools.compare.names import build
from tools.compare.record import Record, of_composite, of_optimizer, of_result

__all__ = ["cases"]

Case = Callable[[], Record]


def cases() -> Iterator[tuple[str, Case]]:
    """All cases that need no estimator."""
    yield from _minimize()
    yield from _options()
    yield from _composite()
    yield from _hindsight()


def _run(optimizer: typing.Any, X: typing.Any, y: np.ndarray, **more: typing.Any) -> Record:
    given = {"seed": 5, "callback": None, "x0": None, "tol": None, "steps": 120, **more}
    record = Record()
    of_result(record, optimizer.minimize(X, y, **given))
    of_optimizer(record, optimizer)
    return record


def _minimize() -> Iterator[tuple[str, Case]]:
    everything = {**SETS, **DENSE_SETS, "own-oracle": lambda: Tilted(radius=2.0), **FIXED_SETS}
    for (o, optimizer), (s, constraint) in itertools.product(OPTIMIZERS.items(), everything.items()):
        if s not in SETS and o not in SPREAD:
            continue
        d = WIDTH if s in FIXED_SETS else 14
        for name in ("squared", "log"):
            labels, loss = LOSSES[name]

            def run(o=optimizer, s=constraint, k=labels, f=loss, d=d, sparse=name == "squared"):
                X, y = table(60, d, 31, k, 0.5)
                return _run(o(), as_csr(X) if sparse else X, y, loss=f(), constraint=s())

            yield f"minimize/{o}/{s}/{name}", run
    for o, (name, (labels, loss)) in itertools.product(SPREAD, {**LOSSES, **CUSTOM_LOSSES}.items()):
        for s in ("l1", "l2"):

            def other(o=OPTIMIZERS[o], s=SETS[s], k=labels, f=loss):
                X, y = table(50, 10, 32, k, 0.7)
                return _run(o(), X, y if k else np.abs(y), loss=f(), constraint=s(), steps=60)

            yield f"minimize-loss/{o}/{s}/{name}", other


def _options() -> Iterator[tuple[str, Case]]:
    """A tolerance, a start, a callback, a schedule; a long run, in which sums are taken anew."""
    for o, s in itertools.product(SPREAD, ("l1", "l2", "simplex", "box")):

        def with_tol(o=OPTIMIZERS[o], s=SETS[s]):
            X, y = table(60, 10, 33, False)
            return _run(o(), X, y, loss=LOSSES["squared"][1](), constraint=s(), tol=0.05, steps=300)

        def started(o=OPTIMIZERS[o], s=SETS[s]):
            X, y = table(60, 10, 33, False)
            constraint = s()
            x0 = constraint.lmo(np.linspace(-1.0, 2.0, 10)).to_dense() * (0.5 if s is not SETS["simplex"] else 1.0)
            seen: list[float] = []

            def callback(state: typing.Any) -> bool:
                seen.extend((state.nit, state.gap, state.n_gradients, state.n_lmo, *state.x[:3]))
                return state.nit >= 25

            record = _run(o(), X, y, loss=LOSSES["squared"][1](), constraint=constraint, x0=x0, callback=callback)
            record.put("seen", seen)
            return record

        yield f"minimize-tol/{o}/{s}", with_tol
        yield f"minimize-start/{o}/{s}", started
    for o in OPTIMIZERS:

        def long(o=OPTIMIZERS[o]):
            X, y = table(40, 8, 34, True)
            return _run(o(), X, y, loss=LOSSES["log"][1](), constraint=SETS["l1"](), steps=1500)

        yield f"minimize-long/{o}", long
    for name, schedule in SCHEDULES.items():
        for cls in ("SFW", "FW", "AwayFW", "PairwiseFW"):

            def scheduled(c=cls, h=schedule):
                X, y = table(60, 10, 35, False)
                own = {"batch_size": 2} if c == "SFW" else {}
                optimizer = build(optim, c, memory=20, steps=1, schedule=h(), **own)
                return _run(optimizer, X, y, loss=LOSSES["squared"][1](), constraint=SETS["l1"]())

            yield f"minimize-schedule/{cls}/{name}", scheduled


COMPOSITE: dict[str, Callable[[], typing.Any]] = {
    "shcgm": lambda: build(optim, "SHCGM", beta0=1.0, lmo_tol=1e-8, lmo_share=None, dual_bound=0.0),
    "shcgm-duals": lambda: build(optim, "SHCGM", beta0=2.0, lmo_tol=1e-6, lmo_share=None, dual_bound=5.0),
    "hcgm": lambda: build(optim, "HCGM", beta0=1.0, lmo_tol=1e-8, lmo_share=None, dual_bound=0.0),
    "hcgm-share": lambda: build(optim, "HCGM", beta0=1.0, lmo_tol=1e-8, lmo_share=0.7, dual_bound=math.inf),
    "hsag": lambda: build(optim, "HSAGFW", beta0=1.0, batch_size=1, lmo_tol=1e-8, lmo_share=None, dual_bound=0.0),
    "hsag-batches": lambda: build(
        optim, "HSAGFW", beta0=3.0, batch_size=4, lmo_tol=1e-8, lmo_share=None, dual_bound=2.0
    ),
    "s3ccm": lambda: build(optim, "S3CCM", gamma0=1.0, power=1.0),
    "s3ccm-half": lambda: build(optim, "S3CCM", gamma0=0.5, power=0.5),
}


def _terms(which: str, d: int) -> list[typing.Any]:
    def term(g: typing.Any, offset: typing.Any = None) -> typing.Any:
        return build(optim, "Term", g=g, forward=None, adjoint=None, offset=offset)

    A = np.random.default_rng(36).normal(size=(3, d)) / 3.0
    return {
        "none": lambda: [],
        "box": lambda: [term(sets.Box(lower=-0.3, upper=0.3))],
        "two": lambda: [term(optim.NonNegative()), term(optim.L1Penalty(weight=0.05), np.full(d, 0.1))],
        "mapped": lambda: [
            build(optim, "Term", g=optim.Equals(value=np.ones(3)), forward=A.__matmul__, adjoint=A.T.__matmul__,
                  offset=None)
        ],
    }[which]()  # fmt: skip


def _composite() -> Iterator[tuple[str, Case]]:
    for (o, optimizer), which in itertools.product(COMPOSITE.items(), ("none", "box", "two", "mapped")):
        for s in ("l1", "simplex", "l2"):

            def run(o=optimizer, w=which, s=SETS[s]):
                X, y = table(40, 8, 37, False)
                result = o().minimize(
                    X, y, loss=LOSSES["squared"][1](), constraint=s(), terms=_terms(w, 8), steps=80, seed=3,
                    callback=None, x0=None,
                )  # fmt: skip
                record = Record()
                of_composite(record, result)
                return record

            yield f"composite/{o}/{s}/{which}", run
        for name, constraint in SPECTRAL.items():

            def matrix(o=optimizer, w=which, s=constraint):
                rng = np.random.default_rng(38)
                half = rng.normal(size=(6, 6))
                truth = half @ half.T / 6.0
                parts = [truth + 0.1 * np.outer(v, v) for v in rng.normal(size=(12, 6))]
                mean = sum(parts) / 12.0
                objective = build(
                    optim,
                    "Objective",
                    sample=lambda x, g: x - parts[g.integers(12)],
                    gradient=lambda x: x - mean,
                    component=lambda x, i: x - parts[i],
                    n=12,
                    value=lambda x: 0.5 * float(((x - mean) ** 2).sum()),
                )
                terms = {
                    "none": [],
                    "box": [build(optim, "Term", g=sets.Box(lower=-0.2, upper=0.6), forward=None, adjoint=None,
                                  offset=None)],
                    "two": [build(optim, "Term", g=optim.NonNegative(), forward=None, adjoint=None, offset=None),
                            build(optim, "Term", g=optim.L1Penalty(weight=0.05), forward=None, adjoint=None,
                                  offset=None)],
                    "mapped": [build(optim, "Term", g=optim.Equals(value=1.0), forward=np.trace,
                                     adjoint=lambda t: float(t) * np.eye(6), offset=None)],
                }[w]  # fmt: skip
                result = o().minimize_composite(
                    objective, constraint=s(), terms=terms, shape=(6, 6), steps=60, seed=4, callback=None, x0=None
                )
                record = Record()
                of_composite(record, result)
                return record

            yield f"composite/{o}/{name}/{which}", matrix


SPECTRAL: dict[str, Callable[[], typing.Any]] = {
    "nuclear": lambda: sets.NuclearBall(radius=4.0),
    "spectraplex": lambda: sets.Spectraplex(trace=5.0),
    "spectrahedron": lambda: sets.Spectrahedron(trace=5.0),
    "fantope": lambda: sets.Fantope(k=2),
}


def _hindsight() -> Iterator[tuple[str, Case]]:
    """The best fixed point in hindsight, and the constants of the bounds."""
    everything = {**SETS, **DENSE_SETS, **FIXED_SETS}
    for (s, constraint), (name, (labels, loss)) in itertools.product(everything.items(), LOSSES.items()):
        if s not in ("l1", "l2", "simplex") and name not in ("squared", "log"):
            continue

        def run(s=constraint, k=labels, f=loss):
            X, y = table(60, WIDTH, 39, k)
            y = y if k else np.abs(y)
            record = Record()
            for kind, data, weight in (("dense", X, None), ("sparse", as_csr(X), np.linspace(0.5, 1.5, 60))):
                found = optim.best_fixed_point(
                    data, y, loss=f(), constraint=s(), tol=1e-5, max_iter=300, x0=None, sample_weight=weight
                )
                for part in ("x", "upper", "lower", "gap", "nit"):
                    record.put(f"{kind}.{part}", getattr(found, part))
            return record

        yield f"hindsight/{s}/{name}", run
    for s, constraint in everything.items():

        def quadratic(s=constraint):
            X, y = table(60, WIDTH, 40, False)
            found = optim.best_fixed_point_quadratic(
                X.T @ X / 60, X.T @ y / 60, 0.3, s(), tol=1e-6, max_iter=500, x0=None
            )
            record = Record()
            for part in ("x", "upper", "lower", "gap", "nit"):
                record.put(part, getattr(found, part))
            return record

        def constants(s=constraint):
            X, _ = table(40, WIDTH, 41, False, 0.7)
            record = Record()
            record.put("kappa", optim.kappa(as_csr(X), s()))
            record.put(
                "bound",
                optim.stochastic_gap_bound(
                    X, 50, constraint=s(), lipschitz=2.0, batch_size=3, gammas=None, initial=None
                ),
            )
            return record

        yield f"hindsight-quadratic/{s}", quadratic
        yield f"constants/{s}", constants
