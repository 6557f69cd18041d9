"""The comparison of two trees sees what differs, by the last bit, and what is missing."""

from __future__ import annotations

import fnmatch
import io

import numpy as np
import pytest

from fwonline import optim
from tools.compare import cli, comparison, names, rows, trees, worker
from tools.compare.names import build, translated
from tools.compare.record import Record


def verdicts(base: dict, new: dict) -> dict[str, str]:
    return {case.name: case.verdict for case in comparison.compared(base, new)}


def one(value: object, case: str = "family/case", field: str = "x") -> dict:
    return {f"{case}|{field}": np.asarray(value)}


def test_equal_to_the_bit():
    assert verdicts(one([1.0, np.nan]), one([1.0, np.nan])) == {"family/case": "equal"}
    assert verdicts(one([1.0]), one([np.nextafter(1.0, 2.0)])) == {"family/case": "differing"}
    assert verdicts(one([0.0]), one([-0.0])) == {"family/case": "differing"}
    assert verdicts(one([1.0]), one([1.0, 1.0])) == {"family/case": "differing"}
    assert verdicts(one([1.0]), one([1])) == {"family/case": "differing"}


def test_missing_cases_and_fields():
    assert verdicts(one(1.0), {}) == verdicts({}, one(1.0)) == {"family/case": "missing"}
    more = one(1.0) | one(2.0, field="y")
    assert verdicts(more, one(1.0)) == {"family/case": "differing"}
    assert verdicts(one(1.0), more) == {"family/case": "equal"}  # what only the new tree shows


def test_refusals():
    raised = one("ValueError: no", field=worker.REFUSED)
    assert verdicts(raised, one("ValueError: not so", field=worker.REFUSED)) == {"family/case": "refused"}
    assert verdicts(raised, one("TypeError: no", field=worker.REFUSED)) == {"family/case": "differing"}
    assert verdicts(raised, one(1.0)) == verdicts(one(1.0), raised) == {"family/case": "differing"}


def test_rounding_only_where_it_is_named(monkeypatch):
    base, new = one([1e3, 1.0]), one([1e3, 1.0 + 1e-10])
    assert verdicts(base, new) == {"family/case": "differing"}
    monkeypatch.setattr(names, "SAME_TO_ROUNDING", [("family/*", "x", "rows are summed by columns")])
    assert verdicts(base, new) == {"family/case": "rounding"}
    assert verdicts(base, one([1e3, 1.0 + 1e-8])) == {"family/case": "differing"}
    monkeypatch.setattr(names, "SAME_TO_ROUNDING", [("family/*", "gap", "a bound is tighter")])
    fun = one(100.0, field="fun")
    assert verdicts(one(1e-3, field="gap") | fun, one(1e-3 + 1e-11, field="gap") | fun) == {"family/case": "rounding"}


def test_the_exit_status_says_whether_all_is_equal(capsys):
    assert cli.report(comparison.compared(one(1.0), one(1.0))) == 0
    assert cli.report(comparison.compared(one(1.0), one(2.0))) == 1
    assert "differing: family/case" in capsys.readouterr().out
    assert cli.report([]) == 1


def test_names_of_both_trees():
    class Old:
        class SFW:
            def __init__(self, steps=1):
                self.taken = steps

    class New:
        class SFW:
            def __init__(self, *, steps_per_sample=1):
                self.taken = steps_per_sample

        class OFW:
            def __init__(self, a=0.5):
                self.a = a

        class AdversarialOFW:
            def __init__(self, horizon=None):
                self.horizon = horizon

    assert build(Old, "SFW", steps=3).taken == build(New, "SFW", steps=3).taken == 3
    assert translated(New, "OFW", {"adversarial": True, "horizon": 9, "a": 0.1}) == ("AdversarialOFW", {"horizon": 9})
    assert translated(New, "OFW", {"adversarial": False, "horizon": None, "a": 0.1}) == ("OFW", {"a": 0.1})


def test_records_take_values_apart():
    record = Record()
    record.put("weights", {"b": 1.0, ("a", 1): 2.0})
    record.put("mixed", {"a": 1.0, "b": "text"})
    record.put("rate", 1.0)
    record.put("none", None)
    assert set(record) == {"weights.keys", "weights.values", "mixed.keys", "mixed.a", "mixed.b"}
    assert record["weights.values"].tolist() == [1.0, 2.0]


def test_names_of_cases_differ_and_every_optimizer_is_there():
    found = [name for name, _ in worker.all_cases()]
    assert len(found) == len(set(found))
    from tools.compare.catalogue import OPTIMIZERS
    from tools.compare.offline import COMPOSITE

    made = {type(make()) for make in (*OPTIMIZERS.values(), *COMPOSITE.values())}
    public = {getattr(optim, name) for name in optim.__all__ if isinstance(getattr(optim, name), type)}
    assert {cls for cls in public if issubclass(cls, optim.Optimizer)} - {optim.Optimizer} <= made


@pytest.mark.parametrize("pattern", ["simulator/*", "source/*", "set/l1"])
def test_the_worker_writes_what_the_cases_leave(tmp_path, pattern):
    for name in ("a", "b"):
        worker.run(tmp_path / f"{name}.npz", [pattern])
    cases = comparison.compared(*(cli._load(tmp_path / f"{name}.npz") for name in ("a", "b")))
    assert cases
    assert {case.verdict for case in cases} == {"equal"}
    assert all(fnmatch.fnmatchcase(case.name, pattern) for case in cases)


def test_a_process_takes_the_package_from_the_tree_and_the_tools_from_here(tmp_path):
    (tmp_path / "fwonline").mkdir()
    (tmp_path / "fwonline" / "__init__.py").write_text("__version__ = 'of another tree'\n")
    code = "import tools.compare; print(fwonline.__version__, tools.compare.__file__)"
    process = trees.start(tmp_path, code, cache=tmp_path / "cache", stdout=-1, text=True)
    said, _ = process.communicate(timeout=60)
    assert said.startswith("of another tree")
    assert str(trees.HERE) in said


def test_a_row_says_the_time_of_a_unit_and_what_went_wrong(monkeypatch, capsys):
    monkeypatch.setattr(rows, "ROUND", 1e-4)
    monkeypatch.setattr(rows, "rows", lambda: [("good", lambda: sum_up), ("bad", lambda: fail)])
    monkeypatch.setattr("sys.stdin", io.StringIO("good\nbad\ngood\n"))
    rows.answer()
    good, bad, again = capsys.readouterr().out.splitlines()
    assert float(good) > 0.0
    assert float(again) > 0.0
    assert bad == "ValueError: no"


def sum_up(count: int) -> int:
    return sum(range(1000 * count))


def fail(count: int) -> None:
    raise ValueError("no")


@pytest.mark.slow
def test_two_trees_are_timed_in_turns(capsys):
    assert cli.main([str(trees.HERE), "--time", "--rounds", "2", "--only", "kmeans*"]) == 0
    shown = capsys.readouterr().out
    assert "kmeans learn_one" in shown
    assert "medians of 2 rounds" in shown
