"""What to write in place of what a definition says."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

from fwonline.definition import classes

__all__ = ["READERS", "instead_of_class", "instead_of_name", "reader_of"]

# A parameter's name, and the modules of what belongs there.
_KINDS = {
    "constraint": ("fwonline.sets",),
    "loss": ("fwonline.losses", "river.optim.losses"),
    "optimizer": ("fwonline.optim",),
    "schedule": ("fwonline.optim.schedules",),
}
#: The endings of files, with the source that reads them.
READERS = {
    **dict.fromkeys((".csv", ".tsv", ".tab"), "CSVSource"),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "JSONLinesSource"),
    **dict.fromkeys((".svm", ".svmlight", ".libsvm"), "SVMLightSource"),
    **dict.fromkeys((".parquet", ".pq"), "ParquetSource"),
    ".npz": "NPZSource",
}
_WITHOUT_NUMBER = {
    "ClassificationReport": "MacroF1, MacroPrecision and MacroRecall are numbers",
    "ConfusionMatrix": "Accuracy, BalancedAccuracy and CohenKappa are numbers of it",
    "Silhouette": "a metric compares what was predicted with a target",
}


def reader_of(name: str) -> str | None:
    """The source that reads a file of this name; None where the name is no file's.

    >>> reader_of("customers.csv.gz"), reader_of("Phishing")
    ('CSVSource', None)
    """
    ending = Path(name.removesuffix(".gz")).suffix.lower()
    return READERS.get(ending, "CSVSource" if ending == ".txt" else None)


def instead_of_class(name: str, at: str) -> str:
    """What is wrong with a name that no class has, and what was meant; `at` is the section where it stands."""
    if at == "source" and (reader := reader_of(name)) is not None:
        target = "" if reader == "SVMLightSource" else ', target = "COLUMN"'
        return (
            f'{name!r} is a file, and a source is a table: write {{ class = "{reader}", path = "{name}"{target} }}, or '
            f"have it written: fwonline init {name} --target COLUMN"
        )
    if name in _WITHOUT_NUMBER:
        return f"{name} has no number that a run could show; {_WITHOUT_NUMBER[name]}"
    return f"no class is called {name!r}.{classes.closest(name)}"


def instead_of_name(key: str, value: Any) -> str:
    """What to write where text stands in place of an object, or nothing where that is not known.

    >>> instead_of_name("loss", "log")
    'expected an object, which is a table, found the string \\'log\\': write loss = { class = "Log" }'
    """
    if not isinstance(value, str):
        return ""
    modules = _KINDS.get(key) or tuple(classes.listing())
    known = {name.lower(): name for module in modules for name in classes.listing()[module]}
    word = value.lower().replace("_", "").replace(" ", "")
    begins = [name for low, name in known.items() if low.startswith(word)]
    close = [known[low] for low in difflib.get_close_matches(word, known, n=1)]
    found = [known[word]] if word in known else (begins or close) if key in _KINDS else []
    if not found:
        return ""
    name = min(found, key=len)
    return f'expected an object, which is a table, found the string {value!r}: write {key} = {{ class = "{name}" }}'
