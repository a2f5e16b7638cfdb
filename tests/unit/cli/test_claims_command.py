"""`tare claims` finds files of claims and results, and prints verdicts as text, JSON or Markdown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import exports
from factory_explained import Behaviour, plan_of, trials_of
from tare.cli.afterwards.claims_command import Wanted, show_claims
from tare.errors import ResultsError, UsageError

STUDY = """
environments:
  plain: {runtime: bare, network: bridge}
  slow: {runtime: bare, network: bridge, env: {A: 1}}
workloads: {messages: {kernels: [latency]}}
repetition: {rounds: 8}
"""
CLAIMS = """
paper: "900"
title: "A paper | with a bar and \\u001b[2J"
source: a journal
claims:
  900-1: {place: "1", claim: it costs, kind: sign, here: "yes",
          test: {study: made-up, cost: {of: slow, against: plain, above: 5%}}}
  900-2: {place: "2", claim: it costs nothing, kind: sign, here: "yes",
          test: {study: made-up, cost: {of: slow, against: plain, within: 1%}}}
  900-3: {place: "3", claim: it is fast, kind: sign, here: no hardware, needs: an adapter}
"""


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return results, beside a folder of claims."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims" / "900.yaml").write_text(CLAIMS)
    plan = plan_of(tmp_path, STUDY)
    return exports.write(tmp_path / "results", plan, list(trials_of(plan, {"slow": Behaviour(factor=1.2)})))


def test_verdicts_are_printed_with_figure_conditions_and_counts(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert show_claims(Wanted(papers=("900",), results=(results,))) == 0
    out = capsys.readouterr().out
    assert "900-1  reproduced" in out
    assert "900-2  contradicted" in out
    assert "here slow against plain: +20" in " ".join(out.split())
    assert "lab, 2n x 1r" in " ".join(out.split())
    assert "3 claims: 1 reproduced, 1 contradicted, 0 undecided, 1 untestable here." in out
    assert "\x1b[2J" not in out


def test_all_papers_without_results_are_undecided(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert results.exists()
    assert show_claims(Wanted(papers=(), results=(), as_json=True)) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["verdict"] for each in found] == ["undecided", "undecided", "untestable here"]


def test_markdown_is_a_table_whose_cells_stay_cells(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show_claims(Wanted(papers=("claims/900.yaml",), results=(results,), as_markdown=True))
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| 900-")]
    assert len(rows) == 3
    assert all(row.count("|") - row.count("\\|") == 9 for row in rows)


def test_a_page_is_written_beside_what_is_printed(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "claims.html"
    assert show_claims(Wanted(papers=("900",), results=(results,), html=page)) == 0
    assert f"page: {page}" in capsys.readouterr().out.replace("\n", "")
    assert page.read_text(encoding="utf-8").count('<svg class="bar claim"') == 2
    show_claims(Wanted(papers=("900",), results=(results,), html=page, as_json=True))
    assert len(json.loads(capsys.readouterr().out)) == 3
    with pytest.raises(UsageError, match="the page cannot be written to"):
        show_claims(Wanted(papers=("900",), results=(results,), html=tmp_path / "no" / "page.html"))


def test_what_cannot_be_judged_is_refused_with_what_to_do(results: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no claims of 'x'") as error:
        show_claims(Wanted(papers=("x",), results=()))
    assert "900" in str(error.value.remedy)
    (tmp_path / "other.yaml").write_text(CLAIMS.replace("made-up", "another"))
    with pytest.raises(ResultsError, match="study made-up, which no claim"):
        show_claims(Wanted(papers=("other.yaml",), results=(results,)))
    with pytest.raises(ResultsError, match="are both results of study made-up"):
        show_claims(Wanted(papers=("900",), results=(results, results)))
