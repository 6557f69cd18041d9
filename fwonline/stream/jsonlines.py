"""JSON lines: one object a line."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import msgspec

from fwonline.stream.base import Rejected, Sample
from fwonline.stream.files import FileSource, Path
from fwonline.stream.records import RecordLayout

if TYPE_CHECKING:
    from fwonline.stream.ahead import Parsed

__all__ = ["JSONLinesSource"]

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class JSONLinesSource(FileSource):
    """The objects of a `JSON lines <https://jsonlines.org>`_ file.

    Every field without another role is a feature, its value as it was read. Blank lines are passed over. A line that is
    no JSON object is rejected; so are `NaN` and `Infinity`, which JSON does not have. River has no reader of this
    format.

    Parameters
    ----------
    path, name
        As for `FileSource`.
    target
        The field that holds the target. None: every sample is a question.
    key
        The field that joins a question to its later answer. Neither it nor the time is a feature.
    time
        The field that holds the event time: seconds since the epoch or an ISO 8601 date
        (UTC if it has no zone).
    features
        The only features that may occur; a record with another field is rejected. None: any.
    drop
        Fields to leave out.
    require_target
        Whether a record without its target (absent or null) is rejected. If not, it is a question.
    Raises
    ------
    SourceError
        While reading, as every `FileSource` does.
    ValueError
        When one field is given two roles.

    Notes
    -----
    Blocks are read by compiled code, many lines at once, where there is a target: the objects that have the fields of
    the first one in its order, features that are numbers or truth values, a time in seconds, texts without escapes. A
    field that is dropped may be any text or number.

    Examples
    --------
    >>> import io
    >>> from fwonline import stream
    >>> file = io.BytesIO(b'{"age": 31, "clicked": true}\\n{"age": 25}\\n')
    >>> for item in stream.JSONLinesSource(file, target="clicked", name="clicks.jsonl"):
    ...     print(item)
    Sample(x={'age': 31}, y=True, key=None, time=None, origin='clicks.jsonl:1', headers=())
    Rejected(raw=b'{"age": 25}\\n', error="clicks.jsonl:2: no target: expected a value in the field 'clicked'", ...)
    """

    _expected = "JSON objects, one a line"

    def __init__(
        self,
        path: Path,
        target: str | None = None,
        *,
        key: str | None = None,
        time: str | None = None,
        features: Collection[str] | None = None,
        drop: Collection[str] = (),
        require_target: bool = True,
        name: str | None = None,
    ) -> None:
        super().__init__(path, name=name)
        self.layout = RecordLayout(
            target, key=key, time=time, features=features, drop=drop, require_target=require_target
        )
        self._only = self.layout.only_target

    @property
    def has_blocks(self) -> bool:
        return self.layout.target is not None

    def _parser(self, item: Sample | Rejected) -> Callable[[bytes], Parsed] | None:
        from fwonline.stream.jsonrows import ObjectRows

        try:
            return ObjectRows(_decode(self._last), self.layout)
        except (ValueError, RecursionError):  # as of a line that is no object
            return None

    def _parse(self, raw: bytes, origin: str) -> Sample | Rejected | None:
        try:
            record = _decode(raw)
        # what msgspec raises for text that is not UTF-8, and for deeply nested objects, is no error of its own
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return None if raw.isspace() else Rejected(raw, f"{origin}: expected a JSON object: {error}", origin)
        if self._only is not None and (y := record.pop(self._only, None)) is not None:  # saves a call a line
            return Sample(record, y, None, None, origin)
        return self.layout.sample(record, raw, origin)
