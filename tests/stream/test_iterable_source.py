"""IterableSource, as_source, and what is true of every source and sink."""

import json
import re
import subprocess
import sys
from collections import OrderedDict

import pytest
from river import datasets
from river.datasets import synth

from fwonline import stream
from fwonline.exceptions import SourceError

PAIRS = [({"a": float(i)}, i) for i in range(5)]


@pytest.mark.parametrize("position", range(len(PAIRS) + 1))
def test_seek_gives_exactly_the_rest(position):
    source = stream.IterableSource(PAIRS)
    source.seek(position)
    assert [(s.x, s.y) for s in source] == PAIRS[position:]


def test_position_counts_what_was_yielded_and_is_json():
    source = stream.IterableSource(iter(PAIRS))
    items = iter(source)
    assert source.position == 0
    next(items)
    next(items)
    assert json.loads(json.dumps(source.position)) == 2
    assert [s.y for s in source] == [2, 3, 4]  # a second loop goes on, it does not start again


def test_seek_beyond_the_end_is_an_error():
    source = stream.IterableSource(PAIRS, name="pairs")
    source.seek(9)
    with pytest.raises(SourceError, match=r"pairs: ended after 5 items, before position 9"):
        next(iter(source))


def test_seek_after_reading_is_an_error():
    source = stream.IterableSource(PAIRS)
    next(iter(source))
    with pytest.raises(SourceError, match="seek before reading"):
        source.seek(0)


@pytest.mark.parametrize("position", [-1, True, 1.0, "1", None, {"offset": 1}])
def test_a_position_of_another_kind_is_an_error(position):
    with pytest.raises(SourceError, match="expected a position that counts items"):
        stream.IterableSource(PAIRS).seek(position)


def test_consumed_generator_is_named():
    generator = (pair for pair in PAIRS)
    list(generator)
    with pytest.raises(SourceError, match="this generator was already consumed; give a fresh one"):
        iter(stream.IterableSource(generator))


def test_resuming_on_a_generator_that_was_begun_is_an_error():
    generator = (pair for pair in PAIRS)
    next(generator)
    source = stream.IterableSource(generator)
    source.seek(2)
    with pytest.raises(SourceError, match="already begun; give a fresh one to resume"):
        iter(source)


def test_an_iterable_that_raises_ends_the_stream_with_the_place():
    def broken():
        yield PAIRS[0]
        raise KeyError("gone")

    items = iter(stream.IterableSource(broken(), name="broken"))
    assert next(items).y == 0
    with pytest.raises(SourceError, match=r"broken#2: reading failed: KeyError\('gone'\)"):
        next(items)


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (3, r"s#2: expected an \(x, y\) pair, found int: 3"),
        ("ab", r"s#2: expected an \(x, y\) pair, found str: 'ab'"),
        (({"a": 1},), r"s#2: expected an \(x, y\) pair, found tuple"),
        (([1.0], 2), r"s#2: expected x to be a mapping of features, found list: \[1.0\]"),
        ((None, 2), "s#2: expected x to be a mapping of features, found NoneType: None"),
    ],
)
def test_items_that_are_no_pairs_are_rejected_whole(item, message):
    first, rejected, last = stream.IterableSource([PAIRS[0], item, PAIRS[1]], name="s")
    assert isinstance(rejected, stream.Rejected)
    assert rejected.raw is item
    assert re.match(message, rejected.error)
    assert (first.y, last.y) == (0, 1)
    assert rejected.origin == "s#2"


def test_other_mappings_lists_and_samples_are_taken():
    sample = stream.Sample({"b": 1}, None, key=7)
    source = stream.IterableSource([(OrderedDict(a=1), 1), [{"a": 2}, 2], sample])
    assert [s.x for s in source] == [{"a": 1}, {"a": 2}, {"b": 1}]


def test_not_an_iterable():
    with pytest.raises(SourceError, match=r"expected an iterable of \(x, y\) pairs, found int: 3"):
        stream.as_source(3)


def test_river_datasets_know_their_length_and_resume():
    source = stream.as_source(datasets.Phishing())
    assert (source.name, source.length, source.progress) == ("Phishing", 1250, 0.0)
    endless = stream.as_source(synth.Friedman(seed=1))
    assert endless.length is None
    assert endless.progress is None
    items = iter(endless)
    skipped = [next(items) for _ in range(4)]
    again = stream.as_source(synth.Friedman(seed=1))
    again.seek(3)
    assert next(iter(again)) == skipped[3]


def test_as_source_leaves_a_source_alone():
    source = stream.IterableSource(PAIRS)
    assert stream.as_source(source) is source


def test_samples_cannot_be_changed():
    with pytest.raises(AttributeError):
        stream.Sample({}).y = 1


@pytest.mark.parametrize(
    ("raw", "record"),
    [(b"a\n", {"raw": "a\n"}), (b"\xff", {"raw_base64": "/w=="}), ("text", {"raw": "text"}), (3, {"raw": "3"})],
)
def test_rejected_records_keep_the_item_whole(raw, record):
    assert stream.Rejected(raw, "e", "o", key=1).to_record() == {"origin": "o", "error": "e", "key": 1} | record


def test_kafka_is_imported_only_when_asked_for():
    code = "import sys, fwonline.stream; print(any(m.split('.')[0] == 'kafka' for m in sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Kafak'"):
        _ = stream.Kafak
