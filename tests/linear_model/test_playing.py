"""Rows played in blocks: to the last bit what `play_one` says and does for one after another."""

import itertools
import math

import numpy as np
import pytest
from river import optim as river_optim
from scipy import sparse
from support.catalogue import OPTIMIZERS, PAIRS, SETS, regression, state_of
from support.played import BLOCKS, bits, samples_of, words

from fwonline import optim, sets
from fwonline._protocols import SupportsPlayBlock
from fwonline.checkpoint import codec
from fwonline.exceptions import SampleError
from fwonline.linear_model import FWClassifier, FWRegressor, FWSoftmax
from fwonline.optim.runs.run import Run


def compare(make, X, y, names=None, singly=()):
    """Play in blocks, the rows named in ``singly`` one by one, and compare all that can be seen."""
    samples = samples_of(X, range(X.shape[1]) if names is None else names)
    one, many = make(), make()
    expected, predictions, gaps, known = [], [], [], []
    for x, label in zip(samples[: BLOCKS[-1]], y.tolist(), strict=False):
        expected.append(one.play_one(x, label))
        predictions.append(one.last_sample.prediction)
        gaps.append(one.gap)
        known.append(one.n_features)
    got = []
    for first, last in itertools.pairwise(BLOCKS):
        if first in singly:
            got += [many.play_one(samples[i], y.tolist()[i]) for i in range(first, last)]
            continue
        answers, error = many.play_block(X[first:last], y[first:last], names)
        assert error is None
        got += answers.tolist()
        played = many.last_samples
        assert bits(played.predictions) == bits(predictions[first:last])
        assert played.n_features.tolist() == known[first:last]
        assert (played.gaps is None) != one.gap_is_kept
        assert played.gaps is None or bits(played.gaps) == bits(gaps[first:last])
        assert bits(many.last_sample.values) == bits(played.values[played.indptr[-2] :])
    assert [repr(answer) for answer in got] == [repr(answer) for answer in expected]
    assert codec.dumps(many) == codec.dumps(one)
    assert state_of(many) == state_of(one)


@pytest.mark.parametrize(("optimizer", "where"), PAIRS)
def test_blocks_are_samples(optimizer, where):
    def make():
        return FWRegressor(SETS[where](), OPTIMIZERS[optimizer](), seed=1)

    if make().play_reason is not None:
        assert where == "k-sparse"
        return
    X, y = regression(density=0.7)
    compare(make, X, y, singly=(40,))
    X, y = words(160, 300)
    compare(make, X, y, names=[f"w{j}" for j in range(300)], singly=(40,))


LABELS = {
    "truths": lambda y: y > 0,
    "numbers": lambda y: (y > 0).astype(int),
    "texts": lambda y: np.where(y > 0, "spam", "ham"),
    "objects": lambda y: np.where(y > 0, "spam", "ham").astype(object),
    "numbers of two types": lambda y: np.array([1.0 if label > 0 else 0 for label in y], dtype=object),
}


@pytest.mark.parametrize("kind", [FWClassifier, FWSoftmax])
@pytest.mark.parametrize("labels", LABELS)
def test_blocks_of_labels(kind, labels):
    X, y = regression(density=0.7)
    compare(lambda: kind(seed=1), X, LABELS[labels](y), singly=(0,))


def test_many_classes_come_one_after_another():
    X, _ = regression(d=5)
    y = np.minimum(np.abs(X).argmax(axis=1), np.arange(200) // 30)
    for model in (FWSoftmax(seed=1), FWSoftmax(sets.L1Ball(5.0), optim.SFW(memory=20), seed=1)):
        one = model.clone()
        samples = samples_of(X, range(5))
        expected = [one.play_proba_one(x, label) for x, label in zip(samples, y.tolist(), strict=True)]
        p = model.play_proba_arrays(X, y)
        assert p.shape == (200, 5)
        assert [dict(zip(model.classes, row, strict=False)) for row in p.tolist()] == [
            dict.fromkeys(model.classes, 0.0) | row for row in expected
        ]
        assert state_of(one) == state_of(model)
        again = one.clone()
        assert again.play_arrays(X, y).tolist() == [max(row, key=row.get, default=None) for row in expected]


def test_classes_that_come_late_have_room_from_the_first_row_on(monkeypatch):
    plain = Run.learn_rows

    def learn_rows(self, rows, first, last):
        assert rows.shown.shape[1] <= self.own.scratch.shape[1]
        return plain(self, rows, first, last)

    monkeypatch.setattr(Run, "learn_rows", learn_rows)
    X = sparse.csr_array(np.eye(3)[np.arange(60) % 3])
    y = np.append(np.zeros(20, int), np.arange(40))
    one, many = FWSoftmax(seed=1), FWSoftmax(seed=1)
    for x, label in zip(samples_of(X, range(3)), y.tolist(), strict=True):
        one.play_one(x, label)
    assert len(many.play_arrays(X, y)) == 60
    assert state_of(one) == state_of(many)


def test_arrays_meet_classes_on_the_way():
    X, y = regression()
    y = np.where((y > 0) & (np.arange(200) > 50), "spam", "ham")
    one, labels, shares = (FWClassifier(sets.L1Ball(5.0), optim.OneSampleFW(), seed=1) for _ in range(3))
    expected = [one.play_proba_one(x, label) for x, label in zip(samples_of(X, range(8)), y.tolist(), strict=True)]
    assert labels.play_arrays(X, y).tolist() == [max(row, key=row.get) for row in expected]
    assert {False, "ham", "spam"} == set(labels.clone().play_arrays(X, y).tolist())
    p = shares.play_proba_arrays(X, y)
    assert p.shape == (200,)
    assert [row["spam"] for row in expected if "spam" in row] == p[[("spam" in row) for row in expected]].tolist()
    assert state_of(one) == state_of(labels) == state_of(shares)


def test_probabilities_of_a_block():
    X, y = regression(labels=True)
    for kind in (FWClassifier, FWSoftmax):
        one, many = kind(seed=1), kind(seed=1)
        for model in (one, many):
            model.learn_arrays(X[:20], y[:20])
        samples = samples_of(X[20:], range(8))
        expected = [one.play_proba_one(x, label) for x, label in zip(samples, y[20:].tolist(), strict=True)]
        played, error = many.play_block(X[20:], y[20:], probabilities=True)
        assert error is None
        assert played.dicts() == expected
        assert played.labels() == [max(row, key=row.get) for row in expected]
        assert state_of(one) == state_of(many)


def test_no_probability_of_a_class_to_come():
    model = FWSoftmax(seed=1)
    with pytest.raises(ValueError, match="the model knows"):
        model.play_block(np.ones((2, 1)), np.array(["a", "b"]), probabilities=True)
    assert model.classes == ()
    assert model.n_samples == 0


REFUSED = {
    "value": lambda X, y: (X.__setitem__((70, 2), math.nan), y),
    "first": lambda X, y: (X.__setitem__((0, 2), math.inf), y),
    "target": lambda X, y: (None, np.where(np.arange(len(y)) == 70, math.nan, y)),
    "huge": lambda X, y: (None, np.where(np.arange(len(y)) == 70, 1e200, y)),
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("optimizer", ["one-sample", "sfw", "pairwise-memory", "mixture"])
def test_a_refused_row_ends_the_block(optimizer, what, is_sparse):
    X, y = regression(d=6)
    _, y = REFUSED[what](X, y)
    if is_sparse:
        # Columns 3 to 5 come with the refused row or later, under numbers that sort before the others.
        X[:70, 3:] = 0.0
        X = sparse.csr_array(X[:, ::-1])
    one, many = (FWRegressor(sets.L1Ball(5.0), OPTIMIZERS[optimizer](), seed=1) for _ in range(2))
    row = 0 if what == "first" else 70
    samples = samples_of(X, range(6))
    expected = [one.play_one(x, label) for x, label in zip(samples[:row], y.tolist(), strict=False)]
    with pytest.raises(SampleError) as refused:
        one.play_one(samples[row], y[row].item())
    answers, error = many.play_block(X, y)
    assert bits(answers) == bits(expected)
    assert isinstance(error, SampleError)
    assert str(error) == str(refused.value)
    assert codec.dumps(many) == codec.dumps(one)
    with pytest.raises(SampleError, match="row 0"):
        many.play_arrays(X[row:], y[row:])
    rest = [one.play_one(x, label) for x, label in zip(samples[row + 1 :], y[row + 1 :].tolist(), strict=True)]
    assert bits(many.play_arrays(X[row + 1 :], y[row + 1 :])) == bits(rest)
    assert codec.dumps(many) == codec.dumps(one)


def test_a_label_that_is_missing_leaves_no_class():
    X, _ = regression(n=10)
    labels = np.array(["a", "a", "b", None, "c", "a", "a", "a", "a", "a"], dtype=object)
    for model in (FWClassifier(seed=1), FWSoftmax(seed=1)):
        answers, error = model.play_block(X, labels)
        assert len(answers) == 3
        assert "None" in str(error)
        assert model.classes == ("a", "b")


def test_frames_play_by_their_columns():
    pandas = pytest.importorskip("pandas")
    X, y = regression()
    one, many = (FWRegressor(sets.L1Ball(5.0), optim.OneSampleFW(), seed=1) for _ in range(2))
    frame = pandas.DataFrame(X, columns=list("hgfedcba"))
    expected = [one.play_one(x, label) for x, label in zip(frame.to_dict("records"), y.tolist(), strict=True)]
    assert bits(many.play_arrays(frame, y)) == bits(expected)
    assert state_of(one) == state_of(many)


class OwnSquared(river_optim.losses.Squared):
    """Its type is not river's, so that it is a Python object to the steps."""

    def __call__(self, y_true, y_pred):
        return super().__call__(y_true, y_pred) + 0.0


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: FWRegressor(max_names=5, seed=1), "max_names"),
        (lambda: FWRegressor(sets.L1Ball(1.0), optim.SVRF(), seed=1), "in Python"),
        (lambda: FWRegressor(sets.L1Ball(1.0), optim.OneSampleFW(), OwnSquared(), seed=1), "a Python object"),
    ],
)
def test_others_play_row_by_row(make, why):
    X, y = regression(n=30)
    one, many = make(), make()
    assert isinstance(many, SupportsPlayBlock)
    assert why in many.play_reason
    with pytest.raises(ValueError, match=why):
        many.play_block(X, y)
    expected = [one.play_one(x, label) for x, label in zip(samples_of(X, range(8)), y.tolist(), strict=True)]
    assert bits(many.play_arrays(X, y)) == bits(expected)
    assert state_of(one) == state_of(many)


def test_means_of_a_loss():
    X, y = regression()
    y = np.exp(y)
    one, many = (
        FWRegressor(sets.L1Ball(1.0), optim.OneSampleFW(), river_optim.losses.Poisson(), seed=1) for _ in range(2)
    )
    expected = [one.play_one(x, label) for x, label in zip(samples_of(X, range(8)), y.tolist(), strict=True)]
    assert bits(many.play_arrays(X, y)) == bits(expected)


def test_the_watch_on_a_set_that_is_too_large_sees_the_same():
    X, y = regression(n=600)
    said = []
    for play in (
        lambda model: [model.play_one(x, t) for x, t in zip(samples_of(X, range(8)), y.tolist(), strict=True)],
        lambda model: model.play_arrays(X, y),
    ):
        with pytest.warns(UserWarning, match="is too large") as record:
            play(FWRegressor(sets.L1Ball(1e4), optim.SFW(memory=20), seed=1))
        said.append([str(warning.message) for warning in record])
    assert said[0] == said[1]


def test_shapes_that_do_not_fit():
    model = FWRegressor(seed=1)
    for call in (model.play_arrays, model.play_block):
        with pytest.raises(ValueError, match="one target for each of the 2 rows"):
            call(np.ones((2, 1)), np.zeros(3))
    with pytest.raises(ValueError, match="the same name"):
        model.play_block(np.ones((2, 2)), np.zeros(2), ["a", "a"])
    assert model.n_features == 0
    answers, error = model.play_block(np.ones((0, 2)), np.zeros(0))
    assert (len(answers), error, model.n_features) == (0, None, 0)
