"""A checkpoint keeps what its position is a place in, and a source that is another one refuses it."""

from __future__ import annotations

import pytest
from river import linear_model

from fwonline.checkpoint import Checkpoint
from fwonline.exceptions import SourceError
from fwonline.loop import EventLoop
from fwonline.stream import Sample, Source


class Numbered(Source):
    """A stream that knows which one it is."""

    name = "numbered"

    def __init__(self, made, count):
        self.made, self.count, self.at = made, count, 0
        self.told = []

    def __iter__(self):
        if self.told and self.told[-1] not in (None, self.made):
            raise SourceError(f"{self.name}: not what it was")
        while self.at < self.count:
            self.at += 1
            yield Sample({"a": 1.0}, float(self.at))

    @property
    def position(self):
        return self.at

    def seek(self, position):
        self.at = position

    @property
    def identity(self):
        return self.made

    def expect_identity(self, identity):
        self.told.append(identity)


def loop(source, path):
    return EventLoop(source, linear_model.LinearRegression(), checkpoint=path)


def test_a_source_is_told_what_it_was_and_may_refuse(tmp_path):
    path = tmp_path / "c"
    loop(Numbered("first", 5), path).run()
    assert Checkpoint(path).load()["identity"] == "first"
    whole = path.read_bytes()
    with pytest.raises(SourceError, match="numbered: not what it was"):
        loop(Numbered("second", 9), path).run()
    assert path.read_bytes() == whole
    again = Numbered("first", 9)
    assert loop(again, path).run().n_learned == 9
    assert again.told == ["first"]
