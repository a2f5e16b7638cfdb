"""Samples that another process formats are those that this one would; if it fails, this one says what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

import exports
from tare.errors import ResultsError
from tare.export import csv, sample_rows
from tare.frames import Source


@pytest.fixture
def source(tmp_path: Path) -> Source:
    plan = exports.plan()
    return exports.source(exports.write(tmp_path / "r", plan, exports.trials(plan)))


def test_the_other_process_writes_the_same(source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    csv.write(source, tmp_path / "here")
    monkeypatch.setattr(sample_rows, "MANY", 1)
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: {0, 1})
    csv.write(source, tmp_path / "beside")
    assert (tmp_path / "here" / "samples.csv").read_bytes() == (tmp_path / "beside" / "samples.csv").read_bytes()
    assert not [path for path in (tmp_path / "beside").iterdir() if path.name.startswith(".")]


def test_a_missing_file_of_samples_is_named_and_the_older_file_stays(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample_rows, "MANY", 1)
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: {0, 1})
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "samples.csv").write_text("older")
    victim = next((source.results.path / "samples").iterdir())
    victim.unlink()
    with pytest.raises(ResultsError, match=victim.name):
        csv.write(source, tmp_path / "out")
    assert (tmp_path / "out" / "samples.csv").read_text() == "older"
    assert not [path for path in (tmp_path / "out").iterdir() if path.name.endswith(".partial")]


@pytest.mark.parametrize(
    ("given", "field"),
    [("a", "a"), ("=a", "'=a"), ("-1", "'-1"), ("a,b", '"a,b"'), ('a"b', '"a""b"'), ("@x,", '"\'@x,"'), ("", "")],
)
def test_a_field_is_quoted_where_it_must_be(given: str, field: str) -> None:
    assert sample_rows.quoted(given) == field
