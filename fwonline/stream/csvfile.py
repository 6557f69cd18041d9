"""Comma-separated values, and their relatives with another delimiter."""

from __future__ import annotations

import csv
import zlib
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

import msgspec

from fwonline.exceptions import SourceError
from fwonline.stream.base import Rejected, Sample
from fwonline.stream.files import FileSource, Path
from fwonline.stream.records import (
    FALSE,
    KINDS,
    TRUE,
    RecordLayout,
    as_converter,
    automatic,
    field_names,
    listed,
    with_comma,
)

if TYPE_CHECKING:
    from fwonline.stream.ahead import Parsed

__all__ = ["CSVSource"]

#: A quote still open after this many bytes is an error. It is also the longest field that `csv` takes by default.
MAX_RECORD = 1 << 17

#: Kinds for which an empty field is a missing value (text may be empty, and a user's function decides itself). The
#: compiled reader of rows knows them, too.
NO_TEXT = [convert for kind, convert in KINDS.items() if kind != "text"]

#: What reads numbers with a decimal comma; a text that is none stays as it is.
NUMERIC = {convert: with_comma(convert) for kind, convert in KINDS.items() if kind in ("auto", "number", "int")}

#: What reads a row of nothing but numbers at once, in less than half the time and to the same values.
ROW_OF: dict[Callable, Callable[[bytes], list]] = {
    KINDS["auto"]: msgspec.json.Decoder(list[int | float]).decode,
    KINDS["number"]: msgspec.json.Decoder(list[float]).decode,
}


class CSVSource(FileSource):
    """The rows of a CSV file with a header.

    Fields in quotes may hold delimiters, doubled quotes and line ends, as in `RFC 4180
    <https://www.rfc-editor.org/rfc/rfc4180>`_; the position is always behind a whole row. A row with too few or too
    many fields, one that is not UTF-8 and one whose value does not fit the column are rejected. A quote that never
    closes has its own line rejected; one that closes wrongly has every line up to there rejected, since they may be its
    text. Empty lines are passed over. An empty field is None, a missing value. A file with only a header is a stream
    without samples.

    river's `iter_csv` is not used: it has no positions, silently fills or cuts rows of the wrong width, and ends
    at the first value that does not convert.

    Parameters
    ----------
    path, name
        As for `FileSource`.
    target
        The column of the targets. None: every sample is a question.
    converters
        What columns hold: one kind for all, or column to kind (`"auto"` for those not named). A kind is `"auto"` (a
        number if it reads as one, else text), `"number"`, `"int"`, `"bool"`, `"text"`, or a function of the text, which
        also gets empty fields (but never an empty target). A value that does not fit has its row rejected.
    key, time, features, drop, require_target
        As for `JSONLinesSource`, by column; all `features` must be there, and a dropped column is not read.
    na_values
        Texts that mean a missing value in any column, as an empty field does: ``["NA", "?"]``.
    delimiter, quotechar
        One character each.
    decimal
        What stands before the fraction of a number: ``"."`` or ``","``.
    header
        The names of the columns, for a file that does not begin with them.

    Raises
    ------
    SourceError
        While reading, as every `FileSource` does, and when the header lacks a column that was named here, names one
        twice, or has one that `features` does not know.
    ValueError
        When one column is given two roles, or a converter is none.

    Examples
    --------
    >>> import io
    >>> from fwonline import stream
    >>> file = io.BytesIO(b'title,year,rating\\n"Planet\\nEarth",2006,9.4\\nChernobyl,2019\\n')
    >>> for item in stream.CSVSource(file, "rating", name="shows.csv"):
    ...     print(item)
    Sample(x={'title': 'Planet\\nEarth', 'year': 2006}, y=9.4, key=None, time=None, origin='shows.csv:2', headers=())
    Rejected(raw=b'Chernobyl,2019\\n', error='shows.csv:4: expected 3 fields (title, year, rating), found 2', ...)
    """

    _expected = "a header and rows"

    def __init__(
        self,
        path: Path,
        target: str | None = None,
        *,
        converters: str | Mapping[str, str | Callable[[str], Any]] = "auto",
        key: str | None = None,
        time: str | None = None,
        features: Collection[str] | None = None,
        drop: Collection[str] = (),
        require_target: bool = True,
        na_values: Collection[str] = (),
        delimiter: str = ",",
        quotechar: str = '"',
        decimal: str = ".",
        header: Sequence[str] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(path, name=name)
        self.layout = RecordLayout(
            target, key=key, time=time, features=features, drop=drop, require_target=require_target
        )
        self.delimiter = _one_character(delimiter, "delimiter")
        self.quotechar = _one_character(quotechar, "quotechar")
        if decimal not in (".", ","):
            raise ValueError(f"decimal: expected '.' or ',', found {decimal!r}")
        self.decimal = decimal
        self.header = header
        self._missing = frozenset(field_names(na_values, "na_values"))
        if isinstance(converters, Mapping):
            self._default = as_converter("auto", "converters")
            self._converters = {c: as_converter(kind, f"converters[{c!r}]") for c, kind in converters.items()}
        else:
            self._default, self._converters = as_converter(converters, "converters"), {}

    def _records(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        rows = self._rows = _Rows(lines, self.delimiter, self.quotechar)
        if not self._sought.line:
            self._read_header(rows)
        if (
            self.delimiter == ","
            and self.decimal == "."
            and not (self._converters or self.layout.drop or self._missing)
        ):
            rows.as_numbers = ROW_OF.get(self._default)
        while (row := rows.next()) is not None:
            self._row, self._n_lines = row, rows.n_lines
            yield rows.raw

    def _parse(self, raw: bytes, origin: str) -> Sample | Rejected | None:
        if self._torn or self._rows.is_torn:
            # The quote may close in what is still to be written. What follows it counts if it can be a row.
            self._torn += raw
            self._rows.is_torn = False
        if not self._row:
            return None
        item = self._converted(self._row, raw, origin)
        if self._torn and isinstance(item, Sample):
            self._torn = b""
        return item

    @property
    def has_blocks(self) -> bool:
        """Whether all features may be numbers or truth values, and each byte of the text has one meaning."""
        kinds = {**dict.fromkeys(self.layout.roles, self._default), **self._converters}
        role_of = self.layout.roles.get
        return (
            self.layout.target is not None
            and _is_plain(self.delimiter, self.quotechar, self.decimal, self._missing)
            and self._default in KINDS.values()
            and all(
                role_of(name) == "drop" or kind in NO_TEXT or (role_of(name, "features") != "features" and kind is str)
                for name, kind in {"": self._default, **kinds}.items()
            )
        )

    def _parser(self, item: Sample | Rejected) -> Callable[[bytes], Parsed]:
        from fwonline.stream.csvrows import DelimitedRows

        layout, by_text = self.layout, {self.layout.key, self.layout.time}
        if isinstance(item, Sample) and isinstance(item.y, str):
            by_text.add(layout.target)
        texts = {name: convert for _, name, convert, _ in self._columns if name in by_text or convert is str}
        converters = [self._converters.get(name, self._default) for name in self._names]
        dialect = self.delimiter + self.quotechar + self.decimal
        return DelimitedRows(self._names, converters, layout, dialect, self._missing, texts)

    def _holds_lines(self) -> bool:
        return self._rows.holds_lines or bool(self._torn)

    def _resume(self, file: IO[bytes]) -> None:
        self._read_header(_Rows(iter(file.readline, b""), self.delimiter, self.quotechar))
        super()._resume(file)

    def _read_header(self, rows: _Rows) -> None:
        if self.header is not None:
            self._set_columns(list(self.header))
            return
        row: list | str | None = []
        while row == []:
            if (row := rows.next()) is not None:
                self._advance(rows.raw, rows.n_lines)
        if not isinstance(row, list):
            raise SourceError(f"{self.name}:{self._line}: bad header: {row or 'expected one, found only blank lines'}")
        if any("\r" in name for name in row):
            raise SourceError(f"{self.name}:1: expected lines that end in a newline, found carriage returns alone")
        self._set_columns(row)

    def _changed_header(self) -> str:
        return (
            f"the columns are not those that the former run read, but {listed(self._names)}: this is not the file it "
            "was. Bring the names back, or start afresh"
        )

    def _set_columns(self, names: list[str]) -> None:
        where = f"{self.name}:{max(1, self._line)}"
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise SourceError(f"{where}: expected every column once, found {twice[0]!r} twice")
        layout = self.layout
        for column, role in {**dict.fromkeys(self._converters, "converters"), **layout.roles}.items():
            if column not in names:
                raise SourceError(f"{where}: expected a column {column!r} ({role}), found {listed(names)}")
        if layout.features is not None and (unknown := [name for name in names if name not in layout.roles]):
            raise SourceError(
                f"{where}: unknown column {unknown[0]!r}; expected only {listed(sorted(layout.features))}"
            )
        self._names = names
        self._header = zlib.crc32(repr(names).encode(errors="surrogatepass"))
        self._columns = []
        for i, column in enumerate(names):
            convert = self._converters.get(column, self._default)
            empty_is_none = column == layout.target or any(convert is kind for kind in NO_TEXT)
            if self.decimal == "," and convert in NUMERIC:
                convert = NUMERIC[convert]
            if column not in layout.drop:
                self._columns.append((i, column, convert, empty_is_none))

    def _converted(self, row: list | str, raw: bytes, origin: str) -> Sample | Rejected:
        if isinstance(row, str):
            return Rejected(raw, f"{origin}: {row}", origin)
        if len(row) != len(self._names):
            expected = f"expected {len(self._names)} fields ({listed(self._names)}), found {len(row)}"
            return Rejected(raw, f"{origin}: {expected}", origin)
        if type(row[0]) is not str:
            return self.layout.sample(dict(zip(self._names, row, strict=True)), raw, origin)
        record, missing = {}, self._missing
        for i, name, convert, empty_is_none in self._columns:
            cell = row[i]
            try:
                record[name] = None if (empty_is_none and not cell) or cell in missing else convert(cell)
            except Exception as error:  # a function of the user's may raise anything, and the stream goes on
                why = error if str(error) else f"cannot be read from {cell!r}"
                return Rejected(raw, f"{origin}: column {name!r}: {why}", origin)
        return self.layout.sample(record, raw, origin)


def _is_plain(delimiter: str, quotechar: str, decimal: str, missing: Collection[str]) -> bool:
    """Whether no byte of a row of numbers has two meanings, and no number or truth value means a missing one."""
    marks = (delimiter, quotechar, "\n", "\r")
    return (
        len({*marks, decimal}) == 5
        and all(mark.isascii() and not (mark.isalnum() or mark in "+-.") for mark in marks)
        and all(type(automatic(text.replace(decimal, "."))) is str for text in missing)
        and not any(text.strip().lower() in TRUE | FALSE for text in missing)
    )


class _Rows:
    """Makes rows of lines: `next` returns the cells, what is wrong with them, or None at the end.

    `raw` and `n_lines` are the row's bytes and its number of lines. Cells are text; with `as_numbers`, they are numbers
    up to the first row that holds anything but numbers as JSON writes them.
    """

    as_numbers: Callable[[bytes], list] | None = None
    is_torn = False  # the row's quote was still open at the end of the file

    def __init__(self, lines: Iterator[bytes], delimiter: str, quotechar: str) -> None:
        self.raw = b""
        self.n_lines = 0
        self._lines = lines
        self._put_back: deque[bytes] = deque()
        self._delimiter = delimiter
        self._quotechar = quotechar
        self._quote = quotechar.encode()

    @property
    def holds_lines(self) -> bool:
        return bool(self._put_back)

    def _line(self) -> bytes:
        return self._put_back.popleft() if self._put_back else next(self._lines, b"")

    def next(self) -> list | str | None:
        raw = self.raw = self._line()
        self.n_lines = 1
        if not raw:
            return None
        if self.as_numbers is not None:
            try:
                if numbers := self.as_numbers(b"[" + raw + b"]"):
                    return numbers
            except (msgspec.DecodeError, UnicodeDecodeError):
                self.as_numbers = None
        if self._quote in raw:
            return self._quoted(raw)
        try:
            text = raw.decode().rstrip("\r\n")
        except UnicodeDecodeError as error:
            return _not_utf8(error)
        return text.split(self._delimiter) if text else []

    def _quoted(self, first: bytes) -> list[str] | str:
        lines = [first]
        open_at_end = False

        def texts() -> Iterator[str]:
            nonlocal open_at_end
            yield first.decode(errors="surrogateescape")  # or a bad byte would hide where the row ends
            size = len(first)
            while raw := self._line():
                size += len(raw)
                if size > MAX_RECORD:
                    self._put_back.appendleft(raw)
                    break
                lines.append(raw)
                yield raw.decode(errors="surrogateescape")
            open_at_end = True

        found: list[str] | str
        try:
            found = next(csv.reader(texts(), delimiter=self._delimiter, quotechar=self._quotechar, strict=True))
        except csv.Error as error:
            found = str(error)
        if open_at_end:
            self.is_torn = not self._put_back
            self._put_back.extendleft(reversed(lines[1:]))
            return "expected a closing quote, found none"
        self.raw = b"".join(lines)
        self.n_lines = len(lines)
        try:
            self.raw.decode()
        except UnicodeDecodeError as error:
            return _not_utf8(error)
        return found


def _not_utf8(error: UnicodeDecodeError) -> str:
    return f"expected UTF-8 text, found byte 0x{error.object[error.start]:02x} at place {error.start + 1} of the row"


def _one_character(text: str, parameter: str) -> str:
    if not isinstance(text, str) or len(text) != 1:
        raise ValueError(f"{parameter}: expected one character, found {text!r}")
    return text
