"""Every format passes the same tests: what is a point has n and interval, no cell is missing, nothing hostile acts."""

from __future__ import annotations

import csv
import io
import json
import math
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pyarrow.parquet
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import exports
from tare.cli.afterwards.export_command import export_results
from tare.errors import UsageError
from tare.model import Completed, Estimate, Failed
from tare.report import units
from tare.report.export import FORMATS, TextFormat
from tare.report.frames import Source

TEXTS = [name for name, each in FORMATS.items() if isinstance(each, TextFormat)]
HOSTILE = "=1+1|<script>alert(1)</script>]]>&\"'`@everyone![x](http://evil.example)\x1b[2J\u202e\ufffe\r\n# EOF"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    plan = exports.plan()
    return exports.write(tmp_path_factory.mktemp("results") / "r", plan, exports.trials(plan))


@pytest.fixture(scope="module")
def source(folder: Path) -> Source:
    return exports.source(folder)


def made(name: str, source: Source, folder: Path) -> Path:
    """Write a format and return its file or folder."""
    chosen = FORMATS[name]
    target = folder / f"report.{name}"
    if isinstance(chosen, TextFormat):
        target.write_text(chosen.text(source), encoding="utf-8")
    else:
        chosen.write(source, target)
    return target


# --- what a format says, read back -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Said:
    """What a format says of a comparison; in a format for readers the numbers are its text."""

    overhead: Estimate
    base: Estimate


Reader = Callable[[Path], Mapping[tuple[str, str, str], Said]]
Rows = Iterator[Mapping[str, object]]


def from_rows(rows: Rows) -> dict[tuple[str, str, str], Said]:
    def estimate(row: Mapping[str, object], name: str, end: str = "") -> Estimate:
        value, low, high, n = (row[key] for key in (name + end, f"{name}_low{end}", f"{name}_high{end}", f"{name}_n"))
        return Estimate(value=float(str(value)), low=float(str(low)), high=float(str(high)), n=int(str(n)))

    return {
        (str(row["group"]), str(row["environment"]), str(row["metric"])): Said(
            overhead=estimate(row, "overhead"), base=estimate(row, "base_cost", "_s")
        )
        for row in rows
        if row["overhead"] not in ("", None)
    }


def from_csv(path: Path) -> dict[tuple[str, str, str], Said]:
    with (path / "comparisons.csv").open(newline="") as file:
        return from_rows(iter(csv.DictReader(file)))


def from_parquet(path: Path) -> dict[tuple[str, str, str], Said]:
    return from_rows(iter(pyarrow.parquet.read_table(path / "comparisons.parquet").to_pylist()))


def from_json(path: Path) -> dict[tuple[str, str, str], Said]:
    return from_rows(iter(json.loads(path.read_text())["comparisons"]))


def from_openmetrics(path: Path) -> dict[tuple[str, str, str], Said]:
    families = {family.name: family.samples for family in text_string_to_metric_families(path.read_text())}
    place = ("group", "environment", "metric")

    def estimates(name: str) -> dict[tuple[str, ...], Estimate]:
        bounds: dict[tuple[str, ...], dict[str, float]] = {}
        for sample in families[name]:
            key = tuple(sample.labels[label] for label in place)
            bounds.setdefault(key, {})[sample.labels["bound"]] = sample.value
        rounds = {
            tuple(sample.labels[label] for label in place): int(sample.value)
            for sample in families["tare_rounds"]
            if sample.labels["estimate"] == name
        }
        return {
            key: Estimate(value=given["point"], low=given["low"], high=given["high"], n=rounds[key])
            for key, given in bounds.items()
        }

    base = estimates("tare_baseline_typical_cost_seconds")
    found = estimates("tare_typical_overhead_ratio")
    return {(key[0], key[1], key[2]): Said(overhead=value, base=base[key]) for key, value in found.items()}


READERS: dict[str, Reader] = {
    "csv": from_csv, "parquet": from_parquet, "json": from_json, "openmetrics": from_openmetrics,
}  # fmt: skip
FOR_PEOPLE = ("terminal", "html", "junit", "markdown")
"""Formats whose numbers are rounded: each has the interval, the number of rounds and the baseline's value as text."""


def test_each_format_has_a_test_of_its_numbers() -> None:
    assert {*READERS, *FOR_PEOPLE} == set(FORMATS)


@pytest.mark.parametrize("name", READERS)
def test_each_ratio_has_its_interval_its_rounds_and_the_baselines_value(
    name: str, source: Source, tmp_path: Path
) -> None:
    said = READERS[name](made(name, source, tmp_path))
    bases = {
        (item.group, item.metric): item.absolute_s
        for item in source.summary.comparisons
        if item.environment == source.summary.baseline
    }
    wanted = {
        (item.group, item.environment, item.metric): (item.overhead, bases[item.group, item.metric])
        for item in source.summary.comparisons
        if item.overhead is not None
    }
    assert len(wanted) >= 6
    assert {key: (value.overhead, value.base) for key, value in said.items()} == wanted


@pytest.mark.parametrize("name", FOR_PEOPLE)
def test_the_intervals_and_the_baselines_value_are_in_the_text(name: str, source: Source, tmp_path: Path) -> None:
    text = plain(made(name, source, tmp_path).read_text())
    (found,) = [c for c in source.summary.comparisons if (c.environment, c.metric) == ("overlay", "latency:8")]
    (base,) = [c for c in source.summary.comparisons if (c.environment, c.metric) == ("bare", "latency:8")]
    assert found.overhead is not None
    assert base.absolute_s is not None
    compact = name == "terminal"
    assert units.overhead_interval(found.overhead, compact=compact).number in text
    assert units.time_interval(base.absolute_s, compact=compact).bounds in text
    assert units.overhead_interval(found.overhead, compact=compact).bounds in text or compact
    assert f"n = {found.overhead.n}" in text or f"{found.overhead.n} rounds" in text


def plain(text: str) -> str:
    for given, written in (("\\", ""), ("\u00a0", " "), ("&nbsp;", " "), ("&#39;", "'")):
        text = text.replace(given, written)
    return text


# --- every planned cell ------------------------------------------------------------------------------------------


def text_of(path: Path, name: str, table: str = "*") -> str:
    """Return what a format says, in one table where it has several."""
    if name == "parquet":
        (file,) = path.glob(f"{table}.parquet")
        return "\n".join(str(value) for row in pyarrow.parquet.read_table(file).to_pylist() for value in row.values())
    if name == "csv":
        return "".join(file.read_text() for file in path.glob(f"{table}.csv"))
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FORMATS)
def test_every_planned_cell_is_there_and_one_that_did_not_run_has_its_reason(
    name: str, source: Source, tmp_path: Path
) -> None:
    text = " ".join(plain(text_of(made(name, source, tmp_path), name, "cells")).split())
    for cell in source.results.plan.cells:
        assert cell.environment.name in text
        assert cell.group in text or name == "terminal", cell.group
    assert exports.REASON in text
    assert "too few cores" in text


# --- hostile texts -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Source:
    plan = exports.plan()
    renamed = {"overlay": f"overlay{HOSTILE}", "gone": f"gone{HOSTILE}"}
    cells = tuple(
        replace(
            cell,
            key=cell.key + HOSTILE,
            group=cell.group + HOSTILE,
            environment=replace(cell.environment, name=renamed.get(cell.environment.name, cell.environment.name)),
        )
        for cell in plan.cells
    )
    environments = tuple(replace(each, name=renamed.get(each.name, each.name)) for each in plan.study.environments)
    study = replace(plan.study, environments=environments, name=f"example{HOSTILE}")
    unavailable = {f"{key}{HOSTILE}": reason + HOSTILE for key, reason in plan.unavailable.items()}
    trials = []
    for trial in exports.trials(plan):
        outcome = trial.outcome
        if isinstance(outcome, Failed):
            outcome = Failed(reason=HOSTILE, status=9, stderr_tail=HOSTILE)
        elif isinstance(outcome, Completed):
            outcome = Completed(metrics=tuple(replace(m, label=f"{HOSTILE}{m.label}") for m in outcome.metrics))
        key = replace(trial.key, cell=f"{trial.key.cell}{HOSTILE}")
        trials.append(replace(trial, key=key, outcome=outcome, mpi_library=HOSTILE, unproven=HOSTILE))
    there = tmp_path_factory.mktemp("hostile") / "r"
    changed = replace(plan, study=study, cells=cells, unavailable=unavailable)
    return exports.source(exports.write(there, changed, trials))


@pytest.mark.parametrize("name", FORMATS)
def test_a_hostile_text_controls_nothing(name: str, hostile: Source, tmp_path: Path) -> None:
    text = text_of(made(name, hostile, tmp_path), name, "trials" if name == "parquet" else "*")
    assert not {"\x1b", "\u202e"} & set(text)
    assert name not in ("html", "markdown", "junit") or "<script>alert" not in text


def test_a_spreadsheet_calculates_no_text(hostile: Source, tmp_path: Path) -> None:
    path = made("csv", hostile, tmp_path)
    seen = 0
    for file in path.glob("*.csv"):
        with file.open(newline="") as lines:
            for row in csv.reader(lines):
                for field in row:
                    if field.startswith(("=", "+", "-", "@", "\t", "\r")):
                        float(field)
                    seen += field.startswith("'=1+1")
    assert seen > 10


def test_markdown_has_no_link_no_mention_and_no_other_column(hostile: Source) -> None:
    chosen = FORMATS["markdown"]
    assert isinstance(chosen, TextFormat)
    text = chosen.text(hostile)
    assert "@everyone" not in text
    assert "http://" not in text
    assert "\\!\\[x" in text or "!\\[x\\]" in text
    tables = [block.splitlines() for block in text.split("\n\n") if block.startswith("| ")]
    assert len(tables) == 2
    for lines in tables:
        assert len({line.replace("\\|", "").count("|") for line in lines}) == 1


def test_xml_and_openmetrics_of_hostile_texts_are_read_back(hostile: Source, tmp_path: Path) -> None:
    root = ET.parse(made("junit", hostile, tmp_path)).getroot()
    assert any("=1+1|<script>" in str(case.get("name")) for case in root.iter("testcase"))
    families = list(text_string_to_metric_families(made("openmetrics", hostile, tmp_path).read_text()))
    labels = {sample.labels.get("environment", "") for family in families for sample in family.samples}
    assert any("overlay=1+1|<script>" in label and "# EOF" in label for label in labels)


# --- the command -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
def test_the_command_writes_the_format_and_ends_with_the_exit_code_of_the_study(
    name: str, folder: Path, source: Source, tmp_path: Path
) -> None:
    target = tmp_path / "out"
    assert export_results(folder, name, target) == source.summary.exit_code
    if name in TEXTS:
        chosen = FORMATS[name]
        assert isinstance(chosen, TextFormat)
        assert name == "html" or target.read_text(encoding="utf-8") == chosen.text(source)
    else:
        assert {file.stem for file in target.iterdir()} == {
            "trials", "readings", "comparisons", "cells", "environments", "samples",
        }  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_a_damaged_line_is_left_out_and_named(
    name: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "results"
    plan = exports.plan()
    exports.write(copy, plan, exports.trials(plan))
    lines = (copy / "trials.jsonl").read_bytes().splitlines(keepends=True)
    (copy / "trials.jsonl").write_bytes(b"".join([*lines[:3], b'{"type":"Trial"}\n', *lines[3:]]))
    export_results(copy, name, tmp_path / "out")
    assert "1 damaged line was left out" in (told := capsys.readouterr().err)
    assert "trials.jsonl:4: this line is not a trial (Trial lacks key)" in told


@pytest.mark.parametrize("name", sorted(set(FORMATS) - set(TEXTS)))
def test_a_format_of_several_files_needs_a_folder(name: str, folder: Path) -> None:
    with pytest.raises(UsageError, match=f"the format {name} has several files"):
        export_results(folder, name, None)


@pytest.mark.parametrize("name", FORMATS)
def test_a_place_that_cannot_be_written_is_named(name: str, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"the report cannot be written to .*file/out"):
        export_results(folder, name, tmp_path / "file" / "out")


def test_an_unknown_format_is_refused_with_those_that_there_are(folder: Path) -> None:
    with pytest.raises(UsageError, match="did you mean json") as refused:
        export_results(folder, "jsno", None)
    assert all(name in refused.value.remedy for name in FORMATS)


def test_csv_in_a_zip_file_is_the_same_as_in_a_folder(source: Source, tmp_path: Path) -> None:
    chosen = FORMATS["csv"]
    assert not isinstance(chosen, TextFormat)
    chosen.write(source, tmp_path / "folder")
    chosen.write(source, tmp_path / "tables.zip")
    with zipfile.ZipFile(tmp_path / "tables.zip") as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    assert files == {file.name: file.read_bytes() for file in (tmp_path / "folder").iterdir()}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "tables.zip"]


def test_numbers_in_csv_are_exact(source: Source, tmp_path: Path) -> None:
    path = made("csv", source, tmp_path)
    with (path / "samples.csv").open(newline="") as file:
        rows = list(csv.DictReader(io.StringIO(file.read(), newline="")))
    trial = source.trials[0]
    columns = source.results.columns(trial.trial)
    own = [float(row["value"]) for row in rows if row["trial"] == "1" and row["metric"] == "latency:8"]
    assert own == columns["latency:8/max_s"].tolist()
    assert len(rows) == sum(
        column.size for each in source.trials for column in source.results.columns(each.trial).values()
    )
    assert all(math.isfinite(value) for value in own)
