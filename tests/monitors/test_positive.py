"""Metrics of two classes: which label is positive is known, or said."""

import pandas as pd
import pytest
from river import base, datasets, linear_model, metrics, multiclass, preprocessing, utils

from fwonline.cli import main
from fwonline.exceptions import MonitorError
from fwonline.linear_model import FWClassifier, FWSoftmax
from fwonline.monitors import Gap, Metric, Support
from fwonline.sets import L1Ball

BINARY = [metrics.ROCAUC, metrics.RollingROCAUC, metrics.RollingPRAUC, metrics.LogLoss, metrics.F1, metrics.MCC]


def predictions():
    """What a logistic regression says of web pages, with the truth."""
    model = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    for x, y in datasets.Phishing().take(300):
        yield y, model.predict_proba_one(x)
        model.learn_one(x, y)


@pytest.mark.parametrize("metric", BINARY)
@pytest.mark.parametrize("window", [None, 50])
def test_a_label_that_is_said_to_be_positive_counts_as_true(metric, window):
    def made():
        return metric() if window is None else utils.Rolling(metric, window)

    told, plain = Metric(made(), positive="bad"), Metric(made())
    for y, p in predictions():
        plain.update(y, p)
        told.update("bad" if y else "good", {"good": p[False], "bad": p[True]})
    assert told.get() == plain.get()
    assert told.clone().get().keys() == told.get().keys()


@pytest.mark.parametrize("metric", BINARY)
@pytest.mark.parametrize("label", ["yes", 7, ("a",)])
def test_a_label_that_may_be_either_is_refused(metric, label):
    monitor = Metric(metric())
    with pytest.raises(MonitorError, match=rf"{metric.__name__} measures two classes.*positive = "):
        monitor.update(label, {label: 0.7, "no": 0.3})


def test_labels_whose_positive_one_is_plain_need_no_word():
    for labels in [(0, 1), (-1, 1), (2, 1), (False, True)]:
        monitor = Metric(metrics.F1() + metrics.LogLoss())
        for _ in range(3):
            monitor.update(labels[1], dict(zip(labels, (0.1, 0.9), strict=True)))
            monitor.update(labels[0], dict(zip(labels, (0.9, 0.1), strict=True)))
        assert monitor.get()["F1"] == 1.0
        assert monitor.get()["LogLoss"] < 0.2


def test_the_label_that_river_was_told_is_refused():
    with pytest.raises(ValueError, match=r"pos_val='bad': river's metrics count wrongly with it; give positive='bad'"):
        Metric(metrics.ROCAUC(pos_val="bad"))
    assert Metric(metrics.F1() + metrics.Precision()).get()["F1"] == 0.0


@pytest.mark.parametrize("model", [FWSoftmax(), multiclass.OneVsRestClassifier(linear_model.LogisticRegression())])
def test_a_model_of_many_classes_is_refused_before_the_run(model):
    with pytest.raises(MonitorError, match=f"F1 measures two classes, and {type(model).__name__} predicts any number"):
        Metric(metrics.F1()).check_model(model)
    Metric(metrics.F1(), positive="sky").check_model(model)
    Metric(metrics.MacroF1()).check_model(model)


class Labels(base.Classifier):
    """Predicts labels and no probabilities."""

    def learn_one(self, x, y):
        pass

    def predict_one(self, x):
        return True


def test_probabilities_that_a_model_has_not_are_told_before_the_run():
    with pytest.raises(MonitorError, match="LogLoss needs probabilities, and Labels predicts labels alone"):
        Metric(metrics.Accuracy() + metrics.LogLoss()).check_model(Labels())
    Metric(metrics.F1()).check_model(Labels())


def test_a_positive_label_belongs_to_two_classes():
    with pytest.raises(MonitorError, match="only a metric of two classes has a positive one, and Accuracy is none"):
        Metric(metrics.Accuracy(), positive="yes").check_model(linear_model.LogisticRegression())


def test_what_no_model_has_is_told_before_the_run():
    scaled = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    with pytest.raises(MonitorError, match="Gap needs a model with the attribute 'gap'; LogisticRegression has none"):
        Gap().check_model(scaled)
    Support().check_model(scaled)


def run(folder, monitors, capsys, rows="1.0,yes\n2.0,no\n"):
    (folder / "in.csv").write_text("a,y\n" + rows * 20)
    (folder / "text.toml").write_text(
        'source = { class = "CSVSource", path = "in.csv", target = "y" }\n'
        'model = { class = "FWClassifier", constraint = { class = "L1Ball", radius = 5.0 } }\n'
        f"monitors = [{monitors}]\n"
    )
    code = main(["run", str(folder / "text.toml"), "--output", str(folder / "run"), "--fresh"])
    return code, "".join(capsys.readouterr())


def test_a_run_over_text_labels_says_what_is_missing(tmp_path, capsys):
    code, said = run(tmp_path, '"ROCAUC"', capsys)
    assert code == 1
    assert 'Write positive = "yes", or the other label, beside ROCAUC' in said
    code, said = run(
        tmp_path, '{ class = "ROCAUC", positive = "yes" }, { class = "F1", window = 10, positive = "yes" }', capsys
    )
    assert code == 0
    assert "RollingF1" in said
    code, said = run(tmp_path, '{ class = "ROCAUC", positive = ["yes"] }', capsys)
    assert code == 2
    assert "text.toml:3: monitors[0].positive: expected a label, found a list ['yes']" in said


def test_metrics_without_a_number_are_not_listed(tmp_path, capsys):
    for name in ("ConfusionMatrix", "ClassificationReport"):
        code, said = run(tmp_path, f'"{name}"', capsys)
        assert code == 2
        assert f"text.toml:3: monitors[0]: {name} has no number that a run could show; " in said


def test_a_third_label_is_told_who_learns_it(tmp_path, capsys):
    code, said = run(tmp_path, '"Accuracy"', capsys, "1.0,path\n2.0,foliage\n3.0,sky\n")
    assert code == 1
    assert "the label is 'sky'; expected 'path' or 'foliage', the classes seen so far (FWSoftmax learns more" in said


def test_the_only_class_seen_has_all_the_probability():
    model = FWClassifier(constraint=L1Ball(5.0))
    assert model.predict_proba_one({"a": 1.0}) == {False: 0.5, True: 0.5}
    model.learn_one({"a": 1.0}, "no")
    assert model.predict_proba_one({"a": -50.0}) == {"no": 1.0}
    assert model.predict_one({"a": -50.0}) == "no"
    assert model.predict_arrays([[-50.0]]).tolist() == ["no"]
    frame = pd.DataFrame({"a": [-50.0, 1.0]})
    assert model.predict_proba_many(frame).to_dict("list") == {"no": [1.0, 1.0]}
    assert model.predict_many(frame).tolist() == ["no", "no"]
    model.learn_one({"a": -1.0}, "yes")
    assert set(model.predict_proba_one({"a": 1.0})) == {"no", "yes"}
