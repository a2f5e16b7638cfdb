"""A report leaves damaged lines out and names them; a run refuses the folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tare.cli import commands, session
from tare.errors import ResultsError
from tare.store import damage
from tare.store.results import read_only
from tare.store.writer import Store
from unit.store_blocks import run_block
from unit.stored import PLAN

GIVEN = Path(__file__).parents[2] / "data" / "results-0.1.0"
LINES = (GIVEN / "trials.jsonl").read_text().splitlines()
COUNT = len(LINES)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    there = tmp_path / "results"
    shutil.copytree(GIVEN, there)
    return there


def write(folder: Path, lines: list[str]) -> Path:
    (folder / "trials.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return folder


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("nonsense", "this line is not a trial"),
        ('{"type":"Trial"}', "this line is not a trial (Trial lacks key)"),
        ("[" * 40 + "]" * 40, "this line is not a trial"),
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


def test_the_report_warns_of_them_and_is_made_of_the_rest(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, [line[:-9] if number in (2, 7) else line for number, line in enumerate(LINES, start=1)])
    page = folder / "page.html"
    commands.show_report(folder, page)
    printed = " ".join(capsys.readouterr().out.split())
    assert "2 damaged lines were left out" in printed
    assert "trials.jsonl:2: this line is not a trial" in printed
    assert "trials.jsonl:7: this line is not a trial" in printed
    assert "trials.jsonl:7" in page.read_text()
    summary = session.summary_of(read_only(folder, skip_damaged=True))
    assert summary.counts["trials"] == COUNT - 2
    assert summary.warnings[0].startswith("2 damaged lines")


def test_whole_results_have_no_such_warning(folder: Path) -> None:
    results = read_only(folder, skip_damaged=True)
    assert (results.damaged, results.caveats) == ((), ())


def test_of_many_damaged_lines_the_first_are_named_and_the_others_counted(folder: Path) -> None:
    write(folder, [*LINES[:10], *["{"] * 8, *LINES[10:]])
    (text,) = read_only(folder, skip_damaged=True).caveats
    assert "8 damaged lines were left out" in text
    assert "trials.jsonl:13:" in text
    assert "trials.jsonl:14:" not in text
    assert text.endswith("; and 5 more.")


def test_a_file_with_more_damaged_lines_than_that_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tare.store.results.MOST_DAMAGED", 5)
    write(folder, [*LINES, *["{"] * 6, LINES[0]])
    with pytest.raises(ResultsError, match="has more than 1,000 damaged lines"):
        read_only(folder, skip_damaged=True)


def test_a_file_without_a_line_that_can_be_used_is_refused_with_the_first_reason(folder: Path) -> None:
    write(folder, ["{"] * 3 + ["{}"])
    with pytest.raises(ResultsError, match=r"no line of .*trials\.jsonl can be used: trials\.jsonl:1: "):
        read_only(folder, skip_damaged=True)


def test_a_reason_has_no_control_characters_and_a_bounded_length(folder: Path) -> None:
    strange = LINES[0].replace("network / 2n x 1r / ", "\\u001b]0;" + "x" * 5000)
    write(folder, [*LINES[1:], strange, LINES[0]])
    ((reason,)) = [item.reason for item in read_only(folder, skip_damaged=True).damaged]
    assert reason.isprintable()
    assert len(reason) <= damage.LONGEST_REASON


def test_of_a_damaged_shared_part_the_trials_that_need_it_are_left_out(tmp_path: Path) -> None:
    with Store.create_or_open(tmp_path, PLAN) as store:
        run_block(store, 0, 0, 0)
    lines = (tmp_path / "trials.jsonl").read_bytes().splitlines()
    assert len(lines) == len(PLAN.cells)
    (tmp_path / "shared.jsonl").write_bytes(b'{"digest":"aaaaaaaaaaaaaaaa","value":1}\n' + b"x" * 20 + b"\n")
    results = read_only(tmp_path, skip_damaged=True)
    assert [(item.file, item.line) for item in results.damaged][:2] == [("shared.jsonl", 1)]


def test_a_run_never_resumes_a_damaged_folder(tmp_path: Path) -> None:
    with Store.create_or_open(tmp_path, PLAN) as store:
        run_block(store, 0, 0, 0)
    with (tmp_path / "trials.jsonl").open("a") as file:
        file.write('{"a":1}\n')
    assert len(read_only(tmp_path, skip_damaged=True).damaged) == 1
    with pytest.raises(ResultsError, match=f":{len(PLAN.cells) + 1}: this line is not a trial"):
        Store.create_or_open(tmp_path, PLAN)
