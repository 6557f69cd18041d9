"""What objects from a file are asked: shared memory is parted, and a small file stands for nothing large."""

import numpy as np
import pytest

from fwonline import _loaded, sets
from fwonline._kernels import symmetric
from fwonline.checkpoint import codec
from fwonline.covariance import SHCGMCovariance
from fwonline.exceptions import CheckpointError
from fwonline.loop._kind import difference, kind_of
from fwonline.reco import SHCGMCompletion


def test_arrays_that_share_memory_in_a_file_do_not_when_it_is_loaded():
    model = SHCGMCompletion(radius=30.0, batch_size=10, seed=1)
    for k in range(40):
        model.learn_one(k % 8, k % 5, float(k % 3))
    ratings = model._ratings
    ratings.y = model._state.fit  # the very array
    state = codec.loads(codec.dumps(model))
    assert not np.shares_memory(state._ratings.y, state._state.fit)
    np.testing.assert_array_equal(state._ratings.y, state._state.fit)


def test_parameters_that_stand_for_more_than_the_file_holds_are_refused():
    box = sets.Box([0.0, 0.0], [1.0, 1.0])
    box.upper = range(10**12)
    with pytest.raises(CheckpointError, match=r"Box.upper: expected numbers"):
        codec.loads(codec.dumps(box))
    rows: list = [0.5] * 2000
    for _ in range(4):
        rows = [rows] * 2000
    box.upper = rows
    with pytest.raises(CheckpointError, match=r"Box.upper: expected numbers"):
        codec.loads(codec.dumps(box))


def test_a_file_may_not_choose_any_number_of_steps_for_a_sample():
    model = SHCGMCovariance(seed=0)
    codec.loads(codec.dumps(model))
    model.steps_per_update = 1 << 31
    with pytest.raises(CheckpointError, match="steps_per_update: expected at most"):
        codec.loads(codec.dumps(model))


def test_the_kind_of_lists_of_the_same_lists_is_soon_told():
    rows: list = [1]
    for _ in range(60):
        rows = [rows, rows]
    kind = kind_of({"rows": rows})
    assert difference(kind, kind_of({"rows": [2]}), "model").startswith("model.rows was ")


@pytest.mark.parametrize("n", [3, 6])
def test_a_matrix_with_a_negative_eigenvalue_is_told_from_one_without(n):
    vectors = np.linalg.qr(np.random.default_rng(0).normal(size=(n, n)))[0]
    for lowest, is_good in ((0.0, True), (-1e-3, False)):
        values = np.linspace(lowest, 1.0, n)
        whole = (vectors * values) @ vectors.T
        packed = whole[np.tril_indices(n)]
        assert packed.size == symmetric.size(n)
        if is_good:
            _loaded.positive_semidefinite(np, "x", packed, n, 1e-9)
        else:
            with pytest.raises(CheckpointError, match="x: expected a positive semidefinite matrix"):
                _loaded.positive_semidefinite(sets.L1Ball(1.0), "x", packed, n, 1e-9)
