"""A definition for a stream whose first rows are known: the model, the columns, the metrics, as commented TOML."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import statistics
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fwonline._cli.init.sample import Stream
from fwonline._cli.init.survey import Column, as_number, reads_as_number, survey, survey_labels
from fwonline.exceptions import DefinitionError
from fwonline.stream.records import automatic

__all__ = ["Plan", "comment"]

# Texts of which one side of two is the one that is looked for.
_POSITIVE = ("yes", "true", "y", "t", "positive", "pos", "1", "spam", "fraud", "churned", "churn", "bad", "default")
_OF_TEXT = ("CSVSource", "SVMLightSource")
_MODELS = {"binary": "FWClassifier", "classes": "FWSoftmax", "regression": "FWRegressor"}
# Whole numbers of so few values are labels, or a rating: the definition says how to take the other.
_FEW_LABELS = 10
# A softmax model has a row of weights for each label.
_MOST_LABELS = 200
# More columns are not listed one by one where their kind shows by itself.
_LISTED = 60
_WIDTH = 120


class Plan:
    """What is written of a stream: which model, which columns, which metrics."""

    def __init__(self, stream: Stream, task: str | None) -> None:
        self.stream = stream
        self.columns: dict[Any, Column] = {}
        rows = stream.rows
        if stream.source == "SVMLightSource":
            self.labels = Counter(row["label"] for row in rows if row["label"] is not None)
            self.n_unlabelled = sum(row["label"] is None for row in rows)
        elif stream.source == "NPZSource":  # numbers, and nothing to survey
            self.labels, self.n_unlabelled = survey_labels(row[stream.target] for row in rows), 0
        else:
            self.columns = survey(rows)
            self.answer = self.columns.pop(stream.target)
            if stream.source == "CSVSource":
                self.labels, self.n_unlabelled = self.answer.values, self.answer.n_missing
            else:  # where an empty text is a label, as the model gets it
                self.labels = survey_labels(row.get(stream.target) for row in rows)
                self.n_unlabelled = len(rows) - sum(self.labels.values())
        where, target = stream.path or stream.name, stream.target
        if not self.labels:
            raise DefinitionError(f"{where}: expected values in the column {target!r} (--target), found none")
        if any(text in self.labels for text in ("a dict", "a list")):
            raise DefinitionError(
                f"{where}: expected numbers or labels in {target!r} (--target), found lists or objects"
            )
        self.positive: Any = None
        self.task = self._task(task, where)
        if self.columns and all(column.kind == "drop" for column in self.columns.values()):
            why = "; ".join(comment(f"{column.name}: {column.remark}") for column in list(self.columns.values())[:3])
            raise DefinitionError(f"{where}: expected a column that a model can learn from, found none ({why})")

    def _task(self, asked: str | None, where: Any) -> str:
        """``"binary"``, ``"classes"`` or ``"regression"``."""
        labels, target = self.labels, self.stream.target
        numbers = [as_number(label) for label in labels]
        odd = (bool,) if self.stream.source in _OF_TEXT else (bool, str)  # JSON's "7" is a text, a file's 7 is none
        are_numbers = None not in numbers and not any(isinstance(label, odd) for label in labels)
        if len(labels) == 1:
            only = _text(next(iter(labels)))
            raise DefinitionError(
                f"{where}: expected different values of the target {target!r}, found {only} alone in all rows looked "
                f"at ({len(self.stream.rows):,}); a file that is sorted by it is to be shuffled"
            )
        if asked == "regression":
            if not are_numbers:
                text = next(
                    (one for one, number in zip(labels, numbers, strict=True) if number is None), next(iter(labels))
                )
                raise DefinitionError(f"{where}: expected numbers in {target!r} for a regression, found {text!r}")
            return "regression"
        if asked is None and are_numbers and len(labels) > 2:
            whole = all(number.is_integer() for number in numbers if number is not None)
            if not (whole and len(labels) <= _FEW_LABELS):
                return "regression"
        if len(labels) == 2:
            self.positive = self._positive()
            return "binary"
        if len(labels) > _MOST_LABELS:
            raise DefinitionError(
                f"{where}: expected a target of numbers, or of at most {_MOST_LABELS} labels, found {len(labels):,} "
                f"different values of {target!r}, such as {_text(next(iter(labels)))}"
            )
        return "classes"

    def _positive(self) -> Any:
        """The label that counts as positive, where metrics need it named; None where true or 1 says it."""
        labels = list(self.labels)
        if all(isinstance(label, bool) for label in labels) or self.label_kind == "bool":
            return None
        numbers = {as_number(label): label for label in labels}
        if None not in numbers and not (self.stream.source not in _OF_TEXT and isinstance(labels[0], str)):
            if set(numbers) in ({0.0, 1.0}, {-1.0, 1.0}):
                return None
            largest = numbers[max(number for number in numbers if number is not None)]
            return largest if self.stream.source not in _OF_TEXT else automatic(largest)
        known = [label for label in labels if str(label).strip().lower() in _POSITIVE]
        return known[0] if len(known) == 1 else self.labels.most_common()[-1][0]

    @property
    def label_kind(self) -> str | None:
        """How a text source reads the target: as true and false, as text, or None for as it comes."""
        words = {str(label).strip().lower() for label in self.labels}
        if self.stream.source == "CSVSource":
            if words == {"true", "false"}:
                return "bool"
            if any(as_number(label) is None for label in self.labels) and reads_as_number(self.labels):
                return "text"  # or labels such as 7 would be numbers beside texts
        elif self.stream.source == "SVMLightSource":
            numbers = [as_number(word) for word in words]
            if None in numbers:
                return "text"
            if set(numbers) <= {0.0, -1.0, 1.0} and len(numbers) == 2 and 1.0 in numbers:
                return "bool"
            return "int" if all(number.is_integer() for number in numbers if number is not None) else None
        return None

    # What is written

    def text(self, to: Path, command: str) -> str:
        """The definition, as it is written to `to`."""
        stream, name = self.stream, shlex.quote(str(to))
        run = f"runs/{to.stem}"
        lines = [
            f"# {comment(stream.path.name if stream.path else stream.name)}: what is `{comment(stream.target)}`? "
            "Each row is predicted first, and learned afterwards.",
            f"# Written by `{command}` from the first {len(stream.rows):,} rows. Change what you like.",
            "#",
            f"#     fwonline run {name}",
            f"#     fwonline report {run}",
            "",
            *self._source(to),
            "",
            *(self._features() if self.columns else ["[[model]]", 'class = "StandardScaler"', ""] * self._is_dense),
            *self._model(),
            "",
            *self._monitors(),
            *_aligned([("[[sinks]]", "each prediction, as one line of JSON, in the run's folder")]),
            'class = "JSONLinesSink"',
            'path = "predictions.jsonl"',
            "",
            "[run]",
            "seed = 42",
            *_aligned(self._run()),
        ]
        return "\n".join(line.rstrip() for line in lines) + "\n"

    def _run(self) -> list[tuple[str, str]]:
        pairs = [('dead_letter = "rejected.jsonl"', "rows that cannot be learned are kept here, and the run goes on")]
        if self.n_unlabelled > 0.3 * len(self.stream.rows):
            pairs.append(("max_rejected_share = 1.0", "many rows have no target"))
        return pairs

    def _source(self, to: Path) -> Iterator[str]:
        stream = self.stream
        pairs: list[tuple[str, str]] = [("[source]", ""), (f'class = "{stream.source}"', "")]
        if stream.path is not None:
            path = os.path.relpath(stream.path, to.parent)
            pairs.append((f"path = {_toml(path)}", "starts where this file is"))
        pairs += [(f"{key} = {_toml(value)}", "") for key, value in stream.settings.items()]
        if stream.source == "SVMLightSource":
            pairs += [(f'label = "{self.label_kind}"', "")] if self.label_kind else []
        else:
            remark = self._labels_shown()
            pairs.append((f"target = {_toml(stream.target)}", remark))
        if stream.source == "CSVSource":
            na = sorted(self.answer.na_texts.union(*(column.na_texts for column in self.columns.values())))
            if na:
                pairs.append((f"na_values = {_toml(na)}", "a missing value, in any column"))
            kinds = {name: "text" for name, column in self.columns.items() if column.as_text}
            if self.label_kind:
                kinds[stream.target] = self.label_kind
            if kinds:
                pairs.append((f"converters = {_toml(kinds)}", ""))
        yield from _aligned(pairs)
        dropped = [(name, column.remark) for name, column in self.columns.items() if column.kind == "drop"]
        if dropped:
            yield "drop = ["
            yield from _aligned([(f"  {_toml(name)},", f"left out: {remark}") for name, remark in dropped])
            yield "]"

    def _labels_shown(self) -> str:
        labels, missing = self.labels, self.n_unlabelled
        if self.task == "regression":
            numbers = [number for label in labels if (number := as_number(label)) is not None]
            shown = f"{min(numbers):g} to {max(numbers):g}"
        else:
            total = sum(labels.values())
            found = [f"{comment(_text(label))} ({count / total:.0%})" for label, count in labels.most_common(5)]
            shown = ", ".join(found) + (f", ... ({len(labels)} labels)" if len(labels) > 5 else "")
        return shown + (f"; {missing:,} rows without one are not learned" if missing else "")

    def _features(self) -> Iterator[str]:
        """The steps before the model: a table's encoder, beside the words of each free text."""
        texts = [name for name, column in self.columns.items() if column.kind == "text"]
        if len(texts) == len([column for column in self.columns.values() if column.kind != "drop"]) == 1:
            yield from ("# Words that are frequent here, and rare elsewhere, weigh most.", "[[model]]")
            yield from ('class = "TFIDF"', f"on = {_toml(texts[0])}", "")
            return
        table = "model"
        if texts:
            table = "model.transformers"
            yield from ("[[model]]", 'class = "TransformerUnion"', "")
        yield "# Numbers are scaled, categories and parts of dates have features of their own, missing values too."
        yield from self._encoder(table)
        for name in texts:
            yield from _aligned([("[[model.transformers]]", "the words of a text, the more telling the heavier")])
            words, prefix = f'{{ class = "TFIDF", on = {_toml(name)} }}', _toml(f"{name}:")
            yield from ('class = "Pipeline"', f'steps = [{words}, {{ class = "Prefixer", prefix = {prefix} }}]', "")

    def _encoder(self, table: str) -> Iterator[str]:
        yield f"[[{table}]]"
        yield 'class = "TableEncoder"'
        others = sorted(set().union(*(column.na_texts for column in self.columns.values())))
        if others and self.stream.source != "CSVSource":
            yield f"na_values = {_toml(others)}"
        counts = [len(column.values) for column in self.columns.values() if column.kind == "category"]
        most = min(1000, 100 * math.ceil(max([80, *counts]) / 80))  # some of them are still to come
        yield from _aligned([(f"max_categories = {most}", "of a column; the others are one feature, (other)")])
        kept = {name: column for name, column in self.columns.items() if column.kind != "drop"}
        yield ""
        listed = kept
        if len(kept) > _LISTED:
            listed = {name: column for name, column in kept.items() if column.kind not in ("number", "category")}
            yield f"# {len(kept) - len(listed)} columns have the kind that their first values show: number or category"
        if listed:
            yield f"[{table}.columns]"
            pairs = []
            for name, column in listed.items():
                is_text = column.kind == "text"
                kind, remark = ("drop", f"a text, below; {column.remark}") if is_text else (column.kind, column.remark)
                pairs.append((f"{_key(name)} = {_toml(kind)}", remark))
            yield from _aligned(pairs)
            yield ""

    def _model(self) -> Iterator[str]:
        yield "[[model]]" if self.columns or self._is_dense else "[model]"
        name, remark = _MODELS[self.task], "for any number of labels" if self.task == "classes" else "sparse by itself"
        yield from _aligned([(f'class = "{name}"', remark)])
        if any(column.kind == "text" for column in self.columns.values()):
            yield from _aligned([("max_names = 50_000", "features at most: words not seen for longest make room")])
        yield f'# constraint = {{ class = "L1Ball", radius = {self._radius():g} }}  # sparser, for many categories'
        if self.task != "regression" and self._are_whole:
            yield "# The labels are whole numbers: FWRegressor, with MAE and R2, learns them as numbers."
        elif self.task == "regression" and len(self.labels) <= _MOST_LABELS and self._are_whole:
            yield "# FWSoftmax, with Accuracy, learns the numbers as labels."

    @property
    def _is_dense(self) -> bool:
        """Whether rows are those of a dense matrix, which can be scaled one column after another."""
        return self.stream.source == "NPZSource" and len(set(map(len, self.stream.rows))) == 1

    @property
    def _are_whole(self) -> bool:
        numbers = [as_number(label) for label in self.labels if not isinstance(label, bool)]
        return len(numbers) > 2 and all(number is not None and number.is_integer() for number in numbers)

    def _radius(self) -> float:
        if self.task != "regression":
            return 10.0
        numbers = [number for label, count in self.labels.items() if (number := as_number(label)) is not None]
        return float(f"{5.0 * statistics.pstdev(numbers):.1g}") or 1.0

    def _monitors(self) -> Iterator[str]:
        if self.task == "regression":
            metrics, rolling = ["MAE", "R2"], "MAE"
        elif self.task == "binary":
            metrics, rolling = ["ROCAUC", "Accuracy"], "Accuracy"
        else:
            metrics, rolling = ["Accuracy", "MacroF1"], "Accuracy"
        for metric in metrics:
            yield from ("[[monitors]]", f'class = "{metric}"')
            if metric == "ROCAUC" and self.positive is not None:
                yield from _aligned([(f"positive = {_toml(self.positive)}", "the label that is looked for")])
            yield ""
        yield from ("[[monitors]]", f'class = "{rolling}"')
        yield from _aligned([("window = 1000", "of the last 1,000 rows")])
        yield ""
        yield from _aligned([("[[monitors]]", "how many weights are not zero")])
        yield from ('class = "Support"', "")

    # What is told

    def told(self) -> Iterator[str]:
        """What was found, for the terminal."""
        kinds = Counter(column.kind.partition(":")[0] for column in self.columns.values() if column.kind != "drop")
        plural = {
            "number": "numbers",
            "category": "categories",
            "date": "dates",
            "bool": "true or false",
            "text": "texts",
        }
        found = ", ".join(f"{count} {plural[kind] if count > 1 else kind}" for kind, count in kinds.items())
        what = {"binary": "two labels", "classes": f"{len(self.labels)} labels", "regression": "numbers"}[self.task]
        where = self.stream.path or self.stream.name
        yield f"{where}: {len(self.stream.rows):,} rows looked at" + (f"; columns: {found}" if found else "")
        yield f"target: {self.stream.target}, {what} -> {_MODELS[self.task]}"
        for column in self.columns.values():
            if column.kind == "drop":
                yield f"left out: {comment(str(column.name))}, {column.remark}"
        if self.stream.bad:
            yield f"{len(self.stream.bad):,} rows cannot be read, the first: {self.stream.bad[0]}"


# Writing TOML


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_key(key)} = {_toml(item)}' for key, item in value.items())} }}"
    return repr(value)


def _key(name: Any) -> str:
    text = str(name)
    return text if re.fullmatch(r"[A-Za-z0-9_-]+", text) else _toml(text)


def _aligned(pairs: list[tuple[str, str]]) -> Iterator[str]:
    """Lines of a file, with comments behind them in one column."""
    column = max((len(text) for text, remark in pairs if remark and len(text) <= 50), default=0)
    for text, remark in pairs:
        line = f"{text:<{column}}  # {comment(remark)}"
        if not remark or len(text) > _WIDTH - 10:
            yield text
        else:
            yield line if len(line) <= _WIDTH else f"{line[: _WIDTH - 3]}..."


def comment(text: str) -> str:
    """A text on one line of a comment."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", text)


def _text(label: Any) -> str:
    return {True: "true", False: "false"}[label] if isinstance(label, bool) else str(label)
