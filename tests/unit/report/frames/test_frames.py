"""`tare.open` gives the same rows in Arrow, polars and pandas, with the documented columns, types and units."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest

import exports
import tare
from tare.errors import MissingTool, ResultsError
from tare.report.frames import TABLES, ColumnType, Frame, OpenResults, Samples, Table
from tare.report.frames.columns import names_of
from tare.report.frames.readings import unit_of
from tare.report.frames.samples import belongs

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "notebooks.md").read_text()
GIVEN = ROOT / "tests" / "data" / "results-0.1.0"
POLARS = {
    ColumnType.TEXT: polars.String,
    ColumnType.INTEGER: polars.Int64,
    ColumnType.NUMBER: polars.Float64,
    ColumnType.TRUTH: polars.Boolean,
}
ARROW = {
    ColumnType.TEXT: pyarrow.string(), ColumnType.INTEGER: pyarrow.int64(),
    ColumnType.NUMBER: pyarrow.float64(), ColumnType.TRUTH: pyarrow.bool_(),
}  # fmt: skip
PANDAS = {
    ColumnType.TEXT: "string",
    ColumnType.INTEGER: "Int64",
    ColumnType.NUMBER: "float64",
    ColumnType.TRUTH: "boolean",
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> OpenResults:
    return tare.open(exports.example(tmp_path_factory.mktemp("results") / "r"))


def frame(results: OpenResults, name: str) -> Frame:
    found = getattr(results, name)
    assert isinstance(found, Frame)
    return found


@pytest.mark.parametrize("name", TABLES)
def test_the_three_libraries_get_the_same_rows_with_the_declared_types(results: OpenResults, name: str) -> None:
    given = frame(results, name)
    rows = list(given)
    assert rows
    arrow, polar, panda = given.to_arrow(), given.to_polars(), given.to_pandas()
    assert arrow.to_pylist() == rows
    assert polar.to_dicts() == rows
    assert panda.astype(object).where(panda.notna(), None).to_dict("records") == rows
    names = list(names_of(given.columns))
    assert arrow.column_names == polar.columns == list(panda.columns) == names
    for column in given.columns:
        assert arrow.schema.field(column.name).type == ARROW[column.kind]
        assert arrow.schema.field(column.name).metadata[b"unit"] == column.unit.encode()
        assert polar.schema[column.name] == POLARS[column.kind]
        assert str(panda.dtypes[column.name]) == PANDAS[column.kind]


@pytest.mark.parametrize("name", TABLES)
def test_a_table_without_rows_has_its_columns(tmp_path: Path, name: str) -> None:
    empty = tare.open(exports.write(tmp_path / "r", exports.plan(), []))
    given = frame(empty, name)
    count = len(list(given))
    assert given.to_arrow().num_rows == given.to_polars().height == len(given.to_pandas()) == count
    assert given.to_polars().columns == list(names_of(given.columns))
    assert (count == 0) == (name in ("trials", "readings"))


def test_every_column_is_documented_as_the_code_declares_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "tools")
    assert runpy.run_path(str(ROOT / "tools" / "frames_page.py"))["page_text"](PAGE) == PAGE


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_name_is_unique_and_one_of_seconds_or_bytes_says_so(table: Table) -> None:
    assert len(set(names_of(table.columns))) == len(table.columns)
    for column in table.columns:
        assert column.unit == "s" if column.name.endswith("_s") else column.unit != "s", column.name


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    exports.example(tmp_path / "results" / "quickstart")
    monkeypatch.chdir(tmp_path)
    first, second = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(f"{first}\n{second}", {})
    printed = capsys.readouterr().out
    assert "overhead_low" in printed
    assert "overlay" in printed
    assert pyarrow.parquet.read_table(tmp_path / "samples.parquet").num_rows > 0


def test_a_missing_library_is_named_with_its_installer(results: OpenResults, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tare.report.frames.frame.import_module", mock.Mock(side_effect=ImportError))
    for convert, command in (
        (results.trials.to_arrow, "pip install pyarrow"),
        (results.trials.to_polars, "pip install polars"),
        (results.trials.to_pandas, "pip install pandas"),
        (results.samples().to_arrow, "pip install pyarrow"),
    ):
        with pytest.raises(MissingTool) as missing:
            convert()
        assert command in str(missing.value)
    assert next(iter(results.comparisons))["environment"] == "bare"


def test_opening_imports_none_of_the_libraries_and_importing_tare_nothing_at_all() -> None:
    code = (
        "import sys, tare\n"
        f"results = tare.open({str(GIVEN)!r})\n"
        "assert list(results.trials) and list(results.comparisons) and sum(1 for _ in results.samples())\n"
        "print([name for name in ('pyarrow', 'polars', 'pandas') if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert out.stdout.strip() == "[]"
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); before = set(sys.modules); import tare\n"
        "print(sorted(set(sys.modules) - before))"
    )
    out = subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True, capture_output=True, text=True)
    assert out.stdout.strip() == "['__future__', 'tare']"


def test_samples_have_the_values_of_the_files_and_can_be_chosen(results: OpenResults) -> None:
    found = {(each.trial, each.metric): each.values for each in results.samples()}
    assert {metric for _, metric in found} == {"latency:8", "bw:65536"}
    costs = {(row["trial"], row["metric"]): row["cost_s"] for row in results.trials if row["metric"]}
    assert set(found) == set(costs)
    for key, values in found.items():
        assert np.allclose(values, costs[key] * (1 + np.arange(exports.ITERATIONS) / 100), rtol=1e-15)
    group = results.study.workloads[0].name + " 2n x 1r"
    environments = {row["trial"]: row["environment"] for row in results.trials}
    some = list(results.samples("latency:8", environment="overlay", group=group))
    assert len(some) == 10
    assert {environments[each.trial] for each in some} == {"overlay"}
    assert {each.metric for each in some} == {"latency:8"}
    assert list(results.samples(group="other")) == []


def test_superseded_launches_have_samples_only_if_asked_for() -> None:
    results = tare.open(GIVEN)
    all_of_them = {each.trial for each in results.samples(counted=False)}
    counted = {each.trial for each in results.samples()}
    assert counted < all_of_them
    assert counted <= {row["trial"] for row in results.trials if row["counts"]}


def test_batches_are_bounded_and_hold_one_file_at_a_time(results: OpenResults, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = results.samples()
    batches = list(samples.batches(100))
    assert all(batch.num_rows <= 100 for batch in batches)
    assert len(batches) > 10
    whole = samples.to_arrow()
    assert pyarrow.Table.from_batches(batches).to_pylist() == whole.to_pylist()
    assert whole.num_rows == sum(each.values.size for each in samples)
    assert [row["iteration"] for row in whole.slice(0, exports.ITERATIONS).to_pylist()] == list(
        range(exports.ITERATIONS)
    )
    assert samples.to_polars().height == len(samples.to_pandas()) == whole.num_rows
    read = 0
    columns = type(results._source.results).columns

    def counted(self: object, trial: object) -> object:
        nonlocal read
        read += 1
        return columns(self, trial)  # type: ignore[arg-type]

    monkeypatch.setattr(type(results._source.results), "columns", counted)
    batches = results.samples().batches(exports.ITERATIONS)
    next(batches)
    assert read <= 2


def test_parquet_has_a_row_group_a_batch(results: OpenResults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = results.samples()
    all_batches = Samples.batches
    monkeypatch.setattr(Samples, "batches", lambda self: all_batches(self, 200))
    samples.write_parquet(tmp_path / "s.parquet")
    file = pyarrow.parquet.ParquetFile(tmp_path / "s.parquet")
    assert file.metadata.num_row_groups > 5
    assert all(file.metadata.row_group(n).num_rows <= 200 for n in range(file.metadata.num_row_groups))
    assert file.read().to_pylist() == samples.to_arrow().to_pylist()


@pytest.mark.parametrize(
    ("metric", "stored", "column", "whether"),
    [
        ("latency:8", "latency:8", "max_s", True),
        ("spacing:8@1000.receive", "spacing:8@1000", "receive_gap_s", True),
        ("spacing:8@1000.receive", "spacing:8@1000", "send_gap_s", False),
        ("latency:8", "latency:64", "max_s", False),
    ],
)
def test_a_metric_has_its_own_columns(metric: str, stored: str, column: str, whether: bool) -> None:
    assert belongs(metric, stored, column) is whether


def test_damaged_lines_are_listed_and_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    folder = exports.example(tmp_path / "r")
    with (folder / "trials.jsonl").open("a") as file:
        file.write('{"type":"Trial"}\n{"type":"Trial"}\n')
    lines = len((folder / "trials.jsonl").read_text().splitlines())
    assert [damage.line for damage in tare.open(folder).damaged] == [lines - 1, lines]
    with pytest.raises(ResultsError, match="it has no plan"):
        tare.open(tmp_path)


def test_missing_values_are_as_documented(results: OpenResults) -> None:
    trials = results.trials.to_pandas()
    assert isinstance(trials, pandas.DataFrame)
    failed = trials[trials["outcome"] == "failed"]
    assert len(failed) == 10
    assert all(value is pandas.NA for name in ("metric", "samples", "judged") for value in failed[name])
    assert np.isnan(failed["cost_s"].to_numpy()).all()
    assert results.trials.to_polars().filter(polars.col("outcome") == "failed")["cost_s"].is_null().all()


def test_readings_are_what_launches_recorded_in_the_unit_of_their_name(results: OpenResults) -> None:
    first = [tuple(row.values())[1:] for row in results.readings if row["trial"] == 1]
    assert ("start-up", "pods_s", 0.5, "s") in first
    assert ("counters", "TcpRetransSegs", 3.0, "") in first
    assert ("noise", "background_s", 0.01, "s") in first
    assert ("traffic", "n0 eth0 tx_bytes", 20.0, "B") in first
    assert ("figure", "lost", 0.5, "%") in first
    assert [unit_of(name) for name in ("pods_s", "n0 eth0 rx_bytes", "TcpRetransSegs")] == ["s", "B", ""]
