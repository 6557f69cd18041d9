"""``fwonline simulate``: what it writes is what the simulator says, and what the sources read."""

import itertools

import pytest

from fwonline import datasets, stream
from fwonline.cli import main


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


ARGUMENTS = ["simulate", "SparseLinear", "--n", "200", "--seed", "3", "--param", "n_features=5", "--param"]


def expected(**parameters):
    return list(itertools.islice(datasets.SparseLinear(n_features=5, seed=3, **parameters), 200))


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_csv_reads_back(suffix, capsys):
    assert main([*ARGUMENTS, "n_informative=2", "--to", f"s.csv{suffix}"]) == 0
    assert capsys.readouterr().out == f"200 samples of SparseLinear written to s.csv{suffix}\n"
    read = [({int(k): v for k, v in s.x.items()}, s.y) for s in stream.CSVSource(f"s.csv{suffix}", "y")]
    assert read == expected(n_informative=2)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_json_lines_read_back(suffix):
    parameters = ["n_informative=2", "--param", "density=0.3", "--param", "classification=true"]
    assert main([*ARGUMENTS, *parameters, "--to", f"s.jsonl{suffix}"]) == 0
    read = [({int(k): v for k, v in s.x.items()}, s.y) for s in stream.JSONLinesSource(f"s.jsonl{suffix}", "y")]
    assert read == expected(n_informative=2, density=0.3, classification=True)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_svmlight_reads_back(suffix):
    parameters = ["n_informative=2", "--param", "density=0.3", "--param", "classification=true"]
    assert main([*ARGUMENTS, *parameters, "--to", f"s.svm{suffix}"]) == 0
    read = [(s.x, s.y) for s in stream.SVMLightSource(f"s.svm{suffix}", label="bool")]
    assert read == expected(n_informative=2, density=0.3, classification=True)


def test_the_same_seed_writes_the_same_bytes(here):
    for name in ("a.svm.gz", "b.svm.gz"):
        main([*ARGUMENTS, "n_informative=2", "--to", name])
    assert (here / "a.svm.gz").read_bytes() == (here / "b.svm.gz").read_bytes()


def test_streams_without_targets_and_with_names_are_written_too():
    assert main(["simulate", "BlockCovariance", "--to", "c.csv", "--n", "3", "--seed", "1"]) == 0
    samples = list(stream.CSVSource("c.csv"))
    assert len(samples) == 3
    assert samples[0].y is None
    assert main(["simulate", "LowRankRatings", "--to", "r.csv", "--n", "3", "--seed", "1"]) == 0
    assert [set(sample.x) for sample in stream.CSVSource("r.csv", "y")] == [{"user", "item"}] * 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["Uniform", "--to", "a.csv"],
         "no simulator is called 'Uniform'. There are: AdversarialLinear, BlockCovariance, GaussianMixture, "
         "LowRankRatings, SparseLinear"),
        (["sparselinear", "--to", "a.csv"], "no simulator is called 'sparselinear'. Did you mean 'SparseLinear'? "
         "There are: AdversarialLinear, BlockCovariance, GaussianMixture, LowRankRatings, SparseLinear"),
        (["SparseLinear", "--to", "a.parquet"],
         "--to a.parquet: expected a file that ends in .csv, .jsonl, .svm (and .gz), or kafka://host:port/topic"),
        (["SparseLinear", "--to", "no/a.csv"], "--to no/a.csv: there is no folder 'no'"),
        (["SparseLinear", "--to", "kafka://localhost"], "--to kafka://localhost: expected kafka://host:port/topic"),
        (["SparseLinear", "--to", "a.csv", "--param", "density"], "--param density: expected name=value"),
        (["AdversarialLinear", "--to", "a.csv", "--param", "n_feature=3"],
         "--param n_feature=3: AdversarialLinear has no 'n_feature'. Did you mean 'n_features'? "
         "It has: n_features, switch_every, edge, volatility, seed"),
        (["SparseLinear", "--to", "a.csv", "--param", "n_features=ten"],
         "--param n_features=ten: expected an integer, found 'ten'"),
        (["SparseLinear", "--to", "a.csv", "--param", "density=2"],
         "SparseLinear: density must lie in (0, 1], not be 2"),
        (["SparseLinear", "--to", "a.csv", "--param", "density=0.1"],
         "the samples of this stream differ in their features: write .svm or .jsonl"),
        (["LowRankRatings", "--to", "a.svm"],
         "an .svm file numbers its features, and this stream names them: use .csv or .jsonl"),
    ],
)  # fmt: skip
def test_mistakes_are_told_and_leave_nothing_behind(arguments, message, capsys, here):
    (here / "a.csv").write_text("precious")
    assert main(["simulate", *arguments]) == 2
    assert capsys.readouterr().err == f"fwonline: {message}\n"
    assert (here / "a.csv").read_text() == "precious"
    assert [path.name for path in here.iterdir()] == ["a.csv"]


@pytest.mark.kafka
def test_a_topic_is_filled(make_topic, kafka):
    if kafka.client:
        pytest.skip("this broker wants more than an address")
    topic = make_topic()
    assert main([*ARGUMENTS, "n_informative=2", "--to", f"kafka://{kafka.bootstrap}/{topic}"]) == 0
    source = stream.KafkaSource(topic, kafka.bootstrap, target="y", end="latest")
    with source:
        read = [({int(k): v for k, v in s.x.items()}, s.y) for s in source]
    assert read == expected(n_informative=2)
