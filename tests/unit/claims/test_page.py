"""The page of claims has each claim with its interval over the region that is claimed; texts of others stay text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from factory_claims import judged_paper
from tare.claims import Paper, Verdict, judge, read_paper
from tare.claims.drawing import drawing, position
from tare.claims.model import Contrast, Place, Region
from tare.claims.page import claims_page
from tare.claims.wording import contrast_words, words
from tare.model import Estimate
from tare.report.plots.bars import WIDTH

HOSTILE = '<script>alert(1)</script>" onload="x \u202e \u001b[2J &amp;'


def row(page: str, number: str) -> str:
    """Return the row of a claim."""
    found = re.search(rf'<tr role="row" id="{re.escape(number)}".*?</tr>', page, re.DOTALL)
    assert found, number
    return found[0]


def estimate(low: float, value: float, high: float) -> Estimate:
    return Estimate(value=value, low=low, high=high, n=8)


@pytest.fixture
def page(tmp_path: Path) -> str:
    return claims_page([judged_paper(tmp_path)])


def test_each_claim_has_its_verdict_figure_interval_and_conditions(page: str) -> None:
    reproduced, contradicted = row(page, "900-1"), row(page, "900-2")
    assert "<b>reproduced</b>" in reproduced
    assert 'class="v-no-cost"' in reproduced
    assert re.search(r"slow against plain: <b>\+\d\d\.?\d*\s% \[\d", reproduced)
    assert "claimed: above +5" in reproduced
    assert "after Holm" in reproduced
    assert reproduced.index("ten nodes") < reproduced.index("lab, 2n x 1r")
    assert "<b>contradicted</b>" in contradicted
    assert "the whole interval is outside" in contradicted
    assert "as stated above" in contradicted
    for number in ("900-1", "900-2"):
        assert row(page, number).count('<svg class="bar claim"') == 1


def test_what_is_not_decided_says_what_would_decide_it(page: str) -> None:
    assert "</span> an adapter; study elsewhere tests it then" in row(page, "900-3")
    assert "<svg" not in row(page, "900-3")
    assert "results of studies/not-run.yaml" in row(page, "900-4")
    assert "on 4096 cores or more" in row(page, "900-5")
    assert "more rounds of study made-up" in row(page, "900-6")
    assert "would decide it" not in row(page, "900-1")
    assert "all launches of plain, slow complete" in row(page, "900-7")


def test_the_first_screen_counts_by_publication_and_says_how_many_marked_yes_are_decided(page: str) -> None:
    first = page[page.index('id="result"') : page.index('id="claims"')]
    assert "7 claims: 2 reproduced, 1 contradicted, 3 undecided, 1 untestable here." in first
    assert "<td>2 of 5</td>" in first
    assert "2 of the 5 claims that are marked" in first
    assert "No results were given" not in first


def test_without_results_the_page_says_so(tmp_path: Path) -> None:
    paper, _ = judged_paper(tmp_path)
    page = claims_page([(paper, judge(paper.claims.values(), {}))])
    assert "No results were given" in page
    assert page.count("<b>undecided</b>") == 7  # six claims and the legend


def test_texts_of_files_stay_text(tmp_path: Path) -> None:
    hostile = "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in HOSTILE.replace('"', '\\"'))
    paper, judged = judged_paper(tmp_path, hostile)
    assert HOSTILE in paper.title
    page = claims_page([(paper, judged)])
    assert page.count("<script>") == 1
    assert "<script>alert" not in page
    assert 'onload="x' not in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert page.count("&lt;script&gt;alert(1)") >= 7
    assert "&amp;amp;" in page


@pytest.mark.parametrize(
    ("region", "left", "right"),
    [(Region(low=0.1), None, "edge"), (Region(high=0.1), "edge", None), (Region(low=0.05, high=0.15), None, None)],
)
@pytest.mark.parametrize("counts", [False, True])
def test_the_region_is_drawn_from_bound_to_bound(
    region: Region, left: str | None, right: str | None, *, counts: bool
) -> None:
    drawn = drawing(estimate(0.2, 0.3, 0.4), region, counts=counts)
    start, width = map(float, re.findall(r'class="region" x="([\d.]+)" y="0" width="([\d.]+)"', drawn)[0])
    bar, bar_width = map(float, re.findall(r'class="inner" x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', drawn)[0])
    assert (start == 0) is (left == "edge")
    assert (start + width == WIDTH) is (right == "edge")
    if region.high is None:
        assert start < bar  # the interval is inside
        assert start + width > bar + bar_width
        assert "the whole interval is inside" in drawn
    else:
        assert start + width < bar
        assert "the whole interval is outside" in drawn
    assert drawn.count('class="edge"') == sum(bound is not None for bound in (region.low, region.high))


def test_an_interval_across_a_bound_is_drawn_across_it() -> None:
    drawn = drawing(estimate(-0.01, 0.02, 0.05), Region(low=0.02), counts=False)
    start = float(re.findall(r'class="region" x="([\d.]+)"', drawn)[0])
    bar, width = map(float, re.findall(r'class="inner" x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', drawn)[0])
    assert bar < start < bar + width
    assert "the interval is partly inside" in drawn


@pytest.mark.parametrize("figure", [(0.0, 0.0, 0.0), (-float("inf"), 5.0, float("inf")), (1e-300, 1e300, 1e300)])
@pytest.mark.parametrize("region", [Region(), Region(low=0.0, high=0.0), Region(low=-1e300)])
@pytest.mark.parametrize("counts", [False, True])
def test_any_figure_is_drawn_inside_of_the_drawing(
    figure: tuple[float, float, float], region: Region, *, counts: bool
) -> None:
    drawn = drawing(estimate(*figure), region, counts=counts)
    assert "nan" not in drawn
    places = [float(x) for x in re.findall(r'(?: x|cx)="(-?[\d.]+)" (?:y="0"|y="5|cy)', drawn)]
    assert len(places) == 3
    assert all(0 <= x <= WIDTH for x in places)


def test_regions_and_contrasts_in_words() -> None:
    assert words(Region(low=0.02), counts=False).replace("\N{NO-BREAK SPACE}", " ") == "above +2 %"
    assert words(Region(high=0.0), counts=False) == "below 0 %"
    assert words(Region(low=-5.0, high=100.0), counts=True) == "between −5 and 100"
    a, b, c, d = (Place(environment=name) for name in "abcd")
    assert contrast_words(Contrast(places=((a, 1), (b, -1)))) == "a against b"
    assert contrast_words(Contrast(places=((a, 1), (b, -1), (c, -1), (d, 1)))) == "a against b, over c against d"
    assert contrast_words(Contrast(places=((a, 1), (b, -1)), counts=True)) == "a less b"
    wide, narrow = Place(environment="a", metric="bw*"), Place(environment="a", metric="latency*")
    assert contrast_words(Contrast(places=((wide, 1), (narrow, -1)))) == "bw* / a against latency* / a"
    assert position(estimate(0.0, 0.1, 0.2), Region(low=0.0, high=0.2)) == "the whole interval is inside"


def test_all_claims_of_the_project_have_a_row() -> None:
    folder = Path(__file__).parents[3] / "claims"
    papers: list[Paper] = [read_paper(path) for path in sorted(folder.glob("*.yaml"))]
    page = claims_page([(paper, judge(paper.claims.values(), {})) for paper in papers])
    numbers = [number for paper in papers for number in paper.claims]
    assert len(numbers) > 200
    assert all(f'id="{number}"' in page for number in numbers)
    assert Verdict.UNTESTABLE.value in page
