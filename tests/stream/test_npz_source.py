"""NumPy's archives: rows in both ways, positions, and what a stranger's archive may hold."""

import contextlib
import io
import threading
import zipfile
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from support.source_roads import check_roads

from fwonline.cli import main
from fwonline.definition import load_definition
from fwonline.exceptions import SourceError
from fwonline.stream import NPZSource, Rejected, Sample
from fwonline.stream.arrays import npz

N = 13
RNG = np.random.default_rng(0)


def save(path, **arrays):
    np.savez(path, **arrays)
    return path


def csr(X):
    return {name: getattr(X, name) for name in ("data", "indices", "indptr", "shape")}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.npz"


@pytest.fixture(autouse=True)
def parts_are_small(monkeypatch):
    monkeypatch.setattr(npz, "VALUES", 12)
    monkeypatch.setattr(npz, "_ENDS", 4)


@pytest.mark.parametrize(
    "X",
    [
        RNG.normal(size=(N, 3)),
        RNG.normal(size=(N, 3)).astype(">f4"),
        np.asfortranarray(RNG.normal(size=(N, 3))),
        RNG.integers(-(2**63), 2**63 - 1, size=(N, 3)),
        RNG.integers(0, 2, size=(N, 3)).astype(bool),
        RNG.normal(size=(N, 3)).astype("f2"),
        np.where(RNG.random((N, 3)) < 0.2, np.nan, np.inf),
        np.arange(N, dtype=np.uint8)[:, None],
        RNG.normal(size=(N, 40)),
    ],
)
@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_dense_rows(path, X, write):
    write(path, X=X, y=np.arange(N) % 2 == 0)
    for most in (1, 3, 4096):
        assert check_roads(lambda: NPZSource(path), most=most, every=4) == N
    sample = list(NPZSource(path, name="a"))[-1]
    assert sample.origin == f"a:{N}"
    assert list(sample.x) == list(range(X.shape[1]))
    assert list(map(repr, sample.x.values())) == list(map(repr, X[-1].tolist()))


@pytest.mark.parametrize(
    "y",
    [np.arange(N) / 3, np.arange(N, dtype="f4") / 3, np.arange(N, dtype="u1"), np.array(["b", "aa"])[np.arange(N) % 2]],
)
def test_targets_keep_their_kind(path, y):
    save(path, features=np.eye(N), labels=y, names=[f"x{j}" for j in range(N)])
    assert check_roads(lambda: NPZSource(path, "labels", matrix="features"), most=5, every=6) == N
    samples = list(NPZSource(path, "labels", matrix="features"))
    assert [(type(sample.y), sample.y) for sample in samples] == [(type(v), v) for v in y.tolist()]
    assert list(samples[0].x)[:2] == ["x0", "x1"]


@pytest.mark.parametrize("index", ["i4", "i8", "u2"])
def test_sparse_rows(path, index):
    X = scipy.sparse.random_array((N, 30), density=0.15, rng=RNG, format="csr")
    X.data[::3] = 0.0  # stored, so they are features
    arrays = csr(X)
    arrays["indices"] = arrays["indices"].astype(index)
    save(path, **arrays, y=np.arange(N) % 3, format=b"csr")
    for most in (1, 3, 4096):
        assert check_roads(lambda: NPZSource(path), most=most, every=3) == (np.diff(X.indptr) > 0).sum()
    assert [list(item.x) for item in NPZSource(path)] == [X.indices[i:j].tolist() for i, j in pairwise(X.indptr)]


def test_what_scipy_saves_has_questions(path):
    scipy.sparse.save_npz(path, scipy.sparse.csr_matrix(np.eye(3)))
    assert list(NPZSource(path, target=None, name="a"))[1] == Sample({1: 1.0}, None, origin="a:2")
    assert check_roads(lambda: NPZSource(path, target=None)) == 0


HOSTILE = {
    "data": np.arange(8.0),
    "indices": [0, 1, 9, 2, 2, 1, 0, 2],
    "indptr": [0, 2, 4, 6, 6, 8],
    "shape": [5, 3],
    "y": np.arange(5),
}


def test_rows_that_no_matrix_can_have_are_rejected(path):
    save(path, **{**HOSTILE, "indices": [0, 1, 9, 2, 2, 2, 0, -1]})
    items = list(NPZSource(path, name="a"))
    assert [type(item) for item in items] == [Sample, Rejected, Rejected, Sample, Rejected]
    assert items[1].error == "a:2: column 9: expected 0 to 2"
    assert items[1].raw == {"indices": [9, 2], "data": [2.0, 3.0]}
    assert items[2].error == "a:3: column 2: expected once, found twice"
    assert items[4].error == "a:5: column -1: expected 0 to 2"
    assert check_roads(lambda: NPZSource(path)) == 1


def test_columns_may_stand_in_any_order(path):
    save(path, **{**HOSTILE, "indices": [1, 0, 2, 0, 2, 1, 2, 0]}, names=["a", "b", "c"])
    assert list(NPZSource(path))[1].x == {"c": 2.0, "a": 3.0}
    assert check_roads(lambda: NPZSource(path)) == 4


@pytest.mark.parametrize(
    ("arrays", "error"),
    [
        (
            {"indptr": [0, 2, 1, 6, 6, 8]},
            "'indptr': expected numbers that do not fall, and at most 8, found 1 behind row 2",
        ),
        (
            {"indptr": [0, 2, 4, 6, 6, 9]},
            "'indptr': expected numbers that do not fall, and at most 8, found 9 behind row 5",
        ),
        ({"indptr": [-1, 2, 4, 6, 6, 8]}, "'indptr': expected 0 at first, and at most 8, found -1 for row 1"),
        ({"indptr": [1, 2, 4, 6, 6, 8]}, "'indptr': expected 0 at first"),
        ({"indptr": [0, 2**63, 4, 6, 6, 8]}, "'indptr': expected"),
        ({"indptr": [0, 8]}, r"'indptr': expected shape \(6,\), found \(2,\)"),
        ({"indices": [0, 1]}, r"'indices': expected shape \(8,\), found \(2,\)"),
        ({"indices": np.zeros(8)}, "'indices': expected integers, found float64"),
        ({"shape": [5, 2**40]}, "'shape': expected 1 or more rows and columns, and at most"),
        ({"shape": [-5, 3]}, "'shape': expected 1 or more rows and columns"),
        ({"shape": [2**50, 3]}, r"'indptr': expected shape \(1125899906842625,\), found \(6,\)"),
        ({"format": b"csc"}, r"'format': expected csr \(scipy\.sparse: X\.tocsr\(\)\), found csc"),
        ({"y": np.arange(4)}, r"'y': expected shape \(5,\), found \(4,\)"),
        ({"y": [1j] * 5}, "'y': expected floats, integers, booleans, texts, found complex128"),
        ({"y": np.array([1, "a", None, 2, 3], object)}, "'y': expected numbers or texts, found objects of Python"),
        ({"y": np.array(["x" * 300] * 5)}, "'y': expected texts of at most 256 characters, found <U300"),
        ({"names": ["a", "b", "a"]}, "'names': expected every name once, found one of them twice"),
        ({"names": ["a", "b"]}, r"'names': expected shape \(3,\), found \(2,\)"),
        ({"X": np.zeros((5, 2, 2))}, r"'X': expected shape \(1 or more, 1 or more\), found \(5, 2, 2\)"),
        ({"X": np.zeros((5, 0))}, r"'X': expected shape \(1 or more, 1 or more\), found \(5, 0\)"),
        ({"X": np.zeros((5, 2), "f2,f4")}, "'X': expected floats, integers, booleans, found "),
    ],
)
def test_arrays_that_contradict_each_other(path, arrays, error):
    save(path, **{**HOSTILE, **arrays})
    check_roads(lambda: NPZSource(path, name="a"))
    with pytest.raises(SourceError, match=r"^a: array " + error):
        list(NPZSource(path, name="a"))


def member(array, **changes):
    """The bytes of an array with other words in its header."""
    file = io.BytesIO()
    np.save(file, array)
    data = file.getvalue()
    for old, new in changes.values():
        assert old in data
        data = data.replace(old + b" " * (len(new) - len(old)), new + b" " * (len(old) - len(new)))
    return data


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (member(np.zeros((5, 2)), n=(b"(5, 2), }   ", b"(5, 2**9), }")), "expected a header of version 1.0 or 2.0"),
        (
            member(np.zeros((5, 2)), n=(b"(5, 2), }          ", b"(5000000000, 2), } ")),
            "expected 80,000,000,000 bytes by its header, found 80",
        ),
        (member(np.zeros((5, 2)))[:-1], "expected 80 bytes by its header, found 79"),
        (member(np.zeros((5, 2))) + b"more", "expected 80 bytes by its header, found 84"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b"{" * 100_000, "expected a header of"),
        (b"\x93NUMPY\x01\x00\x00\x20" + b"(" * 0x2000, "expected a header of"),
        (b"\x93NUMPY\x01\x00\x00\x20" + b"{'a':\n" * 1000 + 1192 * b" ", "expected a header of"),
        (b"\x93NUMPY\x01\x00\x02\x00[]", "expected a header of"),
        (b"\x93NUMPY\x03\x00" + member(np.zeros((5, 2)))[8:], "expected a header of version 1.0 or 2.0"),
        (b"no array", "expected a header of"),
        (b"", "expected a header of"),
    ],
)
def test_a_header_that_lies(path, data, error):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", data)
        archive.writestr("y.npy", member(np.zeros(5)))
    with pytest.raises(SourceError, match=error):
        list(NPZSource(path))


def test_a_bomb_is_refused_by_its_header(path, monkeypatch):
    monkeypatch.setattr(npz, "_MOST", 100)
    for arrays, error in [
        ({"X": np.zeros((2, 13))}, "expected at most 12 columns, found 13"),
        ({"X": np.asfortranarray(np.zeros((12, 2)))}, "expected at most 100 bytes, found 192"),
        ({"X": np.zeros((2, 10)), "names": [f"{j:05}" for j in range(10)]}, "expected at most 100 bytes, found 200"),
        (csr(scipy.sparse.csr_array(np.ones((2, 9)))), "expected at most 6 values a row, found 9 in row 1"),
    ]:
        np.savez_compressed(path, **arrays, y=np.zeros(len(arrays["X"]) if "X" in arrays else 2))
        with pytest.raises(SourceError, match=error):
            list(NPZSource(path))


def test_the_thread_that_reads_ahead_ends_with_the_source(path):
    save(path, X=np.eye(N), y=np.zeros(N))
    before = threading.active_count()
    with NPZSource(path) as source:
        next(source.blocks())
        assert threading.active_count() == before + 1
    assert threading.active_count() == before
    list(NPZSource(path))
    assert threading.active_count() == before


def test_other_compressions_are_refused(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:  # whose dictionary may take 4 GiB
        archive.writestr("X.npy", member(np.zeros((5, 2))))
    with pytest.raises(SourceError, match=r"expected numpy\.savez or numpy\.savez_compressed, found compression 14"):
        list(NPZSource(path, None))


def test_a_byte_that_is_wrong_ends_the_stream_or_changes_nothing(path):
    save(path, **{**HOSTILE, "indices": [0, 1, 0, 2, 2, 1, 0, 2]})
    data, whole = path.read_bytes(), list(map(repr, NPZSource(path)))
    for k in range(400):
        broken = bytearray(data)
        broken[RNG.integers(len(data))] = RNG.integers(256)
        path.write_bytes(broken if k % 8 else broken[: RNG.integers(len(data))])
        found = []
        with contextlib.suppress(SourceError):
            found.extend(map(repr, NPZSource(path)))
        assert found == whole[: len(found)]


def test_what_is_no_archive(path, tmp_path):
    with pytest.raises(SourceError, match=r"a\.npz: expected a NumPy archive \(\.npz\): No such file"):
        next(iter(NPZSource(path)))
    path.write_text("a,y\n1,2\n")
    with pytest.raises(SourceError, match="expected a NumPy archive"):
        next(NPZSource(path).blocks())
    save(path, X=np.eye(3))
    with pytest.raises(SourceError, match="a: expected an array 'y', found X"):
        next(iter(NPZSource(path, name="a")))
    assert len(list(NPZSource(path, None))) == 3
    broken = bytearray(path.read_bytes())
    broken[broken.index(np.float64(1).tobytes())] ^= 1
    path.write_bytes(broken)
    with pytest.raises(SourceError, match="Bad CRC-32"):
        list(NPZSource(path, None))
    source = NPZSource(save(path, X=np.eye(3), y=np.zeros(3)))
    source.seek({"row": 2, "n_rows": 4})
    with pytest.raises(SourceError, match="expected 4 rows, as the former run read, found 3"):
        next(iter(source))


def test_from_nothing_to_a_curve(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X = RNG.normal(size=(60, 3))
    save(path, X=X, y=X[:, 0] > 0)
    assert main(["run", "a.npz", "--quiet", "--limit", "30"]) == 0
    assert main(["run", "a.npz", "--quiet", "--resume"]) == 0
    text = (tmp_path / "a.toml").read_text()
    assert 'class = "NPZSource"' in text
    assert 'class = "StandardScaler"' in text
    assert '"n_learned": 60' in (tmp_path / "runs/a/summary.json").read_text()
    save(path, X=X)
    capsys.readouterr()
    assert main(["predict", "runs/a", "a.npz"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 61


def test_init_takes_sparse_rows(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(path, **{**HOSTILE, "y": np.array(["a", "b", "a", "b", "b"])})
    assert main(["init", "a.npz", "--target", "y"]) == 0
    assert "StandardScaler" not in (tmp_path / "a.toml").read_text()
    load_definition("a.toml")
    assert main(["init", "a.npz", "--target", "z", "--force"]) == 1
