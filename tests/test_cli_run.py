"""``fwonline run``: the run folder, what may be done with one that exists, exit codes and messages."""

import json
import re
import shutil

import numpy as np
import pytest

import fwonline
from fwonline.checkpoint import Checkpoint
from fwonline.cli import main
from fwonline.loop import EventLoop
from fwonline.monitors import Gap

SMALL = """
source = "Phishing"
model = ["StandardScaler", { class = "FWClassifier", constraint = { class = "L1Ball", radius = 5.0 } }]
monitors = ["Accuracy", "Gap"]
sinks = [{ class = "JSONLinesSink", path = "predictions.jsonl" }]
run = { seed = 1, report_samples = 100 }
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(SMALL)
    return tmp_path


def log_of(folder):
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def summary_of(folder):
    return json.loads((folder / "summary.json").read_text())


def state_of(folder):
    """What the checkpoint knows of the model, without the objects' identity."""
    state = Checkpoint(folder / "checkpoint").load()
    estimator = state["model"]["FWClassifier"]
    return estimator.weights, estimator.gap, state["counts"], [monitor.get() for monitor in state["monitors"]]


def test_a_run_leaves_definition_log_predictions_checkpoint_and_summary(here, capsys):
    assert main(["run", "small.toml"]) == 0
    folder = here / "runs" / "small"
    assert (folder / "definition.toml").read_text() == SMALL
    log = log_of(folder)
    assert [row["n"] for row in log] == [*range(100, 1300, 100), 1250]
    assert log[-1]["Accuracy"] > 0.8
    assert 0.0 <= log[-1]["gap_over_memory"] <= log[-1]["gap_upper"]
    assert len((folder / "predictions.jsonl").read_text().splitlines()) == 1250
    assert summary_of(folder)["state"] == "finished"
    assert summary_of(folder)["n_learned"] == 1250
    assert (folder / "checkpoint").exists()
    out, err = capsys.readouterr()
    lines = [line for line in out.splitlines() if not line.startswith("compiling")]
    assert lines[0] == "small: learning from Phishing"
    assert re.match(r"samples 100  rate [\d,.]+/s  Accuracy 0\.\d+  gap_upper ", lines[1])
    assert lines[-2].startswith("samples 1,250  rate ")
    assert lines[-1] == "finished: 1,250 samples; to draw it: fwonline report runs/small"
    assert err == ""


def test_quiet_prints_nothing(capsys):
    assert main(["run", "small.toml", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_a_run_says_how_rows_come_to_the_model(here, capsys):
    """Where asked, and where a file could have been read in blocks and is not."""
    np.savez(here / "rows.npz", X=np.eye(20), y=np.arange(20.0))
    by_rows = "rows come one by one: LinearRegression learns samples one by one"
    (here / "rows.toml").write_text('source = { class = "NPZSource", path = "rows.npz" }\nmodel = "LinearRegression"\n')
    assert main(["run", "rows.toml"]) == 0
    assert by_rows in capsys.readouterr().out.splitlines()
    log = log_of(here / "runs" / "rows")
    assert log[0]["road"] == by_rows
    assert "road" not in log[1]
    assert main(["run", "rows.toml", "--fresh", "--set", "run.blocks=false"]) == 0
    assert "rows come" not in capsys.readouterr().out
    assert main(["run", "rows.toml", "--fresh", "--set", "run.blocks=false", "--explain"]) == 0
    assert "rows come one by one: blocks = false" in capsys.readouterr().out.splitlines()


def test_output_takes_the_place_of_the_default_folder(here):
    assert main(["run", "small.toml", "--quiet", "--limit", "50", "--output", "elsewhere/deep"]) == 0
    assert summary_of(here / "elsewhere" / "deep")["n"] == 50
    assert not (here / "runs").exists()


def test_a_finished_run_asks_what_to_do(here, capsys):
    main(["run", "small.toml", "--quiet"])
    assert main(["run", "small.toml"]) == 2
    assert capsys.readouterr().err == (
        "fwonline: runs/small: this run is finished, after 1,250 samples. --resume goes on from where it ended, "
        "--fresh starts over, --output takes another folder\n"
    )
    assert main(["run", "small.toml", "--quiet", "--fresh"]) == 0
    assert summary_of(here / "runs" / "small")["n"] == 1250
    assert len((here / "runs" / "small" / "predictions.jsonl").read_text().splitlines()) == 1250


def test_a_run_in_two_parts_ends_as_one_in_one(here, capsys):
    main(["run", "small.toml", "--quiet", "--limit", "437", "--output", "parts"])
    assert main(["run", "small.toml", "--resume", "--output", "parts"]) == 0
    assert "small: learning from Phishing, from 437 on\n" in capsys.readouterr().out
    main(["run", "small.toml", "--quiet", "--output", "whole"])
    assert state_of(here / "parts") == state_of(here / "whole")
    assert (here / "parts" / "predictions.jsonl").read_text() == (here / "whole" / "predictions.jsonl").read_text()
    assert [row["n"] for row in log_of(here / "parts")] == [100, 200, 300, 400, 437, *range(500, 1300, 100), 1250]


def test_an_unfinished_run_goes_on_and_says_so(here, capsys):
    main(["run", "small.toml", "--quiet", "--limit", "437"])
    folder = here / "runs" / "small"
    (folder / "summary.json").unlink()  # as after kill -9
    with open(folder / "log.jsonl", "a") as file:
        file.write('{"n": 450}\n{"n": 47')
    assert main(["run", "small.toml"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("runs/small: going on with the run that was begun here; --fresh starts over\n")
    assert [row["n"] for row in log_of(folder)][4:6] == [437, 500]


@pytest.mark.parametrize("options", [[], ["--resume"]])
@pytest.mark.parametrize("is_finished", [False, True])
def test_a_log_whose_checkpoint_is_gone_is_not_begun_anew(here, capsys, options, is_finished):
    main(["run", "small.toml", "--quiet", "--limit", "437"])
    folder = here / "runs" / "small"
    if not is_finished:
        (folder / "summary.json").unlink()
    for path in folder.glob("checkpoint*"):
        path.unlink()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert main(["run", "small.toml", *options]) == 2
    err = capsys.readouterr().err
    if options or not is_finished:
        assert err == (
            "fwonline: runs/small: the checkpoint of this run is gone: neither checkpoint nor checkpoint.previous is "
            "there. Put one of them back, or choose: --fresh starts over, in place of what the folder holds, --output "
            "takes another folder\n"
        )
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert main(["run", "small.toml", "--fresh", "--quiet", "--limit", "100"]) == 0
    assert summary_of(folder)["n"] == 100


def test_one_of_the_two_checkpoints_is_enough(here):
    main(["run", "small.toml", "--quiet", "--limit", "437"])
    (here / "runs" / "small" / "checkpoint").unlink()
    assert main(["run", "small.toml", "--resume", "--quiet"]) == 0
    assert summary_of(here / "runs" / "small")["n"] == 1250


def test_a_run_that_ended_before_its_first_checkpoint_starts_over(here, capsys):
    main(["run", "small.toml", "--quiet", "--limit", "437"])
    folder = here / "runs" / "small"
    for path in (folder / "summary.json", folder / "log.jsonl", *folder.glob("checkpoint*")):
        path.unlink()
    assert main(["run", "small.toml", "--resume"]) == 2
    assert "the checkpoint of this run is gone" in capsys.readouterr().err
    assert main(["run", "small.toml", "--limit", "100"]) == 0
    assert "runs/small: the run before ended without a checkpoint; starting over\n" in capsys.readouterr().out
    assert summary_of(folder)["n"] == 100


def test_a_changed_definition_is_refused_with_what_changed(here, capsys):
    main(["run", "small.toml", "--quiet", "--limit", "100"])
    (here / "small.toml").write_text(SMALL.replace("radius = 5.0", "radius = 6.0"))
    assert main(["run", "small.toml", "--resume"]) == 2
    assert capsys.readouterr().err == (
        "fwonline: runs/small: the definition is not the one this run was begun with:\n"
        "  model[1].constraint.radius: 5.0 before, 6.0 now\n"
        "Set it back, or choose: --fresh starts over, --output takes another folder\n"
    )
    (here / "small.toml").write_text("# a comment\n" + SMALL.replace("report_samples = 100", "report_samples = 50"))
    assert main(["run", "small.toml", "--resume", "--quiet"]) == 0


def test_nothing_to_resume(capsys):
    assert main(["run", "small.toml", "--resume"]) == 2
    assert capsys.readouterr().err == "fwonline: runs/small: nothing to resume: no run was begun here\n"


def test_a_folder_of_somebody_elses_is_left_alone(here, capsys):
    (here / "thesis").mkdir()
    (here / "thesis" / "chapter1.tex").write_text("x")
    assert main(["run", "small.toml", "--fresh", "--output", "thesis"]) == 2
    assert capsys.readouterr().err == (
        "fwonline: thesis: this folder holds files but no run; choose another with --output\n"
    )
    assert main(["run", "small.toml", "--output", "small.toml"]) == 2
    assert capsys.readouterr().err == "fwonline: small.toml: expected a folder for the run, found a file\n"
    assert (here / "small.toml").read_text() == SMALL


def test_two_runs_do_not_share_a_folder(here, capsys):
    from fwonline._cli.folder import RunFolder

    with RunFolder(here / "runs" / "small").locked():
        assert main(["run", "small.toml"]) == 2
    assert capsys.readouterr().err == "fwonline: runs/small: another run is going on in this folder\n"


def test_resume_and_fresh_exclude_each_other(capsys):
    with pytest.raises(SystemExit) as end:
        main(["run", "small.toml", "--resume", "--fresh"])
    assert end.value.code == 2
    assert "--fresh: not allowed with argument --resume" in capsys.readouterr().err


def test_a_run_of_which_too_much_is_rejected_fails_and_says_why(here, capsys):
    rows = "".join(f"{i},{i}\n" for i in range(50)) + "nan,1\n" * 300
    (here / "in.csv").write_text("a,y\n" + rows)
    run = 'run = { on_error = "dead-letter", dead_letter = { class = "JSONLinesSink", path = "bad.jsonl" }'
    (here / "csv.toml").write_text(CSV + run + " }\n")
    assert main(["run", "csv.toml"]) == 1
    out, err = capsys.readouterr()
    assert "finished" not in out
    assert err.startswith(
        "fwonline: 51 of the last 101 items were rejected, more than max_rejected_share = 0.5 allows; "
        "the first of them:\n  in.csv:52: feature 'a' is nan"
    )
    assert err.endswith(
        "\n(max_rejected_share under [run] sets the share; 1.0 lets a run go on whatever is rejected)\n"
    )
    folder = here / "runs" / "csv"
    summary = summary_of(folder)
    assert (summary["state"], summary["n"], summary["n_rejected"]) == ("failed", 101, {"features": 51})
    assert len(summary["first_rejected"]) == 5
    assert len((folder / "bad.jsonl").read_text().splitlines()) == 51
    # It goes on when it is told that this is no matter.
    (here / "csv.toml").write_text(CSV + run + ", max_rejected_share = 1.0 }\n")
    assert main(["run", "csv.toml", "--quiet"]) == 0
    assert summary_of(folder)["n_rejected"] == {"features": 300}
    assert len((folder / "bad.jsonl").read_text().splitlines()) == 300


@pytest.mark.parametrize("how", ["removed", "made anew"])
@pytest.mark.parametrize("every", ["report_samples = 50", "report_every = 1000\ncheckpoint_samples = 50"])
def test_a_run_folder_that_disappears_ends_the_run(here, capsys, monkeypatch, how, every):
    (here / "in.csv").write_text("a,y\n" + "1,2\n" * 1000)
    sinks = 'sinks = [{ class = "JSONLinesSink", path = "out.jsonl" }]\n'
    (here / "csv.toml").write_text(sinks + CSV + f"[run]\n{every}\n")
    folder = here / "runs" / "csv"
    look = EventLoop._look

    def look_and_remove(self, n, now):
        if n >= 300 and folder.exists() and (folder / "log.jsonl").exists():
            shutil.rmtree(folder)
            if how == "made anew":
                folder.mkdir()
        next_n = look(self, n, now)
        if not folder.exists() or how == "made anew":
            assert n < 500
        return next_n

    monkeypatch.setattr(EventLoop, "_look", look_and_remove)
    assert main(["run", "csv.toml", "--quiet"]) == 1
    err = capsys.readouterr().err
    assert "runs/csv: the run folder was removed" in err or "out.jsonl: the file was removed" in err
    assert not (folder / "checkpoint").exists()
    assert folder.exists() == (how == "made anew")


@pytest.mark.parametrize("limit", ["0", "-3", "many"])
def test_a_limit_is_a_positive_number(limit, capsys):
    with pytest.raises(SystemExit) as end:
        main(["run", "small.toml", f"--limit={limit}"])
    assert end.value.code == 2
    assert f"argument --limit: expected a positive number, found '{limit}'" in capsys.readouterr().err


def test_definition_errors_are_usage_errors(here, capsys):
    (here / "bad.toml").write_text('source = "Phishing"\nmodle = "x"\n')
    assert main(["run", "bad.toml"]) == 2
    assert capsys.readouterr().err == (
        "fwonline: the definition has 2 mistakes\n"
        "bad.toml:1: the key 'model' is missing: it says what learns\n"
        "bad.toml:2: modle: unknown key. Did you mean 'model'? "
        "Expected one of: name, source, model, monitors, sinks, run, group, metrics\n"
    )
    assert not (here / "runs").exists()
    assert main(["run", "absent.toml"]) == 2
    assert capsys.readouterr().err == "fwonline: absent.toml: no such file\n"


CSV = """
source = { class = "CSVSource", path = "in.csv", target = "y" }
model = { class = "FWRegressor", constraint = { class = "L1Ball", radius = 5.0 } }
"""


def test_a_source_that_fails_is_one_clean_line(here, capsys):
    (here / "csv.toml").write_text(CSV)
    assert main(["run", "csv.toml", "--quiet"]) == 1
    assert capsys.readouterr().err == "fwonline: in.csv: cannot be read: No such file or directory\n"
    assert summary_of(here / "runs" / "csv")["state"] == "failed"
    (here / "in.csv").write_text("a,y\n1,2\n2,4\n")
    assert main(["run", "csv.toml", "--quiet"]) == 0  # nothing was lost: it goes on
    assert summary_of(here / "runs" / "csv")["n_learned"] == 2


def test_a_bad_sample_says_where_it_is_and_what_can_be_done(here, capsys):
    (here / "csv.toml").write_text(CSV)
    (here / "in.csv").write_text("a,y\n1,2\n2\nnan,3\n3,6\n")
    assert main(["run", "csv.toml", "--quiet"]) == 1
    assert capsys.readouterr().err == (
        "fwonline: in.csv:3: expected 2 fields (a, y), found 1\n"
        '(on_error = "skip" under [run] passes over such samples, dead_letter = "FILE" keeps them)\n'
    )


def test_a_run_that_a_bad_sample_ended_goes_on_behind_it_when_told_to_skip(here, capsys):
    (here / "csv.toml").write_text(CSV)
    (here / "in.csv").write_text("a,y\n1,2\nnan,3\n3,6\n")
    assert main(["run", "csv.toml", "--quiet"]) == 1
    assert main(["run", "csv.toml", "--quiet", "--resume"]) == 1  # it is still bad
    assert capsys.readouterr().err.count("in.csv:3: feature 'a' is nan") == 2
    (here / "csv.toml").write_text(CSV + 'run = { on_error = "skip" }\n')
    assert main(["run", "csv.toml", "--quiet", "--resume"]) == 0
    assert summary_of(here / "runs" / "csv")["n_learned"] == 2
    assert summary_of(here / "runs" / "csv")["n_rejected"] == {"features": 1}


def test_bad_samples_are_counted_and_kept_whole(here, capsys):
    (here / "csv.toml").write_text(CSV + 'run = { dead_letter = "rejected.jsonl" }\n')
    (here / "in.csv").write_text("a,y\n1,2\n2\nnan,3\n3,6\n")
    assert main(["run", "csv.toml"]) == 0
    out = capsys.readouterr().out
    assert "rejected 2" in out
    assert re.search(r"^rejected: 1 malformed, 1 features$", out, re.MULTILINE)
    kept = [json.loads(line) for line in (here / "runs" / "csv" / "rejected.jsonl").read_text().splitlines()]
    assert [row["origin"] for row in kept] == ["in.csv:3", "in.csv:4"]
    assert kept[0]["raw"] == "2\n"
    assert summary_of(here / "runs" / "csv")["n_learned"] == 2


@pytest.mark.parametrize("quiet", [[], ["--quiet"]])
def test_a_damaged_checkpoint_is_told_in_a_line_and_the_one_before_it_taken(here, capsys, quiet):
    main(["run", "small.toml", "--quiet", "--limit", "437"])
    main(["run", "small.toml", "--quiet", "--resume", "--limit", "600"])
    checkpoint = here / "runs" / "small" / "checkpoint"
    checkpoint.write_bytes(checkpoint.read_bytes()[:-1])
    assert main(["run", "small.toml", "--resume", *quiet]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: runs/small/checkpoint: damaged: expected ")
    assert line.endswith("; going on from the one before it")
    assert summary_of(here / "runs" / "small")["n"] == 1250
    assert len((here / "runs" / "small" / "predictions.jsonl").read_text().splitlines()) == 1250


def test_an_error_nobody_foresaw_is_one_line_unless_asked_for_more(here, capsys, monkeypatch):
    def update(self, *values, **more):
        raise TypeError("a number is missing")

    monkeypatch.setattr(Gap, "update", update)
    assert main(["run", "small.toml", "--quiet"]) == 1
    assert capsys.readouterr().err == "fwonline: TypeError: a number is missing; --traceback shows where\n"
    with pytest.raises(TypeError, match="a number is missing"):
        main(["run", "small.toml", "--quiet", "--fresh", "--traceback"])


def test_a_monitor_that_finds_nothing_in_the_model_is_told_with_its_line(here, capsys):
    (here / "odd.toml").write_text('source = "Phishing"\nmodel = "LogisticRegression"\nmonitors = ["Gap"]\n')
    assert main(["run", "odd.toml", "--quiet"]) == 2
    assert capsys.readouterr().err == (
        "fwonline: odd.toml:3: monitors[0]: Gap needs a model with the attribute 'gap'; LogisticRegression has none\n"
    )


def test_secrets_of_the_environment_are_filled_in_and_never_written(here, capsys, monkeypatch):
    pytest.importorskip("kafka")
    monkeypatch.setenv("PASSWORD", "hunter2")
    (here / "kafka.toml").write_text(
        """
        model = { class = "FWClassifier", constraint = { class = "L1Ball", radius = 5.0 } }
        [source]
        class = "KafkaSource"
        topics = "t"
        bootstrap_servers = "${BROKER:-localhost:1}"
        timeout = 0.2
        client = { security_protocol = "SASL_PLAINTEXT", sasl_mechanism = "PLAIN", sasl_plain_username = "me", sasl_plain_password = "${PASSWORD}" }
        """  # noqa: E501
    )
    from fwonline.definition import load_definition

    definition = load_definition("kafka.toml")
    assert definition.build().source.bootstrap_servers == ["localhost:1"]
    assert main(["run", "kafka.toml"]) == 1
    said = "".join(capsys.readouterr())
    assert "no answer from localhost:1" in said
    written = b"".join(path.read_bytes() for path in (here / "runs" / "kafka").iterdir())
    assert b"hunter2" not in written + said.encode() + repr(definition).encode()
    monkeypatch.delenv("PASSWORD")
    assert main(["run", "kafka.toml", "--fresh"]) == 2
    assert capsys.readouterr().err == (
        "fwonline: kafka.toml:8: source.client.sasl_plain_password: the environment variable 'PASSWORD' is not set\n"
    )
    monkeypatch.setenv("PASSWORD", "hunter2")
    (here / "kafka.toml").write_text((here / "kafka.toml").read_text().replace('"t"', '"t"\nstart = "${PASSWORD}"'))
    assert main(["run", "kafka.toml", "--fresh"]) == 2
    err = capsys.readouterr().err
    assert "source.start: '${PASSWORD}': the environment is filled in only under `client`, in `boot" in err
    assert "hunter2" not in err


def test_what_the_environment_holds_is_not_in_the_summary_of_a_run_that_failed(here, monkeypatch, capsys):
    pytest.importorskip("kafka")
    monkeypatch.setenv("KAFKA", "127.0.0.1:1")
    monkeypatch.setenv("ELSEWHERE", "127.0.0.1:2")
    (here / "kafka.toml").write_text(KAFKA.format(server="${KAFKA}"))
    assert main(["run", "kafka.toml"]) == 1
    assert "no answer from 127.0.0.1:1" in capsys.readouterr().err  # whoever started it is told
    assert summary_of(here / "runs" / "kafka")["error"].startswith("t: no answer from ${KAFKA} in 0.2 s")

    (here / "kafka.toml").write_text(KAFKA.format(server="${ELSEWHERE}"))
    assert main(["run", "kafka.toml", "--fresh"]) == 2
    assert capsys.readouterr().err == (
        "fwonline: kafka.toml:5: source.bootstrap_servers: the environment variable 'ELSEWHERE' is read only when "
        "whoever runs the definition says so: --allow-env ELSEWHERE on the command line (allow_env in Python)\n"
    )
    assert main(["run", "kafka.toml", "--fresh", "--allow-env", "ELSEWHERE"]) == 1
    assert "127.0.0.1:2" in capsys.readouterr().err
    kept = b"".join(path.read_bytes() for path in (here / "runs" / "kafka").iterdir())
    assert b"127.0.0.1:2" not in kept


KAFKA = """
model = {{ class = "FWClassifier", constraint = {{ class = "L1Ball", radius = 5.0 }} }}
[source]
class = "KafkaSource"
bootstrap_servers = "{server}"
topics = "t"
timeout = 0.2
"""


@pytest.mark.parametrize("part", ["sinks", "dead_letter"])
def test_a_definition_writes_where_the_command_line_lets_it(here, capsys, part):
    elsewhere = here / "elsewhere"
    elsewhere.mkdir()
    out = str(elsewhere / "out.jsonl")
    text = SMALL.replace("predictions.jsonl", out)
    if part == "dead_letter":
        text = SMALL.replace("run = { ", f'run = {{ dead_letter = "{out}", ')
    assert main(["run", "small.toml", "--quiet", "--limit", "50"]) == 0
    (here / "small.toml").write_text(text)
    before = {path.name: path.read_bytes() for path in (here / "runs" / "small").iterdir()}
    assert main(["run", "small.toml", "--fresh", "--limit", "50"]) == 2
    err = capsys.readouterr().err
    assert f"{out!r} is outside the run's folder {str(here / 'runs' / 'small')!r}" in err
    assert "--allow-write DIR on the command line" in err
    assert not list(elsewhere.iterdir())
    # The run that was there is as it was.
    assert {path.name: path.read_bytes() for path in (here / "runs" / "small").iterdir()} == before
    assert main(["run", "small.toml", "--fresh", "--limit", "50", "--allow-write", str(elsewhere)]) == 0
    assert list(elsewhere.iterdir()) == [elsewhere / "out.jsonl"]


@pytest.mark.parametrize("name", ["definition.toml", "log.jsonl", "summary.json"])
def test_a_file_of_the_run_that_is_a_link_is_not_written_through(here, capsys, name):
    assert main(["run", "small.toml", "--quiet", "--limit", "50"]) == 0
    folder = here / "runs" / "small"
    mine = here / "mine"
    mine.write_bytes((folder / name).read_bytes())
    (folder / name).unlink()
    (folder / name).symlink_to(mine)
    before = mine.read_bytes()
    for how in ("--resume", "--fresh"):
        assert main(["run", "small.toml", how, "--limit", "60"]) == 2
        assert f"{name}: expected a file of the run, found a link" in capsys.readouterr().err
    assert mine.read_bytes() == before


def test_version_and_list(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"fwonline {fwonline.__version__}\n"
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    assert "fwonline.linear_model\n  FWClassifier, FWRegressor, FWSoftmax\n" in out
    assert "\n  Drift, Feasibility, Gap, Metric, Regret, Support, Throughput\n" in out
