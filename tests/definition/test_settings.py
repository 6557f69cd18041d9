"""Values set from outside a definition."""

import tomllib

import pytest

from fwonline.definition.settings import choices, with_settings
from fwonline.exceptions import DefinitionError

TEXT = """\
# a comment
source = "Phishing"   # another
monitors = ["ROCAUC", { class = "Gap", every = 50 }]
run = { seed = 42 }

[[model]]
class = "StandardScaler"

[[model]]   # the last step
class = "FWClassifier"
constraint = { class = "L1Ball", radius = 5.0 }     # kept
optimizer.class = "SFW"
"""


@pytest.mark.parametrize(
    ("key", "value", "path"),
    [
        ("model.1.constraint.radius", "3", ["model", 1, "constraint", "radius"]),
        ("model[1].constraint.radius", "3", ["model", 1, "constraint", "radius"]),
        ("model.FWClassifier.constraint.radius", "3.5", ["model", 1, "constraint", "radius"]),
        ("model.StandardScaler.with_std", "false", ["model", 0, "with_std"]),
        ("model.1.constraint", '{ class = "L2Ball", radius = 1.0 }', ["model", 1, "constraint"]),
        ("model.1.optimizer.memory", "7", ["model", 1, "optimizer", "memory"]),
        ("model.1.intercept", "true", ["model", 1, "intercept"]),
        ("monitors.1.every", "9", ["monitors", 1, "every"]),
        ("monitors.ROCAUC.n_thresholds", "20", ["monitors", 0, "n_thresholds"]),
        ("run.limit", "8", ["run", "limit"]),
        ("source", '"Bananas"', ["source"]),
        ("source.path", '"x"', ["source", "path"]),
        ("name", '"new"', ["name"]),
        ("model", "[]", ["model"]),
    ],
)
def test_one_value_is_set_and_all_else_is_as_it_was(key, value, path):
    if key == "model":  # spread over tables
        with pytest.raises(DefinitionError, match="this key cannot be set from outside; write it into"):
            with_settings(TEXT, {key: value}, "a.toml")
        return
    changed = with_settings(TEXT, {key: value}, "a.toml")
    found, wanted = tomllib.loads(changed), tomllib.loads(TEXT)
    *outer, last = path
    inner = wanted
    for at, part in enumerate(outer):
        following = inner[part] if isinstance(part, int) or part in inner else {}
        if isinstance(following, str):
            following = {"class": following}
        inner[part] = following
        inner = inner[part]
        assert at < 4
    inner[last] = tomllib.loads(f"v = {value}")["v"]
    assert found == wanted
    assert changed.count("#") == TEXT.count("#")


def test_a_table_at_the_very_end():
    for text in ("[run]", "[run]\n", "[run] # no more"):
        assert tomllib.loads(with_settings(text, {"run.limit": "3", "run.seed": "4"}, "a")) == {
            "run": {"limit": 3, "seed": 4}
        }


@pytest.mark.parametrize(
    ("key", "what"),
    [
        ("model.2.seed", r"model has no '2'; it has 0 \(StandardScaler\), 1 \(FWClassifier\)"),
        ("model.SFW.seed", "model has no 'SFW'"),
        ("modle.1.seed", "the definition has no 'modle'. Did you mean 'model'?"),
        ("run.seed.x", r"run.seed is 42, which has no 'x'"),
    ],
)
def test_a_key_that_leads_nowhere(key, what):
    with pytest.raises(DefinitionError, match=what):
        with_settings(TEXT, {key: "1"}, "a.toml")


@pytest.mark.parametrize("setting", ["radius", "=3", "a="])
def test_what_is_no_setting(setting):
    with pytest.raises(DefinitionError, match=f"--set {setting}: expected KEY=VALUE"):
        choices([setting])


def test_values_of_a_sweep():
    assert choices(["a=1,2", "a=3", "a=3", "b=x,y", "c=[1, 2]", "d=1,x"]) == {
        "a": ["1", "2", "3"],
        "b": ['"x,y"'],
        "c": ["[1, 2]"],
        "d": ['"1,x"'],
    }
