"""docs/papers.md has the claims of a paper as its file has them, and says of the others that they were not run."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from tare.claims import read_paper
from tare.claims.shown import cell_text

ROOT = Path(__file__).parents[3]
sys.path.append(str(ROOT / "tools"))
SPEC = importlib.util.spec_from_file_location("papers_page", ROOT / "tools" / "papers_page.py")
assert SPEC is not None
assert SPEC.loader is not None
page = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(page)

FIVE = ("000", "001", "002", "003", "004")


@pytest.mark.parametrize("name", FIVE)
def test_the_table_of_a_paper_has_its_claims(name: str) -> None:
    begin, end = page.markers(name)
    section = page.PAGE.read_text().split(begin)[1].split(end)[0]
    if f"Not run whole yet: `make papers-{name}`." in section:
        return
    claims = read_paper(ROOT / "claims" / f"{name}.yaml").claims
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith(f"| {name}-")]
    listed = {cells[0].removeprefix("| "): cells[2] for cells in rows}
    assert listed == {number: cell_text(claim.says) for number, claim in claims.items()}, f"tools/papers_page.py {name}"


def test_a_study_without_results_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    lacking = "graph500-overhead, graph500-gigabit, graph500-ways, graph500-one-node"
    with pytest.raises(SystemExit, match=f"lacks {lacking}: make papers-003"):
        page.section("003")
