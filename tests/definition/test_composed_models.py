"""Models made of models in a definition (pipelines in unions, meta-estimators, text, tables) run and are taken up."""

import pytest

from fwonline.definition import load_definition
from fwonline.exceptions import DefinitionError

ROWS = [{"a": i % 3 + 0.5, "text": f"some words a cat {i % 5}", "y": f"c{i % 3}"} for i in range(60)]
HEAD = 'source = { class = "JSONLinesSource", path = "rows.jsonl", target = "y" }\nmonitors = ["Accuracy"]\n'

MODELS = {
    "pipeline in a union": """[
      { class = "TransformerUnion", transformers = [
        [{ class = "Select", keys = ["a"] }, "StandardScaler"],
        { class = "BagOfWords", on = "text", ngram_range = [1, 2], stop_words = ["a"] },
      ] },
      { class = "OneVsRestClassifier", classifier = ["StandardScaler", "LogisticRegression"] }]""",
    "Pipeline by its name": """[
      { class = "TransformerUnion", transformers = [
        { class = "Pipeline", steps = [{ class = "Select", keys = ["a"] }, "StandardScaler"] },
        { class = "TFIDF", on = "text" },
      ] },
      "FWSoftmax"]""",
    "table": '[{ class = "TableEncoder", columns = { text = "drop" } }, "FWSoftmax"]',
    "ensemble": """[
      { class = "Select", keys = ["a"] },
      { class = "VotingClassifier", models = [["StandardScaler", "FWSoftmax"], "GaussianNB"] }]""",
    "bagging": """[
      { class = "Select", keys = ["a"] },
      { class = "BaggingClassifier", model = "FWSoftmax", n_models = 2 }]""",
    "drift": """[
      { class = "Select", keys = ["a"] },
      { class = "DriftRetrainingClassifier", model = "GaussianNB", drift_detector = "binary.DDM" }]""",
}


@pytest.fixture
def load(tmp_path):
    def write_and_load(model):
        lines = (str(row).replace("'", '"') + "\n" for row in ROWS)
        (tmp_path / "rows.jsonl").write_text("".join(lines))
        (tmp_path / "d.toml").write_text(f"{HEAD}model = {model}\nrun = {{ seed = 1 }}\n")
        return load_definition(tmp_path / "d.toml")

    return write_and_load


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_models_runs_and_is_taken_up(load, tmp_path, name):
    definition = load(MODELS[name])
    whole = definition.build().run()
    assert whole.n_learned == len(ROWS)
    definition.build(checkpoint=tmp_path / "checkpoint").run(31)
    parts = definition.build(checkpoint=tmp_path / "checkpoint").run()
    assert parts.monitors == whole.monitors
    assert whole.monitors["Accuracy"] > 0.3


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (
            '[{ class = "TransformerUnion", transformers = ["StandrdScaler", 3, []] }, "FWSoftmax"]',
            [
                "model[0].transformers[0]: no class is called 'StandrdScaler'. Did you mean 'StandardScaler'?",
                "model[0].transformers[1]: expected a table with a class, or the name of one, found 3",
                "model[0].transformers[2]: expected at least one step, found an empty list",
            ],
        ),
        (
            '{ class = "VotingClassifier", models = "FWSoftmax" }',
            ["model.models: expected a list, found the string 'FWSoftmax'"],
        ),
        (
            '{ class = "OneVsRestClassifier", classifier = ["StandardScaler", "LinearRegression"] }',
            ["model.classifier: OneVsRestClassifier expects a Classifier, found LinearRegression"],
        ),
        (
            '[{ class = "TransformerUnion", transformers = [["StandardScaler", "FWSoftmax"]] }, "FWSoftmax"]',
            ["model[0].transformers[0]: TransformerUnion expects a BaseTransformer, found FWSoftmax"],
        ),
        (
            '[{ class = "TableEncoder", columns = { a = "nmber" } }, "FWSoftmax"]',
            ["model[0].columns: TableEncoder: columns: the kind of 'a' must be one of 'number', 'category', 'date', "],
        ),
    ],
)
def test_mistakes_are_named(load, model, said):
    with pytest.raises(DefinitionError) as error:
        load(model)
    lines = str(error.value).split("\n")
    assert len(lines) == len(said)
    assert all(f"d.toml:3: {what}" in line for line, what in zip(lines, said, strict=True))
