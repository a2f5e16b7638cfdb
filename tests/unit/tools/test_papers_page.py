"""docs/papers/ has the claims of a paper as its file has them, and every one of them once."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from source_tree import ROOT, program
from tare.compare.claims import ClaimVerdict, Paper, read_paper

page = program("papers_page")
FIVE = ("000", "001", "002", "003", "004")
INDEX = (page.PAGES / "index.md").read_text()


@cache
def paper_of(name: str) -> Paper:
    """Return the publication as its file has it."""
    return read_paper(ROOT / "claims" / f"{name}.yaml")


def written(name: str) -> str:
    """Return what the tool writes of a paper's page."""
    return (page.PAGES / f"{name}.md").read_text().split(page.BEGIN)[1].split(page.END)[0]


@pytest.mark.parametrize("name", FIVE)
def test_the_page_of_a_paper_has_its_claims_as_their_file_says_them(name: str) -> None:
    claims = paper_of(name).claims
    assert page.outcomes_in(written(name)).keys() == claims.keys()
    assert page.with_texts(name, written(name)) == written(name).strip() + "\n", f"tools/papers_page.py --texts {name}"


@pytest.mark.parametrize("name", FIVE)
def test_a_row_says_a_claim_in_twelve_words_or_fewer(name: str) -> None:
    claims = paper_of(name).claims
    outcomes = page.outcomes_in(written(name))
    said = [
        page.stated(claims[number])
        for number, each in outcomes.items()
        if each.verdict != ClaimVerdict.UNTESTABLE.value
    ]
    assert [text for text in said if len(text.split()) > 12] == []


@pytest.mark.parametrize("name", FIVE)
def test_the_list_of_papers_has_the_counts_of_each_page(name: str) -> None:
    verdicts = [outcome.verdict for outcome in page.outcomes_in(written(name)).values()]
    row = next(line for line in INDEX.splitlines() if line.startswith(f"| [{name}]"))
    assert f"| {len(verdicts)} | {' | '.join(str(verdicts.count(verdict.value)) for verdict in ClaimVerdict)} |" in row


def test_texts_are_written_again_and_verdicts_stay() -> None:
    claims = paper_of("001").claims
    tested, other = list(claims)[:2]
    outcomes = dict.fromkeys(claims, page.Outcome("undecided", "a \\| b against c: +1 % [0, 2]"))
    outcomes |= {tested: page.Outcome("reproduced"), other: page.Outcome("untestable here")}
    new = page.with_texts("001", f"Run then.\n\n{page.table(paper_of('001'), outcomes)}")
    assert page.outcomes_in(new) == outcomes
    assert new.startswith("Run then.\n\n")
    assert f"## Reproduced\n\n{page.HEAD}| {tested} | {page.stated(claims[tested])} |  |\n" in new


@pytest.mark.parametrize("name", FIVE)
def test_the_studies_of_a_paper_are_linked(name: str) -> None:
    row = next(
        line for line in (page.PAGES / f"{name}.md").read_text().splitlines() if line.startswith("Its studies: ")
    )
    links = {study: f"[`studies/{study}.yaml`](../../studies/{study}.yaml)" for study in page.studies_for(name)}
    assert [study for study, link in links.items() if link not in row] == []


def test_a_study_without_results_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    lacking = "graph500-overhead, graph500-gigabit, graph500-ways, graph500-one-node"
    with pytest.raises(SystemExit, match=f"lacks {lacking}: make papers-003"):
        page.section("003")


@pytest.mark.parametrize(
    ("measured", "short"),
    [
        ("", ""),
        ("0.1 [0, 0.2]", "0.1 [0, 0.2]"),
        ("docker, data apart against bare: +1 % [0, 2]", "docker, data apart against bare: +1 % [0, 2]"),
        ("kmi / a / 2n x 1r against kmi / a / 1n x 2r: 0 %", "2n x 1r against 1n x 2r (kmi / a): 0 %"),
        ("x / a against x / b, over y / a against y / b: 0 %", "a against b (x), over a against b (y): 0 %"),
        ("tcp / bare against usual / bare: 0 %", "tcp against usual (bare): 0 %"),
    ],
)
def test_what_both_places_of_a_comparison_have_is_said_once(measured: str, short: str) -> None:
    assert page.shortened(measured) == short
    assert page.shortened(short) == short
