"""A results folder of somebody else is read, or refused with the file and the line; it is never obeyed."""

from __future__ import annotations

import copy
import io
import json
import os
import shutil
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tare.cli import commands, session
from tare.errors import ResultsError
from tare.model import Completed, Invalid
from tare.store import damage
from tare.store.results import Results, read_only
from tare.store.writer import Store
from unit.store_blocks import run_block
from unit.stored import PLAN

GIVEN = Path(__file__).parents[2] / "data" / "results-0.1.0"
HEADER: dict[str, Any] = json.loads((GIVEN / "plan.json").read_bytes())
LINES = (GIVEN / "trials.jsonl").read_text().splitlines()
NESTED = "[" * 5000 + "]" * 5000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    there = tmp_path / "results"
    shutil.copytree(GIVEN, there)
    return there


def with_plan(folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    header = copy.deepcopy(HEADER)
    change(header)
    (folder / "plan.json").write_text(json.dumps(header))
    return folder


def with_trial(folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    trial = json.loads(LINES[2])
    change(trial)
    return write(folder, [*LINES[:2], json.dumps(trial), *LINES[3:]])


def write(folder: Path, lines: Iterable[str]) -> Path:
    (folder / "trials.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return folder


def setting(*path: str | int, value: Any) -> Callable[[Any], None]:
    def change(data: Any) -> None:
        for step in path[:-1]:
            data = data[step]
        data[path[-1]] = value

    return change


@pytest.mark.parametrize(
    "content",
    [
        "[]", '"plan"', "7", '{"format": [1]}', '{"format": "1"}', '{"format": true}', '{"format": NaN}', NESTED,
        f'{{"format": 1, "a": {NESTED}}}', '{"format": 1' + "0" * 400 + "}", '{"format": 1' + "0" * 5000 + "}",
        '{"format": 1, "plan": []}', "\udcff", '{"format": 1, "facts": []}', '{"format": 1, "revisions": 5}',
    ],
)  # fmt: skip
def test_a_plan_of_another_shape_is_damaged_and_named(folder: Path, content: str) -> None:
    (folder / "plan.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(ResultsError, match=r"plan\.json is damaged|was written in format"):
        read_only(folder)


@pytest.mark.parametrize(
    "change",
    [
        setting("plan", "study", "margin", value=10**400),
        setting("plan", "study", "margin", value=float("nan")),
        setting("plan", "study", "margin", value="nan"),
        setting("plan", "study", "margin", value=1e308),
        setting("plan", "study", "margin", value=0),
        setting("plan", "study", "repetition", "rounds", value=10**18),
        setting("plan", "study", "repetition", "confidence", value=1),
        setting("plan", "study", "baseline", value="other"),
        setting("plan", "study", "environments", value={}),
        setting("plan", "cells", 0, "role", value=["baseline"]),
        setting("plan", "cells", 0, "role", value={"a": 1}),
        setting("plan", "cells", 0, "role", value="environment"),
        setting("plan", "cells", 1, "key", value="network / 2n x 1r / bare"),
        setting("plan", "cells", 0, "environment", "name", value="x" * 1000),
        setting("plan", "cells", 0, "type", value=[]),
        setting("plan", "unavailable", value={"none": "such"}),
        setting("plan", "unavailable", value={"network / 2n x 1r / bare": 5}),
        setting("facts", value=[1]),
        setting("revisions", value=[1]),
    ],
)
def test_a_value_that_no_plan_has_is_damage(folder: Path, change: Callable[[Any], None]) -> None:
    with pytest.raises(ResultsError, match=r"plan\.json is damaged: \S"):
        read_only(with_plan(folder, change))


# --- trials.jsonl -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        setting("key", "round", value=10**400),
        setting("key", "round", value=-1),
        setting("key", "round", value=1e308),
        setting("key", value=[[]]),
        setting("elapsed_s", value=10**400),
        setting("elapsed_s", value="nan"),
        setting("started_unix_s", value=1e300),
        setting("outcome", value={"type": ["Completed"]}),
        setting("outcome", "metrics", 0, "kind", value={}),
        setting("outcome", "metrics", 0, "value", value=float("inf")),
        setting("noise", value={"repeated": "nan"}),
        setting("noise", value={"repeated": 1e200}),
        setting("counters", value={"a": 10**40}),
        setting("node_counters", value={"n0": {"a": 10**40}}),
        setting("node_counters", value={"n0": 1}),
        setting("node_counters", value={"n0": {"a": {"b": 1}}}),
        setting("ranks", 0, "rank", value=2**63),
        setting("traffic", 0, "rx_bytes", value=-5),
        setting("samples_file", value="samples/../../../etc/passwd"),
        setting("samples_file", value="a\nb"),
        setting("facts", value={"a": {"b": "c"}}),
    ],
)
def test_a_value_that_no_trial_has_is_refused_with_its_line(folder: Path, change: Callable[[Any], None]) -> None:
    with pytest.raises(ResultsError, match=r"trials\.jsonl:3: this line is not a trial \("):
        read_only(with_trial(folder, change))


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", 0, -1, 1e90, 1e-90])
def test_a_figure_that_none_can_be_makes_its_trial_invalid_and_the_report_is_made(
    folder: Path, value: object, capsys: pytest.CaptureFixture[str]
) -> None:
    results = read_only(with_trial(folder, setting("outcome", "metrics", 0, "value", value=value)))
    assert isinstance(results.trials[2].outcome, Invalid)
    assert "latency 8 B is" in results.trials[2].outcome.reason
    assert sum(isinstance(trial.outcome, Completed) for trial in results.trials) == 26
    commands.show_report(folder, folder / "report.html")
    assert "1 invalid" in capsys.readouterr().out


@pytest.mark.parametrize(
    "noise",
    [
        {"cores": 2.0, "job_s": 1e-9, "background_s": 1e30, "steal_s": -1e30},
        {"cores": 1e-300, "job_s": 1e30, "background_s": 5.0, "steal_s": 1e29},
        {"throttled_s": 1e30, "core_counting_s": 1e-300, "core_hand_over_s": -1e30},
    ],
)
@pytest.mark.parametrize("elapsed_s", [5e-324, 1e-12, 1e10])
def test_a_launch_of_no_time_or_an_impossible_state_is_reported(
    folder: Path, noise: dict[str, float], elapsed_s: float, capsys: pytest.CaptureFixture[str]
) -> None:
    trials = [json.loads(line) for line in LINES]
    for number, trial in enumerate(trials):
        if number % 3:
            trial.update(noise=noise, elapsed_s=elapsed_s)
    write(folder, map(json.dumps, trials))
    commands.show_report(folder, folder / "report.html")
    assert capsys.readouterr().out.endswith("report.html\n")


# --- samples ------------------------------------------------------------------------------------------------------


def npz(**members: bytes | np.ndarray[Any, Any]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            array = io.BytesIO()
            if not isinstance(content, bytes):
                np.lib.format.write_array(array, content)
            archive.writestr(f"{name}.npy", content if isinstance(content, bytes) else array.getvalue())
    return file.getvalue()


def header(text: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def compressed() -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, a=np.zeros(1 << 20))
    return file.getvalue()


def patched(offset_of: bytes, at: int, value: bytes) -> bytes:
    """Return an archive with a field of its headers changed, behind this signature."""
    data = bytearray(npz(a=np.zeros(3)))
    for position in range(len(data)):
        if data[position : position + 4] == offset_of:
            data[position + at : position + at + len(value)] = value
    return bytes(data)


OBJECTS = header("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n") + b"cos\nsystem\n"
HUGE = header("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }\n")
LOCAL, CENTRAL = b"PK\x03\x04", b"PK\x01\x02"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not a zip",
        npz(a=np.zeros((2, 2))),
        npz(a=np.zeros(())),
        npz(a=np.array(["x"])),
        npz(a=np.array([1j])),
        npz(a=b"not an array"),
        npz(a=OBJECTS),
        npz(a=HUGE),
        npz(a=header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }\n")),
        npz(a=header("[" * 3000)),
        npz(**{"../../a": np.zeros(2)}),
        npz(**{"a\x1b[2J": np.zeros(2)}),
        compressed(),
        patched(CENTRAL, 10, b"\x63\x00"),
        patched(CENTRAL, 8, b"\x01\x00"),
        patched(CENTRAL, 24, b"\xff\xff\xff\x7f"),
        patched(LOCAL, 0, b"XXXX"),
    ],
    ids=range(18),
)
def test_samples_of_another_kind_are_damage(folder: Path, data: bytes) -> None:
    results = read_only(folder)
    trial = results.trials[0]
    (folder / trial.samples_file).write_bytes(data)
    with pytest.raises(ResultsError, match=r"r0000-b00-a00-c0002\.npz is damaged: \S") as caught:
        results.columns(trial)
    assert "\x1b" not in str(caught.value)


def test_more_of_a_file_than_is_read_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = read_only(folder)
    monkeypatch.setattr("tare.store.results.MOST_BYTES", 1000)
    for read in (lambda: read_only(folder), lambda: results.columns(results.trials[0])):
        with pytest.raises(ResultsError, match="at most 1000 B are read"):
            read()


@pytest.mark.parametrize("name", ["plan.json", "trials.jsonl"])
def test_a_device_or_a_pipe_in_place_of_a_file_is_refused_at_once(folder: Path, name: str) -> None:
    (folder / name).unlink()
    (folder / name).symlink_to("/dev/zero")
    with pytest.raises(ResultsError, match="it is not a regular file"):
        read_only(folder)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(ResultsError, match="it is not a regular file"):
        read_only(folder)


# --- texts --------------------------------------------------------------------------------------------------------


def hostile(folder: Path) -> Results:
    steering = "\x1b]0;owned\x07\u202e[bold red][link=http://x]\ud800"

    def rename(header: dict[str, Any]) -> None:
        text = json.dumps(header).replace("bare+bridge", json.dumps(steering)[1:-1])
        header.clear()
        header.update(json.loads(text))
        header["facts"]["cpu"] = f"cpu {steering}"

    with_plan(folder, rename)
    lines = "".join(f"{line}\n" for line in LINES).replace("bare+bridge", json.dumps(steering)[1:-1])
    (folder / "trials.jsonl").write_text(lines.replace("unknown kernel", json.dumps(f"unknown {steering}")[1:-1]))
    return read_only(folder)


def test_what_steers_a_terminal_is_shown_and_not_obeyed(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    hostile(folder)
    commands.show_report(folder, folder / "report.html")
    said = capsys.readouterr().out
    assert not {"\x1b", "\x07", "\u202e", "\ud800"} & set(said)
    joined = "".join(said.split())
    assert r"\x1b]0;owned\x07" in joined
    assert "[boldred]" in joined
    (folder / "report.html").read_text(encoding="utf-8")


def test_a_program_s_last_lines_keep_their_lines(folder: Path) -> None:
    failed = {"type": "Failed", "reason": "a\nb", "stderr_tail": "a\nb\x1b"}
    results = read_only(with_trial(folder, setting("outcome", value=failed)))
    outcome = results.trials[2].outcome
    assert (outcome.reason, outcome.stderr_tail) == (r"a\nb", "a\nb\\x1b")  # type: ignore[union-attr]
    assert session.summary_of(results)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("nonsense", "this line is not a trial"),
        ('{"type":"Trial"}', "this line is not a trial (Trial lacks key)"),
        ("[" * 40 + "]" * 40, "this line is not a trial"),
        (NESTED, "this line is not a trial"),
        (LINES[0], "this trial occurs twice: "),
        (LINES[0].replace("network / 2n", "other / 2n"), "the plan has no cell 'other / 2n"),
        ("", "this line is not a trial"),
    ],
)
def test_a_damaged_line_is_named_with_its_number_and_the_others_are_used(folder: Path, bad: str, why: str) -> None:
    write(folder, [*LINES[:4], bad, *LINES[4:]])
    with pytest.raises(ResultsError, match=r"trials\.jsonl:5: "):
        read_only(folder)
    results = read_only(folder, skip_damaged=True)
    assert [trial.key for trial in results.trials] == [trial.key for trial in read_only(GIVEN).trials]
    ((file, line, reason),) = [(item.file, item.line, item.reason) for item in results.damaged]
    assert (file, line) == ("trials.jsonl", 5)
    assert reason.startswith(why)


def test_the_report_warns_of_damaged_lines_and_is_made_of_the_rest(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = read_only(folder, skip_damaged=True)
    assert (results.damaged, results.caveats) == ((), ())
    write(folder, [line[:-9] if number in (2, 7) else line for number, line in enumerate(LINES, start=1)])
    page = folder / "page.html"
    commands.show_report(folder, page)
    printed = " ".join(capsys.readouterr().out.split())
    assert "2 damaged lines were left out" in printed
    assert "trials.jsonl:2: this line is not a trial" in printed
    assert "trials.jsonl:7: this line is not a trial" in printed
    assert "trials.jsonl:7" in page.read_text()
    summary = session.summary_of(read_only(folder, skip_damaged=True))
    assert summary.counts["trials"] == len(LINES) - 2
    assert summary.warnings[0].startswith("2 damaged lines")


def test_of_many_damaged_lines_the_first_are_named_and_the_others_counted(folder: Path) -> None:
    write(folder, [*LINES[:10], *["{"] * 8, *LINES[10:]])
    (text,) = read_only(folder, skip_damaged=True).caveats
    assert "8 damaged lines were left out" in text
    assert "trials.jsonl:13:" in text
    assert "trials.jsonl:14:" not in text
    assert text.endswith("; and 5 more.")


def test_too_many_damaged_lines_or_none_that_can_be_used_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tare.store.results.MOST_DAMAGED", 5)
    write(folder, [*LINES, *["{"] * 6, LINES[0]])
    with pytest.raises(ResultsError, match=r"has more than 1,000 damaged lines, as trials\.jsonl:31: this line is not"):
        read_only(folder, skip_damaged=True)
    write(folder, ["{"] * 3 + ["{}"])
    with pytest.raises(ResultsError, match=r"no line of .*trials\.jsonl can be used: trials\.jsonl:1: "):
        read_only(folder, skip_damaged=True)


def test_a_reason_has_no_control_characters_and_a_bounded_length(folder: Path) -> None:
    strange = LINES[0].replace("network / 2n x 1r / ", "\\u001b]0;" + "x" * 5000)
    write(folder, [*LINES[1:], strange, LINES[0]])
    ((reason,)) = [item.reason for item in read_only(folder, skip_damaged=True).damaged]
    assert reason.isprintable()
    assert len(reason) <= damage.LONGEST_REASON


def test_a_run_never_resumes_a_damaged_folder(tmp_path: Path) -> None:
    with Store.create_or_open(tmp_path, PLAN) as store:
        run_block(store, 0, 0, 0)
    with (tmp_path / "trials.jsonl").open("a") as file:
        file.write('{"a":1}\n')
    assert len(read_only(tmp_path, skip_damaged=True).damaged) == 1
    with pytest.raises(ResultsError, match=f":{len(PLAN.cells) + 1}: this line is not a trial"):
        Store.create_or_open(tmp_path, PLAN)
