"""Checkpoints of linear models that somebody has changed: refused by the name of what is wrong, or models that work.

One test for each kind of defect that the fuzzer (`tools.soak fuzz`) has met, and a short run of the fuzzer itself.
"""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

from fwonline import optim, sets
from fwonline._kernels.state import HELD
from fwonline.checkpoint import codec
from fwonline.exceptions import CheckpointError
from fwonline.linear_model import FWClassifier, FWRegressor, FWSoftmax
from tools.soak import fuzz


def trained(optimizer=None, constraint=None, kind=FWRegressor, n=30, **settings):
    settings = {"intercept": False} | settings
    model = kind(constraint or sets.L1Ball(2.0), optimizer, seed=1, **settings)
    rng = np.random.default_rng(0)
    for row in rng.normal(size=(n, 4)):
        model.learn_one(dict(enumerate(row.tolist())), float(row[0]) if kind is FWRegressor else bool(row[0] > 0.0))
    return model


def changed(model, change):
    """The model as it is loaded after a change to what was saved."""
    codec.loads(codec.dumps(model))  # as it is, it loads
    change(model)
    return codec.loads(codec.dumps(model))


def damaged(model, **changes):
    """The model as it is loaded from a file that says something else of its run."""
    cls, run = type(model._run), model._run
    state, of = {**run.__getstate__(), **changes}, cls.__getstate__
    with mock.patch.object(cls, "__getstate__", lambda other: state if other is run else of(other)):
        saved = codec.dumps(model)
    return codec.loads(saved)


def damage_refused(model, match, **changes):
    codec.loads(codec.dumps(model))
    with pytest.raises(CheckpointError, match=match):
        damaged(model, **changes)


def scalars_of(model, **changes):
    return {**model._run.__getstate__()["scalars"], **changes}


def refused(model, change, match):
    with pytest.raises(CheckpointError, match=match):
        changed(model, change)


# --- features ---


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda m: m._features.names.extend(f"x{k}" for k in range(100)), "FWRegressor._features: expected 4 features"),
        (lambda m: m._features.names.pop(), "FWRegressor._features: expected 4 features"),
        (lambda m: m._features.names.__setitem__(1, 0), "FeatureIndex.names: expected names that are all different"),
        (lambda m: m._features.names.__setitem__(1, float("nan")), "FeatureIndex.names: expected names"),
        (lambda m: m._features.names.reverse(), "ranks that are those of the features' names"),
        (lambda m: setattr(m._features, "names", {"a": 1}), "FeatureIndex.names: expected a list"),
    ],
)
def test_names_are_different_ones_and_as_many_as_the_run_has(change, match):
    refused(trained(optim.SFW(memory=10)), change, match)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda m: setattr(m._features, "seen", m._features.seen + 31), "features that 30 samples have shown"),
        (lambda m: setattr(m._features, "seen", m._features.seen - 31), "FeatureIndex.seen"),
        (lambda m: setattr(m._features, "seen", m._features.seen.astype(float)), "FeatureIndex.seen"),
        (lambda m: setattr(m._features, "seen", m._features.seen[:2]), "FeatureIndex.seen"),
        (lambda m: setattr(m._features, "most", 0), "FeatureIndex.most"),
        (lambda m: setattr(m._features, "most", None), "FWRegressor.max_names: expected what its features are bounded"),
        (lambda m: setattr(m, "max_names", "many"), "FWRegressor.max_names"),
    ],
)
def test_who_was_seen_when_is_what_samples_have_shown(change, match):
    refused(trained(max_names=4), change, match)


def test_a_set_of_fixed_dimension_names_its_coordinates_by_number():
    box = sets.Box([-1.0] * 4, [1.0] * 4)
    refused(trained(optim.SFW(memory=10), box), lambda m: m._features.names.__setitem__(0, 7), "numbers of the coord")
    for dimension, message in ((None, "as many as the set"), (5, "as many as the set"), (-1, "FeatureIndex.dimension")):
        refused(
            trained(optim.SFW(memory=10), box), lambda m, d=dimension: setattr(m._features, "dimension", d), message
        )


# --- integers that a compiled step follows, and loops that end ---


@pytest.mark.parametrize("name", ["d", "index", "live", "head", "drawn"])
@pytest.mark.parametrize("value", [-3, 5000, 2**40])
def test_single_integers_are_refused(value, name):
    model = trained(optim.SFW(memory=10, batch_size=2))
    damage_refused(model, "Run|_features", scalars=scalars_of(model, **{name: value}))


@pytest.mark.parametrize("value", [-3, 5000, 2**40])
@pytest.mark.parametrize("optimizer", [lambda: optim.SVRF(memory=10), lambda: optim.FW(memory=10)])
def test_single_integers_of_a_ring_are_refused(optimizer, value):
    for name in ("live", "head", "capacity"):
        refused(trained(optimizer()), lambda m, name=name: setattr(m._run.ring, name, value), "Ring|_run")
    for name in ("d", "t", "seen") if value < 0 else ("d",):
        refused(trained(optimizer()), lambda m, name=name: setattr(m._run.s, name, value), "Run|Ring|Scalars|_features")
    for name in ("start", "length"):
        refused(trained(optimizer()), lambda m, name=name: getattr(m._run.ring, name).__setitem__(1, value), "Ring")

    def point(model):
        ring = model._run.ring
        ring.idx[ring.entries()[0]] = 4 + value % 2**31

    refused(trained(optimizer()), point, "Ring.idx")


@pytest.mark.parametrize("optimizer", [lambda: optim.SVRF(memory=10), lambda: optim.FW(memory=10)])
def test_single_numbers_of_a_ring_are_refused(optimizer):
    for name in ("val", "y"):
        for value in (np.nan, 1e200):
            change = lambda m, name=name, value=value: getattr(m._run.ring, name).__setitem__(0, value)  # noqa: E731
            refused(trained(optimizer()), change, f"Ring.{name}")
    refused(trained(optimizer()), lambda m: m._run.v.__setitem__(2, np.nan), "Run.v: expected finite")
    refused(trained(optimizer()), lambda m: setattr(m._run.s, "intercept_h", -1.0), "Scalars.intercept_h")


@pytest.mark.parametrize("name", ["crowded", "batch_size", "steps"])
@pytest.mark.parametrize("value", [-3, 5000, 2**40])
def test_what_parameters_decide_is_not_a_files_to_say(name, value):
    model = trained(optim.SFW(memory=10, batch_size=2))
    loaded = damaged(model, scalars=scalars_of(model, **{name: value}))
    assert getattr(loaded._run.s, name) == getattr(model._run.s, name)


@pytest.mark.parametrize("name", ["t", "seen", "since", "stamp", "n_gradients"])
def test_counters_are_bounded(name):
    model = trained(optim.OneSampleFW(), sets.LInfBall(1.0))
    scalars = scalars_of(model, **{name: 2**62})
    damage_refused(model, f"OneSampleRun.{name}: expected a count", scalars=scalars)


@pytest.mark.parametrize("name", ["dot", "w_scale", "u_scale", "intercept_h"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -1e300])
def test_scalars_are_numbers_that_a_run_can_have(name, value):
    model = trained(optim.SFW(memory=10))
    damage_refused(model, f"SFWRun.{name}", scalars=scalars_of(model, **{name: value}))


@pytest.mark.parametrize("scalars", [None, {}, {"d": "many"}])
def test_scalars_that_are_missing_or_no_numbers_are_refused(scalars):
    model = trained(optim.SFW(memory=10))
    damage_refused(model, "SFWRun", scalars=scalars and scalars_of(model, **scalars))


def test_the_largest_coordinate_is_searched_among_numbers():
    refused(trained(optim.SFW(memory=10)), lambda m: m._run.it.u.__setitem__(2, np.nan), "SFWRun.u: expected numbers")


def test_a_step_of_the_intercept_ends():
    model = trained(optim.SFW(memory=10), kind=FWClassifier, intercept=True)
    model._run.s.intercept_h = 5e-324
    loaded = codec.loads(codec.dumps(model))
    loaded.learn_one({0: 1.0}, False)
    assert np.isfinite(loaded.intercept_)


# --- arrays ---


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("v", np.zeros(3)),
        ("v", np.zeros((64, 1))),
        ("v", np.zeros(64, dtype=np.float32)),
        ("v", "weights"),
        ("rank", np.zeros(64)),
        ("pool", (np.full(1024, 77, dtype=np.uint32), np.zeros(1024))),
        ("pool", (np.zeros(1024, dtype=np.uint32), np.full(1024, 1e200))),
        ("pool", (np.zeros(1024, dtype=np.uint32), np.zeros(9))),
        ("held", None),
        ("held", {name: np.zeros(9, np.int64) for name in HELD.names}),
        ("noise", np.full(4096, 1.0)),
        ("noise", np.full(4096, -0.5)),
        ("last", (np.full(64, 9, dtype=np.uint32), np.zeros(64))),
        ("last", (np.zeros(64, dtype=np.uint32), np.zeros(63))),
        ("last", (np.zeros(1, dtype=np.uint32), np.full(1, np.nan))),
        ("batch", np.full(1, 10)),
        ("batch", np.zeros(0, dtype=np.int64)),
        ("capacity", 10**6),
    ],
)
def test_arrays_have_their_form_and_range(name, value):
    damage_refused(trained(optim.SFW(memory=10)), "SFWRun|a memory of 10", **{name: value})


@pytest.mark.parametrize(
    ("name", "value"), [("start", 5), ("length", -1), ("stamp", 10**9), ("alpha", np.nan), ("y", 1e200)]
)
def test_what_is_held_of_a_sample_fits(name, value):
    model = trained(optim.SFW(memory=10))
    held = model._run.__getstate__()["held"]
    held[name][:] = value
    damage_refused(model, "SFWRun.held", held=held)


def test_an_array_that_may_not_be_written_is_copied():
    model = trained(optim.OneSampleFW())
    rank = model._run.it.rank.copy()
    rank.setflags(write=False)
    damaged(model, rank=rank).learn_one({"new": 1.0}, 1.0)


def test_samples_lie_in_the_pool_in_the_order_in_which_they_came():
    def overlap(model):
        model._run.mem.held["start"][3] = model._run.mem.held["start"][2]

    refused(trained(optim.SFW(memory=10)), overlap, "SFWRun.held")


def test_arrays_that_were_one_are_separate():
    model = trained(optim.AdversarialOFW())
    loaded = damaged(model, total=model._run.it.u)
    assert not np.shares_memory(loaded._run.own.total, loaded._run.it.u)


@pytest.mark.parametrize("optimizer", [optim.AdversarialOFW(), optim.StochasticPairwiseFW(memory=10)])
def test_swapped_lists_of_coordinates_are_refused(optimizer):
    model = trained(optimizer)
    damage_refused(model, "Run.active", active=model._run.own.place, place=model._run.own.active)


# --- the point ---


@pytest.mark.parametrize(
    ("optimizer", "constraint"),
    [
        (optim.OneSampleFW, lambda: sets.L1Ball(2.0)),
        (optim.OneSampleFW, lambda: sets.LInfBall(1.0)),
        (optim.SVRF, lambda: sets.L2Ball(1.0)),
        (optim.FW, lambda: sets.KSparseBall(2, 1.0)),
        (optim.AwayFW, sets.ProbabilitySimplex),
        (optim.StochasticPairwiseFW, lambda: sets.L1Ball(2.0)),
    ],
)
def test_a_point_outside_the_set_is_refused(optimizer, constraint):
    refused(
        trained(optimizer(), constraint()),
        lambda m: (m._run.x if hasattr(m._run, "x") else m._run.it.v).__setitem__(0, 1e9),
        "Run",
    )


def test_atoms_beside_those_of_the_mixture_are_refused():
    model = trained(optim.AwayFW(memory=10))
    atom = sets.CoordinateAtom(0, 9.0, (4,))
    refused(model, lambda m: m._run.active.weights.__setitem__(atom, 0.1), "FullRun.active")


def test_a_size_that_leaves_room_in_a_full_set_is_refused():
    refused(trained(optim.StochasticPairwiseFW(memory=10)), lambda m: setattr(m._run.s, "size", 0.0), "Run.size")


def test_a_set_too_large_to_calculate_in_is_refused():
    def enlarge(model):
        model.constraint.radius = 1e300

    refused(trained(optim.SFW(memory=10)), enlarge, "SFWRun.constraint")


def test_classes_of_several_types_are_predicted():
    model = trained(optim.SFW(memory=10), kind=FWClassifier)
    model._classes = (False, ("a", 1))
    loaded = codec.loads(codec.dumps(model))
    assert set(loaded.predict_arrays(np.eye(4)).tolist()) <= {False, ("a", 1)}


# --- objects ---


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda m: setattr(m, "constraint", sets.L1Ball(9.0)), "FWRegressor._run: expected one in the model's set"),
        (lambda m: setattr(m._run, "constraint", "l1"), "SFWRun.constraint"),
        (lambda m: setattr(m.optimizer, "memory", 99), "a memory of 99"),
        (lambda m: setattr(m.optimizer, "steps_per_sample", 10**9), "SFW.steps_per_sample"),
        (lambda m: setattr(m.optimizer, "schedule", 0.5), "SFW.schedule"),
        (lambda m: setattr(m._run, "loss", sets.L1Ball(1.0)), "SFWRun.loss"),
        (lambda m: setattr(m, "_run", trained(optim.FW(memory=10))._run), "FWRegressor._run"),
        (lambda m: setattr(m, "_classes", (1, 2)), "FWRegressor._classes"),
        (lambda m: setattr(m, "seed", "one"), "FWRegressor.seed"),
        (lambda m: setattr(m, "intercept", True), "FWRegressor.intercept"),
        (lambda m: setattr(m._run.constraint, "radius", -1.0), "L1Ball has parameters that it refuses"),
    ],
)
def test_parts_are_of_their_classes_and_fit_each_other(change, match):
    refused(trained(optim.SFW(memory=10)), change, match)


@pytest.mark.parametrize("part", [lambda m: m, lambda m: m.constraint])
def test_an_attribute_does_not_stand_before_a_method(part):
    model = trained(optim.SFW(memory=10))
    name = next(name for name in ("learn_one", "lmo") if hasattr(part(model), name))
    vars(part(model))[name] = len
    with pytest.raises(CheckpointError, match=name):
        codec.loads(codec.dumps(model))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda run: run.windows.pop(), "StochasticPairwiseRun does not fit"),
        (lambda run: run.windows.reverse(), "windows"),
        (lambda run: run.windows.__setitem__(0, run), "windows"),
        (lambda run: run.windows.__setitem__(0, run.windows[1]), "windows"),
        (lambda run: run.windows[0].s.__setattr__("seen", 3), "Run.held"),
        (lambda run: run.windows[1].own.active.__setitem__(slice(None), 10**6), "active"),
        (lambda run: run.windows[1].own.counts.__setitem__(0, -1.0), "counts"),
        (lambda run: run.own.counts.__setitem__(0, np.inf), "counts"),
        (lambda run: run.mix.omega.__setitem__(0, 2.0), "omega"),
        (lambda run: run.mix.omega.__setitem__(slice(None), (1.5, -0.5, 0.0)), "omega"),
        (lambda run: run.mix.curvature.__setitem__((0, 0), np.nan), "curvature"),
        (lambda run: run.mix.squares.__setitem__(1, -1.0), "squares"),
        (lambda run: run.windows[0].it.rank.__setitem__(0, 7**9), "windows"),
    ],
)
def test_models_that_forget_are_of_the_same_stream(change, match):
    refused(trained(optim.StochasticPairwiseFW(memory=10)), lambda m: change(m._run), match)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda run: setattr(run, "default", trained(optim.StochasticPairwiseFW(memory=9))._run), "default"),
        (lambda run: setattr(run, "default", trained(optim.SFW(memory=10))._run), "no run of the default"),
        (lambda run: setattr(run, "default", None), "no run of the default"),
        (lambda run: run.default.s.__setattr__("seen", 3), "held|default"),
        (lambda run: run.default.it.v.__setitem__(0, 1e9), "Run"),
        (lambda run: run.default.windows.pop(), "StochasticPairwiseRun does not fit"),
        (lambda run: run.own.points.__setitem__((0, 1), 1e9), "sizes"),
        (lambda run: run.own.metric.__setitem__((0, 0), -1.0), "metric"),
        (lambda run: run.own.sizes.__setitem__(0, 0.5), "sizes"),
        (lambda run: run.own.scales.__setitem__(0, np.nan), "scales"),
        (lambda run: run.own.omega.__setitem__(slice(None), (2.0, -1.0, 0.0, 0.0, 0.0, 0.0)), "omega"),
        (lambda run: run.own.curvature.__setitem__((0, 0), np.inf), "curvature"),
    ],
)
def test_experts_of_a_mixture_are_of_the_same_stream(change, match):
    refused(trained(optim.Mixture(memory=10)), lambda m: change(m._run), match)


def test_the_state_of_a_batch_method_fits_its_run():
    for change, match in (
        (lambda m: setattr(m._run.method.memory, "alpha", np.zeros(3)), "Derivatives.alpha"),
        (lambda m: setattr(m._run.method.memory, "total", np.zeros(50)), "Derivatives.total"),
        (lambda m: setattr(m._run.method, "inner", np.full(4, 9.0)), "SVRFMethod.inner"),
        (lambda m: setattr(m._run.method, "k", 10**6), "SVRFMethod.k"),
        (lambda m: setattr(m._run, "method", trained(optim.SCGS())._run.method), "FiniteSumRun.method"),
        (lambda m: setattr(m._run, "largest", 1e300), "FiniteSumRun.largest"),
    ):
        refused(trained(optim.SVRF(memory=10)), change, match)


def test_a_matrix_of_classes_fits_them():
    for change, match in (
        (lambda m: setattr(m._run, "k", 1), "SoftmaxRun|FWSoftmax"),
        (lambda m: setattr(m, "_classes", ("a",)), "FWSoftmax._classes"),
        (lambda m: m._run.W.__setitem__((0, 0), 99.0), "SoftmaxRun.W"),
    ):
        refused(trained(kind=FWSoftmax, constraint=sets.NuclearBall(2.0)), change, match)


# --- the fuzzer itself ---


@pytest.mark.parametrize("name", ["regressor/sfw/l1", "regressor/away/simplex", "regressor/svrf/l2", "default"])
def test_mutants_are_refused_or_work(name):
    results = fuzz.fuzz([name], seed=7, count=60)
    assert results["findings"] == []
    assert results["mutants"] == 60
    assert results["refused"] > 20
    assert results["worked"] > 3


def test_the_fuzzer_finds_what_it_looks_for(monkeypatch):
    def use(model):
        if model.n_samples > 0 and "seed=1" not in repr(vars(model)["seed"]):
            np.zeros(0)[model.n_samples]

    specimen = fuzz.SPECIMENS["regressor/sfw/l1"]._replace(use=use)
    monkeypatch.setitem(fuzz.SPECIMENS, "broken", specimen)
    assert "IndexError" in fuzz.attempt("broken", fuzz.document_of("broken").write())
    with pytest.raises(RuntimeError, match="does not work"):
        fuzz.fuzz(["broken"], count=3)
