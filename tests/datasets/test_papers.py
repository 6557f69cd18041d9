"""The papers' data: read as it is, and a clear word where it is not there."""

import itertools
import os

import numpy as np
import pytest
import scipy.sparse

from fwonline.datasets import PaperDataset, load
from fwonline.datasets.papers import PAPERS
from fwonline.exceptions import SourceError

needs_data = pytest.mark.skipif(
    not os.environ.get("FWONLINE_DATA"), reason="FWONLINE_DATA does not name the folder of the papers' data"
)


@needs_data
@pytest.mark.parametrize("name", PAPERS)
def test_arrays_have_the_shape_that_is_told(name):
    X, y = load(name)
    dataset = PaperDataset(name)
    assert X.shape == (dataset.n_samples, dataset.n_features)
    assert y.shape == (dataset.n_samples,)
    assert scipy.sparse.issparse(X) == dataset.sparse
    values = X.data if dataset.sparse else X
    assert np.isfinite(values).all()
    if dataset.n_classes:
        assert len(np.unique(y)) == dataset.n_classes
    assert (y.dtype == bool) == (dataset.n_classes == 2)


@needs_data
@pytest.mark.parametrize("name", PAPERS)
def test_iteration_gives_the_rows(name):
    X, y = load(name)
    for i, (x, target) in enumerate(PaperDataset(name).take(20)):
        row = X[[i]].toarray()[0] if scipy.sparse.issparse(X) else X[i]
        dense = np.zeros(X.shape[1])
        keys = PAPERS[name].keys
        for key, value in x.items():
            dense[keys.index(key) if keys else key] = value
        assert np.array_equal(dense, row)
        assert target == y[i]
        assert type(target) in (bool, int, float)


@needs_data
def test_what_the_papers_measured():
    X, y = load("breast_cancer_wisconsin")
    assert np.abs(X).max() == 1
    assert y.sum() == 239
    X, _ = load("rcv1_binary_sample")
    np.testing.assert_allclose(np.sqrt(X.multiply(X).sum(axis=1)), 1, rtol=1e-5)


@needs_data
def test_splits():
    X, y = load("movielens_100k", split="ub_test")
    assert X.shape == (9430, 2)
    assert set(np.unique(y)) <= {1, 2, 3, 4, 5}
    assert load("fashion_mnist", split="test")[0].shape == (10_000, 784)
    assert len(list(PaperDataset("movielens_100k", split="ub_test"))) == 9430


def test_a_missing_folder_names_the_variable(monkeypatch):
    monkeypatch.delenv("FWONLINE_DATA", raising=False)
    with pytest.raises(SourceError, match="FWONLINE_DATA is not set"):
        load("farm_ads")
    with pytest.raises(SourceError, match="FWONLINE_DATA"):
        next(iter(PaperDataset("farm_ads")))
    assert "$FWONLINE_DATA" in repr(PaperDataset("farm_ads"))


def test_a_missing_or_damaged_file_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("FWONLINE_DATA", str(tmp_path))
    with pytest.raises(SourceError, match=r"no file .*california_housing\.npz"):
        load("california_housing")
    (tmp_path / "california_housing.npz").write_bytes(b"not a zip")
    with pytest.raises(SourceError, match="not the archive"):
        load("california_housing")
    np.savez(tmp_path / "california_housing.npz", other=np.zeros(3))
    with pytest.raises(SourceError, match="not the archive"):
        load("california_housing")


def test_a_file_with_pickles_is_refused(tmp_path):
    np.savez(tmp_path / "california_housing.npz", X=np.array([{"a": 1}], dtype=object), y=np.zeros(1))
    with pytest.raises(SourceError, match="not the archive"):
        load("california_housing", directory=tmp_path)


def test_a_wrong_name_or_split_is_told():
    with pytest.raises(ValueError, match="there are breast_cancer_wisconsin"):
        load("iris")
    with pytest.raises(ValueError, match="no split 'u9'"):
        PaperDataset("movielens_100k", split="u9")


def test_a_folder_can_be_given(tmp_path):
    X, y = np.arange(16.0).reshape(2, 8), np.array([1.5, 2.5])
    np.savez(tmp_path / "california_housing.npz", X=X, y=y)
    samples = list(PaperDataset("california_housing", directory=tmp_path))
    assert [list(x.values()) for x, _ in samples] == X.tolist()
    assert [target for _, target in samples] == y.tolist()
    assert list(itertools.islice(samples[0][0], 2)) == ["MedInc", "HouseAge"]
