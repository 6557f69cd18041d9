"""Parquet files: rows, positions, what is wrong with a file."""

from datetime import UTC, date, datetime

import numpy as np
import pytest
from support.source_roads import check_roads

from fwonline.cli import main
from fwonline.exceptions import SourceError
from fwonline.stream import Rejected, Sample
from fwonline.stream.arrays.parquet import ParquetSource
from fwonline.stream.block import Block


def test_without_pyarrow_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(SourceError, match=r"a\.parquet: reading Parquet needs pyarrow: .*pip install '.*\[parquet\]'"):
        next(iter(ParquetSource("a.parquet")))


@pytest.fixture
def path(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="needs the extra parquet")
    from pyarrow import parquet

    n = 50
    table = pyarrow.table(
        {
            "a": [None if i == 3 else i + 0.5 for i in range(n)],
            "plan": [f"p{i % 3}" for i in range(n)],
            "day": [date(2024, 1, 1 + i % 28) for i in range(n)],
            "y": [None if i == 4 else i % 2 == 0 for i in range(n)],
        }
    )
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=20)
    return tmp_path / "a.parquet"


def test_rows_are_samples(path):
    items = list(ParquetSource(path, "y", drop=["plan"], name="a"))
    assert items[0] == Sample({"a": 0.5, "day": date(2024, 1, 1)}, True, None, None, "a:1")
    assert items[3].x["a"] is None
    assert isinstance(items[4], Rejected)
    assert items[4].error == "a:5: no target: expected a value in the field 'y'"
    assert items[4].raw["a"] == 4.5
    assert len(items) == 50


@pytest.mark.parametrize("read", [0, 1, 19, 20, 33, 50])
def test_a_new_source_goes_on_at_a_position(path, read):
    whole = list(ParquetSource(path, "y"))
    source = ParquetSource(path, "y")
    first = [next(iter(source)) for _ in range(read)]
    again = ParquetSource(path, "y")
    again.seek(source.position)
    assert again.position == source.position
    assert first + list(again) == whole
    assert again.progress == 1.0


def test_what_is_no_such_file(path, tmp_path):
    (tmp_path / "text.parquet").write_text("a,y\n1,2\n")
    with pytest.raises(SourceError, match=r"text\.parquet: expected a Parquet file: "):
        next(iter(ParquetSource(tmp_path / "text.parquet")))
    with pytest.raises(SourceError, match=r"expected a Parquet file: .*[Nn]o such file"):
        next(iter(ParquetSource(tmp_path / "nope.parquet")))
    with pytest.raises(SourceError, match=r"expected a column 'z' \(target\), found a, plan, day, y"):
        next(iter(ParquetSource(path, "z")))
    for position in ({"row": -5, "n_rows": 50}, {"row": "x"}, [3]):
        with pytest.raises(SourceError, match="expected a position of this source"):
            ParquetSource(path).seek(position)
    source = ParquetSource(path)
    source.seek({"row": 5, "n_rows": 51})
    with pytest.raises(SourceError, match="expected 51 rows, as the former run read, found 50"):
        next(iter(source))


def test_from_nothing_to_a_curve(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["run", "a.parquet", "--target", "y", "--quiet", "--limit", "30"]) == 0
    assert main(["run", "a.parquet", "--target", "y", "--quiet", "--resume"]) == 0
    text = (tmp_path / "a.toml").read_text()
    assert 'day = "date"' in text
    assert '"n_learned": 49' in (tmp_path / "runs/a/summary.json").read_text()


def write(path, columns, **options):
    pyarrow = pytest.importorskip("pyarrow", reason="needs the extra parquet")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(columns), path, **options)


def kinds(source):
    """What each row comes as."""
    for item in source.blocks(1):
        if isinstance(item, Block):
            item.taken = 1
        yield type(item)


N = 23


def whole(kind, n=N):
    return np.arange(n).astype(kind)


@pytest.mark.parametrize(
    ("columns", "alone"),
    [
        ({"a": whole("f8"), "b": whole("f4") / 3, "y": whole("f8") / 7}, []),
        ({"a": whole("i8") + 2**62, "b": whole("u8") + 2**63, "c": whole("?"), "y": whole("i4")}, []),
        ({"a": [*(None if i in (0, 7, 8) else i for i in range(N))], "y": whole("?")}, [0, 7, 8]),
        ({"a": whole("f4"), "b": [float("nan"), float("inf"), -0.0] + (N - 3) * [1e-310], "y": whole("u8")}, []),
        ({"a": whole("f8"), "y": [None if i in (3, N - 1) else f"c{i % 3}" for i in range(N)]}, [3, N - 1]),
        ({"a": whole("f8"), "y": [None if i % 2 else i % 4 == 0 for i in range(N)]}, range(1, N, 2)),
        ({"a": whole("f8"), "text": ["x"] * N, "y": whole("f8")}, range(N)),
        ({"a": whole("f8"), "nested": [[1.0]] * N, "y": whole("f8")}, range(N)),
        ({"a": whole("f2"), "y": whole("f8")}, range(N)),
        ({"y": whole("f8")}, range(N)),
        ({"a": whole("f8"), "k": [f"k{i}" if i % 3 else None for i in range(N)], "y": whole("f8")}, []),
        ({"a": whole("f8"), "k": [[i] for i in range(N)], "y": whole("f8")}, range(N)),
        ({"a": whole("f8"), "t": [None, float("nan")] + [i / 3 for i in range(2, N)], "y": whole("f8")}, [0, 1]),
        ({"a": whole("f8"), "t": whole("?"), "y": whole("f8")}, range(N)),
        ({"a": whole("f8"), "t": whole("i8"), "k": whole("i8"), "y": whole("f8")}, []),
    ],
)
def test_blocks_hold_what_samples_do(columns, alone, tmp_path):
    path = tmp_path / "a.parquet"
    write(path, columns, row_group_size=9)
    roles = {"key": "k" if "k" in columns else None, "time": "t" if "t" in columns else None}

    def make():
        return ParquetSource(path, "y", name="a", **roles)

    for most in (1, 4, 4096):
        assert check_roads(make, most=most, every=5) == N - len(alone)
    assert [i for i, kind in enumerate(kinds(make())) if kind is not Block] == list(alone)


def test_a_time_may_be_a_column_of_moments(tmp_path):
    moments = [datetime(2024, 1, 1, 12, tzinfo=UTC), datetime(2024, 1, 1, 12, 0, 1, 500_000, tzinfo=UTC), None]
    write(tmp_path / "a.parquet", {"t": moments, "zoneless": [datetime(2024, 1, 1, 12)] * 3, "y": [1.0] * 3})
    for column, seconds in [("t", [1704110400.0, 1704110401.5, None]), ("zoneless", [1704110400.0] * 3)]:
        assert [sample.time for sample in ParquetSource(tmp_path / "a.parquet", "y", time=column)] == seconds


def test_what_no_block_can_hold_of_a_whole_file(path):
    for options in (
        {"target": None},
        {"target": "y", "features": ["day"], "drop": ["a"]},
        {"target": "y", "require_target": False},
    ):
        check_roads(lambda options=options: ParquetSource(path, **options), every=20)
