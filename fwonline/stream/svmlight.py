"""The svmlight (libsvm) format: sparse rows of `label index:value ...`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from fwonline.stream.base import Rejected, Sample
from fwonline.stream.files import FileSource, Path
from fwonline.stream.records import KINDS, as_converter, number

if TYPE_CHECKING:
    from fwonline.stream.ahead import Parsed

__all__ = ["SVMLightSource"]

_decode = msgspec.json.Decoder(dict[int, float]).decode


class SVMLightSource(FileSource):
    """The rows of an `svmlight <https://www.cs.cornell.edu/people/tj/svm_light/>`_ file.

    Features are a dict from index (an int) to number. Blank lines and comments (after a `#`) are passed over; blanks
    may be of any number and kind; a row may be only a label. The `qid` of a ranking file is no feature: it is in the
    sample's `headers` as `("qid", int)`. An index that is given twice, or is no whole number, has the row rejected. A
    row that begins with `index:value` has no label.

    river's `iter_libsvm` is not used: it ends at a blank line, a row without features or a double blank, and takes
    `qid` for a feature.

    Parameters
    ----------
    path, name
        As for `FileSource`.
    label
        What labels are: `"number"`, `"int"`, `"bool"` (1 against 0 or -1), `"text"`, `"auto"`, or a function of the
        text.
    first_index
        The index of the first feature in the file, which becomes feature 0: 1 for the files of most collections, which
        has a row with an index of 0 rejected. The default, 0, leaves indices as they are.
    n_features
        How many features there are; a row with a larger index is rejected. None: any.
    require_target
        Whether a row without a label is rejected. If not, it is a question.
    Raises
    ------
    SourceError
        While reading, as every `FileSource` does.
    ValueError
        When `label` or `first_index` is none of those.

    Notes
    -----
    Blocks are read by compiled code, many rows at once: those with entries, without `qid`, and with a label that no
    function of yours reads. Any other row is rewritten as a JSON object by two replacements and decoded in one call,
    which takes a third of the time of splitting its pairs in Python; whatever JSON refuses is split and either accepted
    or named.

    Examples
    --------
    >>> import io
    >>> from fwonline import stream
    >>> file = io.BytesIO(b"# two documents\\n+1 qid:3 1:0.5 7:2 # the first\\n-1 4:x\\n")
    >>> for item in stream.SVMLightSource(file, label="bool", name="a.svm"):
    ...     print(item)
    Sample(x={1: 0.5, 7: 2.0}, y=True, key=None, time=None, origin='a.svm:2', headers=(('qid', 3),))
    Rejected(raw=b'-1 4:x\\n', error="a.svm:3: feature 4: expected a number, found 'x'", origin='a.svm:3', ...)
    """

    _expected = "rows of label index:value ..."

    def __init__(
        self,
        path: Path,
        *,
        label: str | Callable[[str], Any] = "number",
        first_index: int = 0,
        n_features: int | None = None,
        require_target: bool = True,
        name: str | None = None,
    ) -> None:
        super().__init__(path, name=name)
        self.label = as_converter(label, "label")
        if first_index not in (0, 1):
            raise ValueError(f"first_index: expected 0 or 1, found {first_index!r}")
        self.first_index = first_index
        self.n_features = n_features
        self.require_target = require_target

    @property
    def has_blocks(self) -> bool:
        return self.label in KINDS.values()

    def _parser(self, item: Sample | Rejected) -> Callable[[bytes], Parsed]:
        from fwonline.stream.svmrows import PairRows

        return PairRows(self.label, self.first_index, self.n_features)

    def _parse(self, raw: bytes, origin: str) -> Sample | Rejected | None:
        row = (raw.partition(b"#")[0] if b"#" in raw else raw).strip()
        if not row:
            return None
        try:
            label, pairs = _split_first(row)
            if b":" in label:
                label, pairs = b"", row
            y = None
            if label:
                text = label.decode(errors="backslashreplace")
                try:
                    y = self.label(text)
                except Exception as error:  # a function of the user's may raise anything, and the stream goes on
                    raise ValueError(f"label: {error or f'cannot be read from {text!r}'}") from error
            elif self.require_target:
                raise ValueError("no target: expected a label before the first index:value")
            headers: tuple = ()
            if pairs.startswith(b"qid:"):
                token, pairs = _split_first(pairs)
                headers = (("qid", _whole(token[4:], "qid")),)
            x = _features(pairs) if pairs else {}
            if x and (self.first_index or self.n_features is not None):
                x = self._shifted(x)
        except ValueError as error:
            return Rejected(raw, f"{origin}: {error}", origin)
        return Sample(x, y, None, None, origin, headers)

    def _shifted(self, x: dict[int, float]) -> dict[int, float]:
        first = self.first_index
        if first and 0 in x:
            raise ValueError("feature 0: expected an index of 1 or more")
        if self.n_features is not None and (high := max(x)) >= first + self.n_features:
            raise ValueError(f"feature {high}: expected an index of {first + self.n_features - 1} or less")
        return {index - first: value for index, value in x.items()} if first else x


def _split_first(row: bytes) -> tuple[bytes, bytes]:
    first, _, rest = row.partition(b" ")
    if b"\t" in first or rest[:1].isspace():  # blanks of another kind or number
        first, rest = (*row.split(None, 1), b"")[:2]
    return first, rest


def _features(pairs: bytes) -> dict[int, float]:
    named = pairs.replace(b":", b'":')
    try:
        x = _decode(b'{"' + named.replace(b" ", b',"') + b"}")
    except msgspec.DecodeError:
        return _features_one_by_one(pairs)
    # JSON keeps the last of equal names, takes an index below 0, and has escapes: none is right here
    if len(x) != len(named) - len(pairs) or (b"-" in pairs and b" -" in b" " + pairs) or b"\\" in pairs:
        return _features_one_by_one(pairs)
    return x


def _features_one_by_one(pairs: bytes) -> dict[int, float]:
    x: dict[int, float] = {}
    for pair in pairs.split():
        name, colon, value = pair.partition(b":")
        if not colon:
            raise ValueError(f"expected index:value, found {_text(pair)}")
        index = _whole(name, "feature index")
        if index in x:
            raise ValueError(f"feature {index}: expected once, found twice")
        try:
            x[index] = number(value.decode(errors="backslashreplace"))
        except ValueError as error:
            raise ValueError(f"feature {index}: {error}") from None
    return x


def _whole(text: bytes, what: str) -> int:
    if not text.isdigit() or len(text) > 18:
        raise ValueError(f"{what}: expected a whole number, 0 or more, found {_text(text)}")
    return int(text)


def _text(raw: bytes) -> str:
    return repr(raw.decode(errors="backslashreplace"))
