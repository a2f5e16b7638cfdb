"""A line of trials.jsonl is a whole record, and work grows with the number of trials and not with its square."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas
import pytest

import large_results
from counted_calls import count_calls
from tare.cli import commands
from tare.cli.afterwards.explain_command import explain_results
from tare.cli.afterwards.options import ExplainOptions
from tare.model import Completed, Plan
from tare.store.codec import encode
from tare.store.trial_lines import encode_line, read_key
from tare.store.writer import Store, read_only

PLAN = large_results.plan_of(environments=5, groups=2, rounds=4)
TRIALS = [trial for trial, _ in large_results.trials_of(PLAN)]
DOCS = (Path(__file__).parents[3] / "docs" / "report.md").read_text()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    large_results.write(tmp_path / "r", PLAN, samples=False)
    return tmp_path / "r"


# --- whole records ------------------------------------------------------------------------------------------------


def test_a_line_is_the_whole_record_of_its_trial(folder: Path) -> None:
    records = [json.loads(line) for line in (folder / "trials.jsonl").read_bytes().splitlines()]
    assert records == [encode(trial) for trial in TRIALS]
    assert read_only(folder).trials == TRIALS
    assert sorted(path.name for path in folder.iterdir()) == ["lock", "plan.json", "samples", "trials.jsonl"]


@pytest.mark.skipif(not shutil.which("jq"), reason="no jq: apt-get install jq")
def test_jq_reads_the_values_as_the_documentation_says(folder: Path) -> None:
    (line,) = re.findall(r"^jq .*$", DOCS, re.MULTILINE)
    command = line.replace("results/quickstart", str(folder))
    printed = subprocess.run(("sh", "-c", command), check=True, capture_output=True, text=True).stdout
    assert [(cell, key, float(value)) for cell, key, value in (row.split("\t") for row in printed.splitlines())] == [
        (trial.key.cell, metric.key, metric.value)
        for trial in TRIALS
        if isinstance(trial.outcome, Completed)
        for metric in trial.outcome.metrics
    ]


def test_pandas_reads_the_records_as_the_documentation_says(folder: Path) -> None:
    (lines,) = re.findall(r"^lines = Path.*\ntrials = pandas.*$", DOCS, re.MULTILINE)
    names: dict[str, Any] = {"json": json, "pandas": pandas, "Path": Path}
    exec(lines.replace("results/quickstart", str(folder)), names)
    table = names["trials"]
    assert list(table["key.cell"]) == [trial.key.cell for trial in TRIALS]
    assert list(table["elapsed_s"]) == [trial.elapsed_s for trial in TRIALS]


def test_a_folder_of_the_first_format_goes_on_in_the_second_and_its_lines_stay(tmp_path: Path) -> None:
    first, *rest = TRIALS
    again = [replace(trial, key=replace(trial.key, attempt=1)) for trial in rest[:4]]
    Store.create_or_open(tmp_path / "r", PLAN).close()
    old = encode_line(first)
    (tmp_path / "r" / "trials.jsonl").write_bytes(old)
    header = json.loads((tmp_path / "r" / "plan.json").read_text())
    (tmp_path / "r" / "plan.json").write_text(json.dumps(header | {"format": 1}))
    with Store.create_or_open(tmp_path / "r", PLAN) as store:
        for trial in again:
            store.append(trial)
    assert json.loads((tmp_path / "r" / "plan.json").read_text())["format"] == 2
    assert (tmp_path / "r" / "trials.jsonl").read_bytes().startswith(old)
    trials = read_only(tmp_path / "r").trials
    assert (trials[0], trials[-4:]) == (first, again)


# --- no work grows faster than the results ------------------------------------------------------------------------


def calls_for(path: Path, plan: Plan) -> dict[str, int]:
    large_results.write(path, plan, samples=False)

    def resume() -> None:
        with Store.create_or_open(path, plan) as store:
            assert not list(store.ledger.remaining(plan))

    return {
        "append": count_calls(lambda: large_results.write(path.with_name(f"{path.name}-again"), plan, samples=False)),
        "resume": count_calls(resume),
        "explain": count_calls(lambda: explain_results(ExplainOptions(results=path))),
        "report": count_calls(lambda: commands.show_report(path, path / "report.html")),
    }


@pytest.mark.parametrize(("few", "many"), [((1, 12), (1, 24)), ((2, 6), (4, 6))], ids=["rounds", "groups"])
def test_twice_the_trials_take_twice_the_calls(
    few: tuple[int, int], many: tuple[int, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plans = [large_results.plan_of(environments=3, groups=groups, rounds=rounds) for groups, rounds in (few, many)]
    large_results.write(tmp_path / "first", plans[1], samples=False)
    commands.show_report(tmp_path / "first", tmp_path / "first.html")  # imports and caches
    explain_results(ExplainOptions(results=tmp_path / "first"))
    calls = [calls_for(tmp_path / str(number), plan) for number, plan in enumerate(plans)]
    for what in calls[0]:
        assert calls[1][what] < 2.2 * calls[0][what], (what, calls)
    assert f"{2 * len(plans[0].cells) * few[1]:,} launches" in capsys.readouterr().out


def test_a_resumed_run_decodes_no_trial(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("tare.store.trial_lines.TrialLines.decode", lambda _self, _line: pytest.fail("decoded"))
        with Store.create_or_open(folder, PLAN) as store:
            assert store.ledger.launches == store.count == len(TRIALS)
            assert store.ledger.keys == {trial.key for trial in TRIALS}
            store.append(replace(TRIALS[0], key=replace(TRIALS[0].key, repeat=1)))
    assert len(read_only(folder).trials) == len(TRIALS) + 1


LINE = next(encode_line(trial) for trial in TRIALS if isinstance(trial.outcome, Completed))


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b'"round":0', b'"round": 0', ""),
        (b'"round":0', b'"round":00', "delimiter"),
        (b'"round":0', b'"round":' + b"1" * 20, "more than 64 bits"),
        (b'"round":0', b'"round":0.0', "instead of int"),
        (b'"round":0', b'"round":true', "instead of int"),
        (b'"Completed"', b'"Undone"', "is not an outcome"),
        (b'"Completed"', b'"Completed","type":"Failed"', ""),
        (b'"samples_file":""', b'"samples_file":"samples/\\u0061"', ""),
        (b'"samples_file":""', b'"samples_file":"samples/\xff"', "can't decode"),
        (b'"samples_file":""', b'"samples_file":null', "instead of str"),
        (b'"counters":{', b'"counters":{"a":NaN,', "not a JSON number"),
        (b'"counters":{', b'"counters":' + b"[" * 5000, "nested too deeply"),
    ],
)
def test_of_a_line_a_resumed_run_reads_the_key_the_outcome_and_the_samples(old: bytes, new: bytes, why: str) -> None:
    line = LINE.replace(old, new, 1)
    assert line != LINE
    if why:
        with pytest.raises(ValueError, match=why):
            read_key(line)
        return
    data = json.loads(line)
    key, outcome, file = read_key(line)
    assert (encode(key), outcome, file) == (data["key"], data["outcome"]["type"], data["samples_file"])
