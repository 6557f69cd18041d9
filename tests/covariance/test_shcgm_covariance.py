"""SHCGMCovariance against the algorithms written out, against river, and against bad input."""

import math
import pickle
import random

import numpy as np
import pandas as pd
import pytest
from river import base, checks, covariance, preprocessing
from support.literal_covariance import project_l1, project_spectrahedron, running_mean, shcgm

from fwonline import _room as room
from fwonline.checkpoint import codec
from fwonline.covariance import SHCGMCovariance
from fwonline.datasets import BlockCovariance
from fwonline.exceptions import CheckpointError, SampleError


def blocks(n, count, seed=0, shift=0.0):
    stream = BlockCovariance(n_features=n, n_blocks=min(10, n), seed=seed)
    return stream.to_arrays(count)[0] + shift, stream.covariance


def exact(model):
    """Let the eigenvectors be as exact as they can be: the literal versions know no other."""
    model._method.tolerance = 1e-13
    return model


def relative_error(x, truth):
    return float(((x - truth) ** 2).sum() / (truth**2).sum())


# --- against the algorithms written out ---


@pytest.mark.parametrize("batch_size", [1, 3])
def test_the_papers_method_is_algorithm_1(batch_size):
    samples, truth = blocks(25, 40 * batch_size)
    trace, l1 = np.trace(truth), np.abs(truth).sum()
    model = exact(SHCGMCovariance(trace, l1, "shcgm", center=False, batch_size=batch_size, seed=0))
    iterates = shcgm(samples, trace, l1, batch_size=batch_size)
    for k, w in enumerate(samples, 1):
        model.learn_arrays(w[None])
        if k % batch_size == 0:
            np.testing.assert_allclose(model.to_numpy(), next(iterates), atol=1e-7 * trace)


@pytest.mark.parametrize(
    ("settings", "literal"),
    [
        ({"trace": 9.0, "l1": 40.0, "center": False, "beta0": 1.0}, {"trace": 9.0, "l1": 40.0}),
        ({"beta0": 3.0}, {"centre": True, "beta0": 3.0}),
        ({}, {"centre": True, "free": True}),
        ({"batch_size": 3, "center": False}, {"every": 3, "free": True}),
        ({"dual": True}, {"centre": True, "beta0": 3.0, "dual": True}),
        (
            {"dual": True, "trace": 9.0, "l1": 30.0, "center": False, "beta0": 0.2},
            {"dual": True, "trace": 9.0, "l1": 30.0, "beta0": 0.2},
        ),
        ({"l1_fraction": 0.85, "beta0": 0.3}, {"centre": True, "l1_fraction": 0.85, "beta0": 0.3}),
        ({"batch_size": 3, "steps_per_update": 2, "beta0": 1.0}, {"centre": True, "every": 3, "steps": 2}),
    ],
)
def test_the_default_method_steps_along_the_exact_running_gradient(settings, literal):
    samples, _ = blocks(25, 40, seed=1, shift=0.5)
    model = exact(SHCGMCovariance(**settings, rank=1, seed=0))
    steps = running_mean(samples, **literal)
    x = next(steps)
    for k, w in enumerate(samples, 1):
        model.learn_arrays(w[None])
        np.testing.assert_allclose(model.ball(), x, atol=1e-7)
        if k < len(samples):
            x = steps.send(model.ball())


@pytest.mark.parametrize("dual", [False, True])
@pytest.mark.parametrize(
    ("settings", "literal"),
    [
        ({"trace": 4.0, "l1": 12.0, "center": False, "beta0": 1.0}, {"trace": 4.0, "l1": 12.0}),
        ({"beta0": 3.0}, {"centre": True, "beta0": 3.0}),
        ({"batch_size": 3, "steps_per_update": 2}, {"centre": True, "every": 3, "steps": 2, "beta0": 3.0}),
    ],
)
def test_a_block_of_all_directions_is_the_whole_projection(settings, literal, dual):
    samples, _ = blocks(12, 40, seed=1, shift=0.5)
    model = SHCGMCovariance(**{"beta0": 3.0} | settings, rank=12, dual=dual, seed=0)
    for w, x in zip(samples, running_mean(samples, block=True, dual=dual, **literal), strict=True):
        model.learn_arrays(w[None])
        if model.n_steps:
            np.testing.assert_allclose(model.to_numpy(), x, atol=1e-7)


@pytest.mark.parametrize(
    "settings", [{}, {"batch_size": 3, "steps_per_update": 2}, {"center": False}, {"fading_factor": 0.2}], ids=str
)
def test_without_bounds_the_ball_follows_what_stands_clear_of_noise(settings):
    samples, _ = blocks(12, 40, seed=1, shift=0.5)
    model = SHCGMCovariance(**settings, rank=12, seed=0)
    every, steps = settings.get("batch_size", 1), settings.get("steps_per_update", 1)
    literal = {"centre": settings.get("center", True), "every": every, "steps": steps}
    fading = settings.get("fading_factor", 0.0)
    for w, x in zip(samples, running_mean(samples, block=True, free=True, fading=fading, **literal), strict=True):
        model.learn_arrays(w[None])
        if model.n_steps:
            np.testing.assert_allclose(model.ball(), x, atol=1e-7)


def test_a_block_of_few_directions_is_the_best_point_on_them():
    samples, truth = blocks(30, 61)
    trace, l1 = float(np.trace(truth)), 0.7 * float(np.abs(truth).sum())
    model = SHCGMCovariance(trace, l1, center=False, rank=5, seed=0)
    model.learn_arrays(samples[:60])
    before = model.to_numpy()
    model.learn_arrays(samples[60:])
    q = model._state.space.basis[:5, :30].T
    np.testing.assert_allclose(q.T @ q, np.eye(5), atol=1e-12)
    eta, beta = 2 / 62, 3 / math.sqrt(62)
    v = before - samples.T @ samples / 61 + (before - project_l1(before, l1)) / beta
    h = before - v / ((1 + 1 / beta) * eta)
    s = q @ project_spectrahedron(q.T @ h @ q, trace) @ q.T
    np.testing.assert_allclose(model.to_numpy(), before + eta * (s - before), atol=1e-10)
    assert model.gap == pytest.approx(((before - s) * v).sum())
    assert model.lmo_error > 0


def test_distance_and_infeasibility_are_those_of_the_projection():
    samples, truth = blocks(40, 30)
    model = SHCGMCovariance(l1=0.5 * np.abs(truth).sum(), seed=0)
    model.learn_arrays(samples)
    x = model.to_numpy()
    assert model.violation == pytest.approx(np.linalg.norm(x - project_l1(x, model.l1)), rel=1e-9)
    assert model.infeasibility == pytest.approx(np.abs(x).sum() / model.l1 - 1, rel=1e-9)
    assert model.infeasibility > 0


# --- results over seeds: the table of the documentation ---


def errors(model, samples, truth):
    """Of the estimate, of the empirical covariance, and of both once they are scaled into the estimate's l1 ball."""
    model.learn_arrays(samples)
    plain = np.cov(samples.T, ddof=0)
    scaled = plain * min(1.0, model._l1_bound / np.abs(plain).sum())
    return [relative_error(x, truth) for x in (model.to_numpy(), plain, model.feasible(), scaled)]


def test_the_default_beats_the_plain_second_moment():
    rows = []
    for seed in range(5):
        samples, truth = blocks(200, 1000, seed=seed)
        rows.append(errors(SHCGMCovariance(seed=0), samples, truth))
    ours, plain, ours_feasible, plain_feasible = np.median(rows, axis=0)
    assert ours < plain
    assert ours_feasible < 0.6 * plain_feasible


@pytest.mark.parametrize("count", [100, 1000])
def test_the_l1_norm_above_the_noise_is_that_of_the_truth(count):
    samples, truth = blocks(100, count)
    model = SHCGMCovariance(batch_size=count, seed=0)
    model.learn_arrays(samples)
    empirical = np.cov(samples.T, ddof=0)
    variances = np.diag(empirical)
    is_clear = empirical**2 > 2.9**2 * np.outer(variances, variances) / count
    assert model._l1_bound == pytest.approx(np.abs(empirical[is_clear | np.eye(100, dtype=bool)]).sum())
    assert model._l1_bound == pytest.approx(np.abs(truth).sum(), rel=0.2)


def test_the_papers_method_errs_as_much_as_the_literal_one():
    """Beyond some forty steps trajectories part; over seeds they lie equally far from the truth."""
    ratios = []
    for seed in range(8):
        samples, truth = blocks(20, 200, seed=seed)
        trace, l1 = float(np.trace(truth)), float(np.abs(truth).sum())
        model = SHCGMCovariance(trace, l1, "shcgm", center=False, seed=0)
        model.learn_arrays(samples)
        *_, literal = shcgm(samples, trace, l1)
        errors_of = [
            (relative_error(x, truth), max(np.abs(x).sum() / l1 - 1, 1e-3)) for x in (model.to_numpy(), literal)
        ]
        ratios.append(np.log(errors_of[0]) - np.log(errors_of[1]))
    assert (np.abs(np.mean(ratios, axis=0)) < np.log([1.1, 1.5])).all()


@pytest.mark.slow
def test_the_papers_method_converges_as_published():
    by_step = {100: [], 1000: []}
    for seed in range(3):
        samples, truth = blocks(300, 1000, seed=seed)
        model = SHCGMCovariance(np.trace(truth), np.abs(truth).sum(), "shcgm", center=False, seed=0)
        for k, rows in by_step.items():
            model.learn_arrays(samples[model.n_samples : k])
            rows.append((relative_error(model.to_numpy(), truth), model.infeasibility))
    objective, feasibility = np.median(by_step[1000], axis=0)
    assert 0.04 < objective < 0.16
    assert 0.005 < feasibility < 0.08
    assert objective < 0.5 * np.median(by_step[100], axis=0)[0]


def test_a_shifted_mean_does_not_matter():
    samples, truth = blocks(60, 600)
    plain, shifted = SHCGMCovariance(seed=0), SHCGMCovariance(seed=0)
    plain.learn_arrays(samples)
    shifted.learn_arrays(samples + 5.0)
    error = relative_error(shifted.to_numpy(), truth)
    assert error == pytest.approx(relative_error(plain.to_numpy(), truth), rel=0.2)
    uncentred = SHCGMCovariance(center=False, seed=0)
    uncentred.learn_arrays(samples + 5.0)
    assert relative_error(uncentred.to_numpy(), truth) > 10


def test_a_fading_factor_follows_a_drift():
    before, _ = blocks(40, 1500, seed=1)
    after, truth = blocks(40, 1500, seed=2)
    steady, fading = SHCGMCovariance(seed=0), SHCGMCovariance(fading_factor=0.005, seed=0)
    for model in (steady, fading):
        model.learn_arrays(np.concatenate([before, after]))
    assert relative_error(fading.to_numpy(), truth) < 0.3 * relative_error(steady.to_numpy(), truth)


def test_a_fading_factor_may_be_so_small_that_it_has_no_inverse():
    model, steady = SHCGMCovariance(fading_factor=5e-324, seed=0), SHCGMCovariance(seed=0)
    for one in (model, steady):
        one.learn_arrays(blocks(10, 20)[0])
    np.testing.assert_array_equal(model.to_numpy(), steady.to_numpy())


# --- what holds at every sample ---


def test_blocks_and_the_dual_meet_the_constraint_sooner():
    rows = []
    for seed in range(3):
        samples, truth = blocks(100, 300, seed=seed)
        row = []
        for settings in ({"rank": 1, "beta0": 3.0}, {"beta0": 3.0}, {"dual": True}):
            model = SHCGMCovariance(**settings, seed=0)
            model.learn_arrays(samples)
            row += [relative_error(model.to_numpy(), truth), model.infeasibility]
        rows.append(row)
    vertex, vertex_excess, block, block_excess, dual, dual_excess = np.median(rows, axis=0)
    assert max(block, dual) < 0.9 * vertex
    assert dual_excess < 0.3 * block_excess < 0.3 * vertex_excess


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"rank": 1, "dual": True},
        {"method": "shcgm", "l1": 30.0},
        {"trace": 3.0, "l1": 5.0, "dual": True},
        {"rank": 3, "l1": math.inf, "dual": True},
        {"rank": 3, "l1": 30.0, "dual": True, "method": "shcgm"},
    ],
)
def test_every_estimate_is_psd_and_the_feasible_one_is_feasible(settings):
    samples, _ = blocks(30, 120)
    model = SHCGMCovariance(**settings, seed=0)
    for w in samples:
        model.learn_arrays(w[None])
        for x in (model.to_numpy(), model.feasible()):
            assert (x == x.T).all()
            assert np.linalg.eigvalsh(x)[0] >= -1e-12 * np.trace(x)
        assert np.abs(x).sum() <= model._l1_bound * (1 + 1e-12)
        assert np.trace(x) <= model._trace_bound * (1 + 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("settings", "count"), [({"rank": 1}, 100_000), ({"dual": True}, 20_000)])
def test_symmetry_and_eigenvalues_survive_a_hundred_thousand_steps(settings, count):
    samples, _ = blocks(8, count)
    model = SHCGMCovariance(**settings, seed=0)
    model.learn_arrays(samples)
    mixture = model.to_numpy()
    assert (mixture == mixture.T).all()
    assert np.linalg.eigvalsh(mixture)[0] >= -1e-13 * np.trace(mixture)
    x = model.ball()
    assert np.linalg.eigvalsh(x)[0] >= -1e-13 * np.trace(x)
    assert np.trace(x) <= model._trace_bound * (1 + 1e-12)
    assert model._state.l1 == pytest.approx(np.abs(x).sum(), rel=1e-12)
    empirical = np.cov(samples.T, ddof=0)
    assert model._state.empirical_l1 == pytest.approx(np.abs(empirical).sum(), rel=1e-9)


@pytest.mark.parametrize("settings", [{"rank": 1}, {"dual": True}], ids=str)
def test_single_precision_does_as_well_up_to_its_rounding(settings):
    samples, truth = blocks(60, 400, shift=100.0)
    double, single = (SHCGMCovariance(**settings, dtype=dtype, seed=0) for dtype in ("float64", "float32"))
    for model in (double, single):
        model.learn_arrays(samples)
    state = single._state
    assert {a.dtype for a in (state.x, state.m, state.y, state.g, state.space.basis)} == {np.dtype(np.float32)}
    np.testing.assert_allclose(state.m, double._state.m, rtol=1e-3, atol=1e-5 * np.trace(truth))
    x = single.to_numpy()
    assert relative_error(x, truth) == pytest.approx(relative_error(double.to_numpy(), truth), rel=0.3)
    assert (x == x.T).all()
    assert np.linalg.eigvalsh(x)[0] >= -1e-6 * np.trace(x)
    assert np.abs(single.feasible()).sum() <= single._l1_bound * (1 + 1e-5)
    assert 0 < single.gap < 5 * double.gap


def test_what_single_precision_cannot_hold_is_refused():
    model = SHCGMCovariance(dtype="float32", seed=0)
    model.update({"a": 1.0})
    before = codec.dumps(model)
    with pytest.raises(SampleError, match=r"feature 'a' is 2000000000000000.0; expected a number of at most 1e\+15"):
        model.update({"a": 2e15, "b": 1.0})
    with pytest.raises(SampleError, match="row 1: feature 0 is 1e"):
        model.learn_arrays([[1.0], [1e20]])
    assert codec.dumps(model) != before  # row 0 was learned
    assert model.n_samples == 2


# --- river's interface ---


def test_it_reads_as_rivers_covariance_does():
    samples, _ = blocks(6, 400)
    ours, theirs = SHCGMCovariance(l1=math.inf, seed=0), covariance.EmpiricalCovariance(ddof=0)
    for row in samples.tolist():
        x = dict(zip("abcdef", row, strict=True))
        ours.update(x)
        theirs.update(x)
    assert ours.matrix.keys() == theirs.matrix.keys()
    for pair, value in ours.matrix.items():
        assert ours[pair] == ours[pair[::-1]] == value
        assert type(ours[pair]) is float
        assert value == pytest.approx(theirs[pair].get(), abs=0.01)
    with pytest.raises(KeyError):
        ours["a", "z"]


def test_samples_rows_and_frames_teach_the_same():
    samples, _ = blocks(15, 50)
    by_dict, by_frame, by_array = (SHCGMCovariance(seed=3) for _ in range(3))
    for row in samples.tolist():
        by_dict.learn_one(dict(enumerate(row)))
    by_frame.update_many(pd.DataFrame(samples[:20]))
    by_frame.learn_many(pd.DataFrame(samples[20:]))
    by_array.learn_arrays(samples)
    np.testing.assert_array_equal(by_dict.to_numpy(), by_frame.to_numpy())
    np.testing.assert_array_equal(by_dict.to_numpy(), by_array.to_numpy())


@pytest.mark.parametrize("dual", [False, True])
def test_features_of_any_type_come_and_go_in_any_order(dual):
    rng, shuffled = np.random.default_rng(0), random.Random(1)
    one, other = SHCGMCovariance(dual=dual, seed=1), SHCGMCovariance(dual=dual, seed=1)
    names = [0, "a", ("t", 1), 2.5, b"b", None, "c", -7]
    for t in range(200):
        x = {name: float(v) for name, v in zip(names[: 3 + t // 30], rng.standard_normal(8), strict=False)}
        if t % 3:
            x.pop("a")
        one.update(x)
        items = list(x.items())
        shuffled.shuffle(items)
        other.update(dict(items))
    assert set(one.features) == set(names)
    np.testing.assert_array_equal(one.to_numpy(names), other.to_numpy(names))
    assert len(one.matrix) == 36
    assert one["c", None] == one.to_numpy(["c", None])[0, 1]
    np.testing.assert_array_equal(one.to_numpy(["a", "unseen"])[1], 0.0)


def test_an_absent_feature_is_zero_or_its_mean():
    samples, _ = blocks(8, 300, shift=3.0)
    seen = np.random.default_rng(0).random(samples.shape) < 0.5
    filled = {"zero": np.where(seen, samples, 0.0), "mean": None}
    means = np.zeros(8)
    rows = []
    for t, (w, s) in enumerate(zip(samples, seen, strict=True), 1):
        rows.append(np.where(s, w, means))
        means += (rows[-1] - means) / t
    filled["mean"] = np.array(rows)
    for missing, whole in filled.items():
        sparse, dense = SHCGMCovariance(missing=missing, seed=0), SHCGMCovariance(seed=0)
        sparse.update(dict.fromkeys(range(8), 0.0))
        dense.update(dict.fromkeys(range(8), 0.0))
        if missing == "mean":  # the sample of zeros moves the means
            means = np.zeros(8)
            for t, (w, s) in enumerate(zip(samples, seen, strict=True), 2):
                whole[t - 2] = np.where(s, w, means)
                means += (whole[t - 2] - means) / t
        dense.learn_arrays(whole)
        for w, s in zip(samples, seen, strict=True):
            sparse.update({j: float(w[j]) for j in np.flatnonzero(s)})
        np.testing.assert_allclose(sparse._state.m, dense._state.m, atol=1e-12)


def test_correlation_and_precision():
    samples, _ = blocks(10, 500)
    samples += 0.3 * np.random.default_rng(0).standard_normal(samples.shape)
    model = SHCGMCovariance(l1=math.inf, seed=0)
    model.learn_arrays(samples)
    np.testing.assert_allclose(model.correlation(), np.corrcoef(samples.T), atol=0.05)
    np.testing.assert_allclose(model.precision(0.1) @ (model.to_numpy() + 0.1 * np.eye(10)), np.eye(10), atol=1e-10)
    assert model.precision(features=[3, 1]).shape == (2, 2)
    with pytest.raises(ValueError, match="ridge"):
        model.precision(0.0)
    with pytest.raises(ValueError, match="variances may still be 0"):
        SHCGMCovariance().precision()


def test_it_stands_at_the_end_of_a_pipeline():
    samples, _ = blocks(5, 100)
    model = preprocessing.StandardScaler() | SHCGMCovariance(seed=0)
    for row in samples.tolist():
        model.learn_one(dict(enumerate(row)))
    cov = model["SHCGMCovariance"]
    assert cov.n_samples == 100
    assert cov.to_numpy().trace() == pytest.approx(5, rel=0.2)


def test_an_empty_model_and_an_empty_sample_are_fine():
    model = SHCGMCovariance(seed=0)
    assert model.matrix == {}
    assert model.to_numpy().shape == (0, 0)
    assert (model.infeasibility, model.violation, model.n_samples) == (0.0, 0.0, 0)
    assert math.isnan(model.gap)
    model.update({})
    model.update({"a": 1.0})
    model.update({})
    assert model.n_samples == 3
    assert 0.0 < model["a", "a"] <= 2 / 9 * (1 + 1e-15)
    np.testing.assert_array_equal(model.to_numpy(["q"]), [[0.0]])


@pytest.mark.parametrize("model", [SHCGMCovariance(), SHCGMCovariance(method="shcgm", l1=5.0)], ids=["mean", "shcgm"])
def test_rivers_own_checks_pass(model):
    for check in checks.yield_checks(model):
        check(model.clone())


# --- bad input ---


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e101, "text", None])
def test_a_bad_sample_leaves_no_trace(bad):
    samples, _ = blocks(5, 20)
    model = SHCGMCovariance(seed=0)
    model.learn_arrays(samples)
    before = codec.dumps(model)
    with pytest.raises(SampleError, match="'new'"):
        model.update({0: 1.0, "new": bad})
    assert codec.dumps(model) == before
    model.update({0: 1.0})
    assert model.n_samples == 21


def test_rows_before_a_bad_one_are_learned():
    samples, _ = blocks(5, 20)
    samples[7, 2] = math.nan
    model = SHCGMCovariance(seed=0)
    with pytest.raises(SampleError, match=r"row 7: feature 2 is nan"):
        model.learn_arrays(samples)
    assert model.n_samples == 7


@pytest.mark.parametrize(
    "settings",
    [
        {"trace": 0.0},
        {"trace": math.nan},
        {"l1": -1.0},
        {"beta0": 0.0},
        {"batch_size": 0},
        {"steps_per_update": 1.5},
        {"method": "paper"},
        {"fading_factor": 1.0},
        {"l1_fraction": 1.5},
        {"missing": "drop"},
        {"method": "shcgm"},
        {"trace": True},
        {"rank": 0},
        {"dual": "yes"},
        {"center": "yes"},
        {"l1": 10**400},
        {"dtype": "float16"},
    ],
)
def test_bad_parameters_are_named(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        SHCGMCovariance(**settings)


def test_a_low_fraction_is_warned_of():
    with pytest.warns(UserWarning, match="l1_fraction"):
        SHCGMCovariance(l1_fraction=0.7)


def test_more_features_than_memory_holds_are_refused_before_allocating(monkeypatch):
    model = SHCGMCovariance(seed=0)
    model.update({"a": 1.0, "b": 2.0})
    before = codec.dumps(model)
    monkeypatch.setattr(room.os, "sysconf", lambda name: 1 << 10)
    with pytest.raises(SampleError, match=r"covariance of 1000 features takes 0.0 GiB"):
        model.update(dict.fromkeys(range(998), 1.0))
    assert codec.dumps(model) == before


@pytest.mark.parametrize("settings", [{}, {"rank": 1}, {"dual": True}], ids=str)
@pytest.mark.parametrize("scale", [1e-90, 1e90])
def test_huge_and_tiny_values_change_the_scale_alone(scale, settings):
    samples, _ = blocks(12, 60)
    one, other = exact(SHCGMCovariance(**settings, seed=0)), exact(SHCGMCovariance(**settings, seed=0))
    one.learn_arrays(samples)
    other.learn_arrays(scale * samples)
    np.testing.assert_allclose(other.to_numpy() / scale / scale, one.to_numpy(), atol=1e-6)


# --- state ---


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"method": "shcgm", "l1": 30.0, "batch_size": 4},
        {"fading_factor": 0.01, "rank": 1},
        {"dual": True, "batch_size": 3, "dtype": "float32"},
    ],
)
@pytest.mark.parametrize("copy", [lambda m: codec.loads(codec.dumps(m)), lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_goes_on_to_the_bit(settings, copy):
    samples, _ = blocks(20, 90)
    model = SHCGMCovariance(**settings, seed=0)
    model.learn_arrays(samples[:41])
    again = copy(model)
    for part in (model, again):
        part.learn_arrays(samples[41:])
    np.testing.assert_array_equal(model.to_numpy(), again.to_numpy())
    assert model.gap == again.gap


def set_x(entry, value):
    def damage(model):
        model._state.x[entry] = value

    return damage


def set_fact(model, **facts):
    evidence = model._state.evidence
    evidence.facts = evidence.facts._replace(**facts)


DAMAGES = {
    **{
        f"{name} = {value!r:.30}": (name, value)
        for name, value in (
            ("n", 100),
            ("n", -1),
            ("n", True),
            ("n", 1),
            ("x", np.zeros(2)),
            ("x", np.zeros((6, 6))),
            ("x", None),
            ("m", np.zeros(36, np.float32)),
            ("m", np.full(36, np.nan)),
            ("y", np.ones(3)),
            ("mean", np.zeros(9)),
            ("mean", np.full(8, np.inf)),
            ("waiting", 5),
            ("waiting", 0.0),
            ("seen", 1 << 60),
            ("steps", -1),
            ("rank", 1 << 40),
            ("dtype_name", "float32"),
            ("dual", True),
            ("tau", math.nan),
            ("l1", 1e9),
            ("n_above", 0.5),
            ("second_moment_trace", -1.0),
            ("rng", None),
            ("evidence", None),
            ("evidence", 1.0),
        )
    },
    "a fact that is no number": lambda model: set_fact(model, fourth=math.nan),
    "a negative fourth moment": lambda model: set_fact(model, fourth=-1.0),
    "another unit": lambda model: set_fact(model, trace=1e90),
    "weights of samples that sum to more than 1": lambda model: set_fact(model, spread=1.5),
    "no third moment": lambda model: setattr(model._state.evidence, "third", np.zeros(2)),
    "x not semidefinite": set_x(1, 50.0),
    "x of a negative variance": set_x(2, -1.0),
    "x of a feature to come": set_x(7, 1.0),
}


def damaged(model, damage):
    if callable(damage):
        damage(model)
    else:
        setattr(model._state, *damage)
    return codec.dumps(model)


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_state_is_refused(damage):
    model = SHCGMCovariance(seed=0)
    for _ in range(3):
        model.update({"a": 1.0, "b": 2.0})
        model.update({"a": 1.5, "b": -2.0})
    codec.loads(codec.dumps(model))
    with pytest.raises(CheckpointError, match=r"State|Evidence|rng|evidence"):
        codec.loads(damaged(model, damage))


def test_damaged_parameters_and_names_are_refused():
    model = SHCGMCovariance(trace=100.0, seed=0)
    for a in (1.0, 2.0, 5.0):
        model.update({"a": a, "b": -a})
    for name, value in {"trace": math.nan, "batch_size": 10**30, "rank": -1, "dtype": "object", "trace ": 1e-3}.items():
        other = codec.loads(codec.dumps(model))
        setattr(other, name.strip(), value)
        with pytest.raises(CheckpointError, match=r"SHCGMCovariance|State"):
            codec.loads(codec.dumps(other))
    for names in (["a"], ["a", "b", "c"], ["a", "a"], ["b"] * 9):
        other = codec.loads(codec.dumps(model))
        other._features.names = names
        with pytest.raises(CheckpointError, match="names"):
            codec.loads(codec.dumps(other))
    other = codec.loads(codec.dumps(model))
    other._features.dimension = 2
    with pytest.raises(CheckpointError, match=r"SHCGMCovariance\._features"):
        codec.loads(codec.dumps(other))


def test_the_method_is_what_the_parameters_say():
    model = SHCGMCovariance(batch_size=2, seed=0)
    model.update({"a": 1.0})
    model._method = SHCGMCovariance(method="shcgm", l1=1.0, fading_factor=0.5)._method
    assert codec.loads(codec.dumps(model))._method == SHCGMCovariance(batch_size=2)._method


def test_two_estimates_cannot_have_one_state_or_one_index():
    one, other = SHCGMCovariance(seed=0), SHCGMCovariance(seed=0)
    for model in (one, other):
        model.update({"a": 1.0, "b": 2.0})
    codec.loads(codec.dumps([one, other, one]))
    for name in ("_state", "_features"):
        twin = codec.loads(codec.dumps(other))
        setattr(twin, name, getattr(one, name))
        with pytest.raises(CheckpointError, match=f"{name}: expected an object that no other has"):
            codec.loads(codec.dumps([one, twin]))


def test_cloning_keeps_the_parameters_and_forgets_the_rest():
    model = SHCGMCovariance(trace=3.0, batch_size=2, seed=5)
    model.update({"a": 1.0})
    fresh = model.clone()
    assert fresh.n_samples == 0
    assert fresh._get_params() == model._get_params()
    assert repr(fresh) == repr(model)
    assert "trace=3.0" in repr(model)
    assert isinstance(model, base.Estimator)


def test_memory_stays_flat_when_nothing_new_is_seen():
    samples, _ = blocks(10, 300)
    model = SHCGMCovariance(seed=0)
    model.learn_arrays(samples[:100])
    size = len(codec.dumps(model))
    model.learn_arrays(samples[100:])
    assert abs(len(codec.dumps(model)) - size) < 64


def test_the_largest_values_that_can_be_learned_come_back_from_a_file():
    model = SHCGMCovariance(seed=0)
    for sign in (1.0, -1.0, 1.0, -1.0):
        model.update({"a": 1e100 * sign, "b": -1e100 * sign})
    np.testing.assert_array_equal(codec.loads(codec.dumps(model)).to_numpy(), model.to_numpy())
    merged = model.merged([model])
    np.testing.assert_array_equal(codec.loads(codec.dumps(merged)).to_numpy(), merged.to_numpy())
