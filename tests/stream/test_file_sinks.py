import csv
import json
import os
import signal
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fwonline import stream
from fwonline.exceptions import CheckpointError

RECORDS = [{"n": i, "y_pred": i / 3, "origin": f'a,"{i}"\nb'} for i in range(6)]


@pytest.fixture(params=[stream.JSONLinesSink, stream.CSVSink])
def sink_class(request):
    return request.param


def written(sink_class, path, records=RECORDS, **options):
    with sink_class(path, **options) as sink:
        for record in records:
            sink.write(record)
    return path.read_bytes()


@given(st.lists(st.fixed_dictionaries({"a": st.text(st.characters(codec="utf-8")), "b": st.floats(allow_nan=False)})))
def test_what_was_written_is_read_back(tmp_path_factory, records):
    folder = tmp_path_factory.mktemp("sink")
    lines = written(stream.JSONLinesSink, folder / "a").splitlines()
    assert [json.loads(line) for line in lines] == RECORDS
    written(stream.CSVSink, folder / "b", records)
    with open(folder / "b", encoding="utf-8", newline="") as file:
        assert [{"a": row["a"], "b": float(row["b"])} for row in csv.DictReader(file)] == records


@pytest.mark.parametrize("kept", range(len(RECORDS) + 1))
@pytest.mark.parametrize("append", [False, True])
def test_a_resumed_run_writes_each_record_once(sink_class, tmp_path, kept, append):
    path = tmp_path / "out"
    whole = written(sink_class, tmp_path / "whole")
    with sink_class(path, append=append) as sink:
        for record in RECORDS[:kept]:
            sink.write(record)
        sink.flush(durable=True)
        position = json.loads(json.dumps(sink.position))
        for record in RECORDS[kept:]:
            sink.write(record)
        sink.flush()
    path.write_bytes(path.read_bytes() + b'{"torn')
    with sink_class(path, append=append) as resumed:
        resumed.truncate(position)
        assert resumed.position == position
        for record in RECORDS[kept:]:
            resumed.write(record)
    assert path.read_bytes() == whole


def test_after_kill_9_what_was_flushed_is_there(sink_class, tmp_path):
    path = tmp_path / "out"
    code = (
        "import os, signal, sys; from fwonline import stream\n"
        f"sink = stream.{sink_class.__name__}(sys.argv[1])\n"
        "sink.write({'n': 1}); sink.flush(durable=True); print(sink.position, flush=True)\n"
        "sink.write({'n': 2}); os.kill(os.getpid(), signal.SIGKILL)"
    )
    ran = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=False)
    assert ran.returncode == -signal.SIGKILL
    with sink_class(path) as resumed:
        resumed.truncate(int(ran.stdout))
        resumed.write({"n": 2})
    assert path.read_bytes() == written(sink_class, tmp_path / "whole", [{"n": 1}, {"n": 2}])


def test_a_new_run_truncates_and_an_idle_one_destroys_nothing(sink_class, tmp_path):
    path = tmp_path / "out"
    before = written(sink_class, path)
    with sink_class(path):
        pass
    assert path.read_bytes() == before
    assert written(sink_class, path, RECORDS[:2]) == before[: len(path.read_bytes())]
    with sink_class(path) as sink:
        sink.flush()
    assert path.read_bytes() == b""


def test_append_keeps_what_is_there(sink_class, tmp_path):
    path = tmp_path / "out"
    written(sink_class, path, RECORDS[:2])
    assert written(sink_class, path, RECORDS[2:], append=True) == written(sink_class, tmp_path / "whole")


def test_append_ends_a_torn_line_first(tmp_path):
    path = tmp_path / "out"
    path.write_bytes(b'{"n":1}\n{"to')
    written(stream.JSONLinesSink, path, [{"n": 2}], append=True)
    assert path.read_bytes() == b'{"n":1}\n{"to\n{"n":2}\n'


def test_flush_reaches_the_file(sink_class, tmp_path):
    path = tmp_path / "out"
    with sink_class(path) as sink:
        sink.write(RECORDS[0])
        sink.flush()
        assert len(path.read_bytes()) == sink.position > 0


@pytest.mark.parametrize("durable", [False, True])
def test_durable_waits_for_the_disk(sink_class, tmp_path, monkeypatch, durable):
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    with sink_class(tmp_path / "out") as sink:
        sink.write(RECORDS[0])
        sink.flush(durable=durable)
        first = len(synced)
        sink.flush(durable=durable)
    assert (first, len(synced)) == ((2, 3) if durable else (0, 0))  # the folder's entry needs it once


@pytest.mark.parametrize("position", [10_000, -1, None, "3", True])
def test_truncate_refuses_what_the_file_does_not_reach(sink_class, tmp_path, position):
    path = tmp_path / "out"
    before = written(sink_class, path)
    with (
        sink_class(path) as sink,
        pytest.raises(CheckpointError, match="out: expected a file of at least"),
    ):
        sink.truncate(position)
    assert path.read_bytes() == before


def test_truncate_after_writing_is_an_error(sink_class, tmp_path):
    with sink_class(tmp_path / "out") as sink:
        sink.write(RECORDS[0])
        with pytest.raises(CheckpointError, match="truncate before writing"):
            sink.truncate(0)


def test_a_path_that_cannot_be_written_is_known_at_once(sink_class, tmp_path):
    with pytest.raises(FileNotFoundError):
        sink_class(tmp_path / "none" / "out")


def test_close_twice(sink_class, tmp_path):
    sink = sink_class(tmp_path / "out")
    sink.close()
    sink.close()
    with pytest.raises(ValueError, match="closed"):
        sink.write({"n": 1})


def test_json_takes_what_a_loop_may_hand_it(tmp_path):
    record = {
        "a": np.float64(0.1),
        "b": np.int64(3),
        "c": np.bool_(True),
        "d": np.arange(2),
        "e": float("nan"),
        "f": (1, "x"),
        "g": 1 + 2j,
        "h": None,
    }
    line = written(stream.JSONLinesSink, tmp_path / "out", [record])
    expected = {"a": 0.1, "b": 3, "c": True, "d": [0, 1], "e": None, "f": [1, "x"], "g": "(1+2j)", "h": None}
    assert json.loads(line) == expected


def test_csv_columns(tmp_path):
    path = tmp_path / "out"
    assert written(stream.CSVSink, path, [{"b": 2}, {"a": None, "b": 3}], fields=["a", "b"]) == b"a,b\n,2\n,3\n"
    with (
        stream.CSVSink(path, ["b"], append=True) as sink,
        pytest.raises(ValueError, match="expected the header b, found a"),
    ):
        sink.write({"b": 1})


def test_csv_refuses_a_field_without_a_column_and_loses_nothing_else(tmp_path):
    with stream.CSVSink(tmp_path / "out") as sink:
        sink.write({"a": 1})
        with pytest.raises(ValueError, match="out: the record has 'b', which is none of a"):
            sink.write({"a": 2, "b": 3})
        sink.write({"a": 4})
    assert (tmp_path / "out").read_bytes() == b"a\n1\n4\n"


def test_callback():
    records = []
    with stream.CallbackSink(records.append) as sink:
        record = {"n": 1}
        sink.write(record)
        record["n"] = 2
    assert records == [{"n": 1}]
    assert sink.position is None
    assert sink.name == "append"
    with pytest.raises(TypeError, match="expected a function of one record, found int"):
        stream.CallbackSink(3)


def test_a_file_that_was_removed_is_noticed_when_it_matters(tmp_path):
    with stream.JSONLinesSink(tmp_path / "out") as sink:
        sink.write({"a": 1})
        sink.flush(durable=True)
        (tmp_path / "out").rename(tmp_path / "moved")
        sink.write({"a": 2})
        sink.flush(durable=True)  # moved is not lost
        (tmp_path / "moved").unlink()
        sink.flush()
        with pytest.raises(FileNotFoundError, match="out: the file was removed while records were written to it"):
            sink.flush(durable=True)


def written_together(sink_class, path, columns, cuts=(), **options):
    with sink_class(path, **options) as sink:
        for start, stop in pairwise([0, *cuts, len(columns["n"])]):
            sink.write_many({name: column[start:stop] for name, column in columns.items()})
    return path.read_bytes()


def rows(columns):
    for row in zip(*columns.values(), strict=True):
        yield {name: value for name, value in zip(columns, row, strict=True) if value is not None}


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(st.characters(codec="utf-8")), st.binary(),
    st.sampled_from(['a,"b"', "a\nb", "a\r\nb", "\r", "\0", "", "null", " a ", "it's", 1e-4, 1e-5, 1e16, -0.0, 5e-324]),
    st.sampled_from([np.float32(0.1), np.float64(0.1), np.int64(3), np.bool_(True), (1, "a"), {"a": [0.5]}, 2**70]),
)  # fmt: skip
KINDS = [st.floats(), st.text(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.none(), VALUES]


@given(
    st.integers(1, 30).flatmap(
        lambda n: st.tuples(*(st.lists(kind, min_size=n, max_size=n) for kind in KINDS), st.integers(0, n))
    )
)
def test_many_at_once_are_written_as_one_by_one(tmp_path_factory, drawn):
    *columns, cut = drawn
    columns = {"n": range(len(columns[0])), **{f"field {i}": column for i, column in enumerate(columns)}}
    for sink_class, options in ((stream.JSONLinesSink, {}), (stream.CSVSink, {"fields": list(columns)})):
        folder = tmp_path_factory.mktemp("sink")
        single = outcome(folder / "a", written, sink_class, folder / "a", list(rows(columns)), **options)
        many = outcome(folder / "b", written_together, sink_class, folder / "b", columns, [cut], **options)
        assert many == single


def outcome(path, write, *args, **options):
    """What was written, and what ended it."""
    try:
        return write(*args, **options), None
    except (TypeError, ValueError) as error:
        return path.read_bytes(), str(error).replace(str(path), "")


@pytest.mark.parametrize("values", [np.array([0.1, 1e-7, np.nan]), np.array([True, False, True]), np.array([1, -2, 3])])
def test_columns_may_be_arrays(sink_class, tmp_path, values):
    columns = {"n": range(3), "y": values, "p": values.astype(np.float32), "label": values.astype(object)}
    expected = written(sink_class, tmp_path / "a", list(rows(columns)))
    assert written_together(sink_class, tmp_path / "b", columns, [1, 1, 2]) == expected


def test_a_table_of_many_begins_with_the_first_record(tmp_path):
    columns = {"n": [1, 2, 3], "y": [None, None, 1.0], "p": [0.5, None, 0.25]}
    assert written_together(stream.CSVSink, tmp_path / "a", {**columns, "y": [None] * 3}) == b"n,p\n1,0.5\n2,\n3,0.25\n"
    with (
        stream.CSVSink(tmp_path / "b") as sink,
        pytest.raises(ValueError, match="the record has 'y', which is none of"),
    ):
        sink.write_many(columns)
    assert (tmp_path / "b").read_bytes() == b"n,p\n1,0.5\n2,\n"
    with stream.CSVSink(tmp_path / "b", append=True) as sink:
        sink.write_many({"p": [0.5, 1e-5, None]})
    assert (tmp_path / "b").read_bytes() == b"n,p\n1,0.5\n2,\n,0.5\n,1e-05\n,\n"
    for one in (["a", ""], ["", ""]):
        with stream.CSVSink(tmp_path / "c") as sink:
            sink.write_many({"only": one})
        assert (tmp_path / "c").read_bytes() == written(
            stream.CSVSink, tmp_path / "d", [{"only": text} for text in one]
        )


def test_none_at_once_writes_nothing(sink_class, tmp_path):
    assert written_together(sink_class, tmp_path / "a", {"n": [], "y": []}) == b""


@pytest.mark.parametrize("at", [0, 2])
def test_a_record_that_cannot_be_written_is_told_behind_those_before(sink_class, tmp_path, at):
    texts = ["a", "b", "c"]
    texts[at] = "\ud800"
    with sink_class(tmp_path / "a") as sink, pytest.raises(UnicodeEncodeError):
        sink.write_many({"n": range(3), "y": texts})
    has_header = at and sink_class is stream.CSVSink
    assert (tmp_path / "a").read_bytes().count(b"\n") == (at + 1 if has_header else at)
