"""docs/papers.md has the claims of a paper as its file has them, and says of the others that they were not run."""

from __future__ import annotations

from pathlib import Path

import pytest

from source_tree import ROOT, program
from tare.claims import read_paper
from tare.claims.shown import stated_cells

page = program("papers_page")
FIVE = ("000", "001", "002", "003", "004")


@pytest.mark.parametrize("name", FIVE)
def test_the_table_of_a_paper_has_its_claims(name: str) -> None:
    begin, end = page.markers(name)
    section = page.PAGE.read_text().split(begin)[1].split(end)[0]
    if f"Not run whole yet: `make papers-{name}`." in section:
        return
    claims = read_paper(ROOT / "claims" / f"{name}.yaml").claims
    rows = [
        line.removeprefix("| ").split(" | ")[: -page.JUDGED]
        for line in section.splitlines() if line.startswith(f"| {name}-")
    ]  # fmt: skip
    assert rows == [list(stated_cells(claim)) for claim in claims.values()], f"tools/papers_page.py --texts {name}"


def test_texts_are_written_again_and_verdicts_stay() -> None:
    claim = next(iter(read_paper(ROOT / "claims" / "001.yaml").claims.values()))
    old = f"head\n| {claim.number} | a | b \\| c |  | d | reproduced |  | 3 launches |\nend"
    head, row, end = page.with_texts("001", old).splitlines()
    assert (head, end) == ("head", "end")
    assert row == f"| {' | '.join(stated_cells(claim))} | reproduced |  | 3 launches |"


@pytest.mark.parametrize("name", FIVE)
def test_the_studies_of_a_paper_are_listed(name: str) -> None:
    row = next(line for line in page.PAGE.read_text().splitlines() if line.startswith(f"| papers/{name} ("))
    links = {study: f"[`studies/{study}.yaml`](../studies/{study}.yaml)" for study in page.studies_for(name)}
    assert [study for study, link in links.items() if link not in row] == []


def test_a_study_without_results_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    lacking = "graph500-overhead, graph500-gigabit, graph500-ways, graph500-one-node"
    with pytest.raises(SystemExit, match=f"lacks {lacking}: make papers-003"):
        page.section("003")
