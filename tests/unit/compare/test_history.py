"""Cells are followed over many results; a change of level is found. The page says what comparing does."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

import factory_across as folders
from factory_across import GROUP
from tare.cli.app import app
from tare.compare import history as module
from tare.compare.history import CellHistory, History, find_results, history
from tare.compare.history_data import history_data
from tare.compare.history_terminal import HistoryReport, sparkline
from tare.compare.kinds import KINDS, in_words
from tare.errors import ResultsError, TareError, UsageError
from tare.model.text import printable

DAY_S = 86_400
LATENCY = f"{GROUP} / bare / latency"


def nights(folder: Path, machines: list[float], **changes: object) -> Path:
    """Write one result a night in folders whose names are not in order of time."""
    for number, machine in enumerate(machines):
        path = folder / f"{len(machines) - number:02}" / "results"
        facts = folders.changed("identity", "kernel", value="6.2.0") if machine > 1.1 else folders.FACTS
        folders.write(
            path,
            machine=machine,
            began=1.79e9 + number * DAY_S,
            seed=number,
            rounds=6,
            facts=facts,
            **changes,  # type: ignore[arg-type]
        )
    return folder


@pytest.fixture(scope="module")
def slower(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return nights(tmp_path_factory.mktemp("slower"), [1.0, 1.01, 0.99, 1.0, 1.005, 0.995, 1.3, 1.31, 1.29])


@pytest.fixture(scope="module")
def steady(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return nights(tmp_path_factory.mktemp("steady"), [1.0, 1.01, 0.99, 1.0, 1.005, 0.995])


def only(found: History) -> CellHistory:
    (series,) = found.series
    return series


def test_a_change_is_found_where_it_is_and_the_overhead_did_not_change_with_the_machine(slower: Path) -> None:
    found = history(slower, [LATENCY])
    assert [reading.path.parent.name for reading in found.readings][:3] == ["09", "08", "07"]
    (step,) = only(found).steps
    assert step.at == 6
    assert step.ratio.low < 0.3 < step.ratio.high
    assert {each.kind for each in step.differences} == {"kernel"}
    assert [(first, end) for first, end, _ in only(found).levels] == [(0, 6), (6, 9)]
    series = only(history(slower, [f"{GROUP} / docker / latency"], overhead=True))
    assert series.steps == ()
    assert series.text(series.points[-1].log.value).endswith("%")


def test_a_steady_series_has_no_change(steady: Path) -> None:
    found = history(steady)
    assert len(found.series) == 4
    assert all(series.steps == () for series in found.series)


def test_a_steady_series_a_change_within_the_margin_and_a_repaired_one_do_not_count(tmp_path: Path) -> None:
    machines = [1.0, 1.0, 1.0, 1.0, 1.0, 1.015, 1.015, 1.015, 1.015, 1.015]
    assert only(history(nights(tmp_path / "margin", machines, spread=0.0005), [LATENCY])).steps == ()
    machines = [1.0, 1.01, 0.99, 1.0, 1.3, 1.31, 1.29, 1.3, 1.0, 1.01, 0.99]
    series = only(history(nights(tmp_path / "repaired", machines), [LATENCY]))
    assert [step.at for step in series.steps] == [4, 8]
    assert series.slower_within(10) is None


@pytest.mark.parametrize(("last", "found"), [(2, False), (3, True), (9, True)])
def test_a_change_to_slower_counts_for_the_last_results_only(slower: Path, last: int, found: bool) -> None:
    assert bool(only(history(slower, [LATENCY])).slower_within(last)) is found


def test_the_newest_results_are_used(slower: Path) -> None:
    found = history(slower, [LATENCY], last=4)
    assert len(only(found).points) == 4
    assert found.left_out == ("5 older results: only the newest 4 are used",)


def test_an_unknown_cell_or_too_many_series_are_refused(steady: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError) as refused:
        history(steady, ["podman"])
    assert "--cell podman" in str(refused.value)
    assert f"{GROUP} / docker / latency:8 (latency 8 B)" in str(refused.value)
    monkeypatch.setattr(module, "MOST_SERIES", 3)
    with pytest.raises(UsageError, match="4 series"):
        history(steady)


def test_damaged_folders_are_left_out_and_refused_if_there_are_no_others(tmp_path: Path) -> None:
    nights(tmp_path, [1.0, 1.0, 1.0])
    (tmp_path / "01" / "results" / "plan.json").write_text("{")
    found = history(tmp_path)
    assert len(found.readings) == 2
    assert "plan.json is damaged" in found.left_out[0]
    (tmp_path / "only").mkdir()
    (tmp_path / "only" / "plan.json").write_text("{")
    with pytest.raises(ResultsError, match="no results folder can be read"):
        history(tmp_path / "only")


def test_folders_are_found_down_to_a_depth_without_following_links(tmp_path: Path) -> None:
    near, far = tmp_path / "a" / "b", tmp_path.joinpath(*"abcdefgh")
    for folder in (near, far, tmp_path / "elsewhere"):
        folder.mkdir(parents=True)
        (folder / "plan.json").touch()
    top = tmp_path / "top"
    top.mkdir()
    (top / "loop").symlink_to(tmp_path)
    with pytest.raises(ResultsError, match="has no results folder"):
        find_results(top)
    assert find_results(tmp_path) == [near, tmp_path / "elsewhere"]
    assert far not in find_results(tmp_path)


def test_folders_that_are_missing_or_too_many_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ResultsError, match="not found"):
        find_results(tmp_path / "no")
    monkeypatch.setattr(module, "MOST_FOLDERS", 2)
    for number in range(3):
        os.mkdir(tmp_path / str(number))
        (tmp_path / str(number) / "plan.json").touch()
    with pytest.raises(ResultsError, match="more than 2 results"):
        find_results(tmp_path)


def test_a_history_is_json_and_a_sparkline_that_shows_the_change(slower: Path, steady: Path) -> None:
    series = only(history(slower, [LATENCY]))
    line = sparkline(series)
    assert len(line) == 10
    assert line[6] == "|"
    assert max(line[:6]) < min(line[7:])
    assert sparkline(series, plain=True).isascii()
    assert "|" not in sparkline(history(steady).series[0])
    data = json.loads(json.dumps(history_data(history(slower)), allow_nan=False))
    assert [len(series["points"]) for series in data["series"]] == [9, 9, 9, 9]
    assert data["series"][0]["changes"][0]["differs_in"] == ["kernel"]
    assert [result["differs_in"] for result in data["results"]].count(["kernel"]) == 1


@pytest.mark.parametrize(
    ("machines", "lines"),
    [
        ([5.0], ["1 result below", r"50\.\d µs ▁ 50\.\d µs", "1 result: changes are looked for in 4 or more"]),
        ([5.0, 1.0], ["2 results below", r"50\.\d µs █▁ 10\.\d+ µs", "2 results: changes"]),
        ([5.0, 1.0, 2.0], [r"50\.\d µs █▁▄ 20\.\d µs", r"50\.\d µs, 10\.\d+ µs, 20\.\d µs"]),
        ([1, 2, 1, 2, 1, 5, 1], [r"10\.\d+ µs ▁▄▁▄▁█▁ 10\.\d+ µs", r"smallest 10\.\d+ µs, largest 50\.\d µs"]),
    ],
)
def test_a_history_shows_the_values_of_results_beside_their_bars(
    machines: list[float], lines: list[str], tmp_path: Path
) -> None:
    console = Console(file=io.StringIO(), width=80, color_system=None)
    console.print(HistoryReport(history=history(nights(tmp_path, machines, spread=0.001), ["latency"])))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert all(re.search(line, text) for line in lines), text


PAGE = Path(__file__).parents[3] / "docs" / "comparing.md"
BLOCK = re.compile(r"^```console\n\$ tare ([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = BLOCK.findall(PAGE.read_text())
STUDY = replace(folders.STUDY, name="nightly")


def make_results(top: Path) -> None:
    """Make the folders that the page is about."""
    after = folders.changed("identity", "kernel", value="6.12.0-2")
    after["versions"] = {**after["versions"], "dockerd": "26.1.5"}
    folders.write(top / "results" / "before", factors={"docker": 1.16}, study=STUDY, seed=3)
    folders.write(
        top / "results" / "after", factors={"docker": 1.31}, facts=after, study=STUDY, seed=4, began=1.79e9 + DAY_S
    )
    for night in range(10):
        new = night >= 7
        folders.write(
            top / "nightly" / f"2026-09-{21 + night}",
            factors={"docker": 1.31 if new else 1.16},
            facts=after if new else folders.FACTS,
            study=STUDY,
            seed=10 + night,
            began=1.79e9 + night * DAY_S,
            rounds=8,
        )


def output_of(command: str) -> str:
    """Return what a command prints, with its error or exit code, in eighty columns."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        result = CliRunner().invoke(app, shlex.split(command), standalone_mode=False)
    said = result.output + out.getvalue()
    if isinstance(result.exception, TareError):
        said += f"tare: {printable(str(result.exception), lines=True)}\n"
    elif result.exception is not None:
        raise result.exception
    elif result.return_value:
        said += f"(exit code {result.return_value})\n"
    return "".join(f"{line.rstrip()}\n" for line in said.rstrip().splitlines())


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("page")
    make_results(top)
    return top


@pytest.mark.parametrize(("command", "shown"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_the_page_shows_what_is_printed(
    command: str, shown: str, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(results)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    assert output_of(command) == shown


def test_the_page_has_commands_of_both_kinds() -> None:
    assert {command.split()[0] for command, _ in COMMANDS} == {"compare", "history"}


def test_the_table_of_kinds_is_that_of_the_code() -> None:
    rows = [(in_words(kind.moves), f"| `{name}` | {kind.facts} |") for name, kind in KINDS.items()]
    tables = re.findall(r"^\| could move ([^|]+) \| facts \|\n\|[-|]+\n((?:\| `.*\n)+)", PAGE.read_text(), re.MULTILINE)
    on_page = [(moves, row) for moves, table in tables for row in table.splitlines()]
    assert sorted(on_page) == sorted(rows)


def test_the_index_leads_to_the_page() -> None:
    assert "(comparing.md)" in (PAGE.parent / "index.md").read_text()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as top:
        make_results(Path(top))
        os.chdir(top)
        os.environ |= {"COLUMNS": "80", "NO_COLOR": "1"}
        text = BLOCK.sub(lambda match: f"```console\n$ tare {match[1]}\n{output_of(match[1])}```", PAGE.read_text())
    PAGE.write_text(text)
    sys.exit(0)
