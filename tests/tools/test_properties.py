"""The trial that draws the property tests' examples anew."""

import pytest

from tools.soak import cli
from tools.soak.properties import properties


@pytest.mark.slow
def test_each_pass_has_a_seed_of_its_own(capsys):
    said = []
    assert properties(0.0, 3, ["tests/sets/test_ordered.py"], said.append) == {"ok": True, "passes": 1}
    assert said[0].startswith("seed 3: ")
    assert "passed" in said[0]


@pytest.mark.slow
def test_a_pass_that_fails_ends_the_trial(capsys):
    assert cli.main(["--seed", "7", "properties", "tests/no_such_file.py", "--seconds", "60"]) == 1
    shown = capsys.readouterr().out
    assert "no_such_file" in shown
    assert "failed with seed  7" in shown
    assert shown.rstrip().endswith("FAIL")
