"""The page and the words of claims: each claim with its interval over the region that is claimed; texts stay text."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from factory_claims import judged_paper
from factory_judged import HEAD, claim, judged
from tare.compare.claims import Claim, ClaimVerdict, Paper, judge, read_paper
from tare.compare.claims.claim_tables import markdown, stated_cells
from tare.compare.claims.counting import _said
from tare.compare.claims.drawing import drawing, position
from tare.compare.claims.model import CellPattern, Contrast, Region
from tare.compare.claims.page import claims_page
from tare.compare.claims.wording import contrast_words, holds_if, words
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


def test_each_claim_has_its_verdict_figure_interval_and_conditions_or_what_would_decide_it(page: str) -> None:
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


def test_without_results_the_page_says_so_and_all_claims_of_the_project_have_a_row(tmp_path: Path) -> None:
    paper, _ = judged_paper(tmp_path)
    page = claims_page([(paper, judge(paper.claims.values(), {}))])
    assert "No results were given" in page
    assert page.count("<b>undecided</b>") == 7  # six claims and the legend
    folder = Path(__file__).parents[4] / "claims"
    papers: list[Paper] = [read_paper(path) for path in sorted(folder.glob("*.yaml"))]
    page = claims_page([(paper, judge(paper.claims.values(), {})) for paper in papers])
    numbers = [number for paper in papers for number in paper.claims]
    assert len(numbers) > 200
    assert all(f'id="{number}"' in page for number in numbers)
    assert ClaimVerdict.UNTESTABLE.value in page


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
def test_a_region_is_drawn_between_bounds(region: Region, left: str | None, right: str | None, *, counts: bool) -> None:
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
def test_any_figure_is_drawn_inside(figure: tuple[float, float, float], region: Region, *, counts: bool) -> None:
    drawn = drawing(estimate(*figure), region, counts=counts)
    assert "nan" not in drawn
    places = [float(x) for x in re.findall(r'(?: x|cx)="(-?[\d.]+)" (?:y="0"|y="5|cy)', drawn)]
    assert len(places) == 3
    assert all(0 <= x <= WIDTH for x in places)


def test_regions_contrasts_and_numbers_of_launches_are_said_in_words() -> None:
    assert words(Region(low=0.02), counts=False).replace("\N{NO-BREAK SPACE}", " ") == "above +2 %"
    assert words(Region(high=0.0), counts=False) == "below 0 %"
    assert words(Region(low=-5.0, high=100.0), counts=True) == "between −5 and 100"
    a, b, c, d = (CellPattern(environment=name) for name in "abcd")
    assert contrast_words(Contrast(places=((a, 1), (b, -1)))) == "a against b"
    assert contrast_words(Contrast(places=((a, 1), (b, -1), (c, -1), (d, 1)))) == "a against b, over c against d"
    assert contrast_words(Contrast(places=((a, 1), (b, -1)), counts=True)) == "a less b"
    wide, narrow = CellPattern(environment="a", metric="bw*"), CellPattern(environment="a", metric="latency*")
    assert contrast_words(Contrast(places=((wide, 1), (narrow, -1)))) == "bw* / a against latency* / a"
    assert position(estimate(0.0, 0.1, 0.2), Region(low=0.0, high=0.2)) == "the whole interval is inside"
    a, b = CellPattern(environment="a"), CellPattern(environment="b")
    assert _said(a, None, [3.0], "drops") == "a has 3 drops"
    assert _said(a, b, [3.0, 4.0], "drops") == "a has 3 to 4 drops more than b, in each of 2 comparisons"
    assert _said(a, b, [-6468.0], "bytes") == "a has 6468 bytes less than b"


NO_BREAK = "\N{NO-BREAK SPACE}"
A_OVER_B = "of: a, against: b"
SAME = "{{of: {{environment: a, workload: {0}}}, against: {{environment: b, workload: {0}}}, above: 0%}}"


def of(tmp_path: Path, by: str) -> Claim:
    """Return a claim with a test of study s."""
    (tmp_path / "900.yaml").write_text(HEAD + claim(1, f"test: {{study: s, {by}}}"))
    return read_paper(tmp_path / "900.yaml").claims["900-1"]


@pytest.mark.parametrize(
    ("by", "said"),
    [
        (f"cost: {{{A_OVER_B}, above: 2%}}", "a against b: above +2 %"),
        (f"cost: {{{A_OVER_B}, beyond: 2%}}", "a against b: below −2 % or above +2 %"),
        (f"metric: lat*, cost: {{{A_OVER_B}, below: 5%}}", "a against b: below +5 %"),
        (f"costs: [{SAME.format('x')}, {SAME.format('y')}]", "a against b (x): above 0 %; a against b (y): above 0 %"),
        ('metric: "counter:drops", count: {of: a, against: b, above: 5}', "a less b: above 5"),
        ('metric: "variation:", count: {of: a, below: 0.01}', "variation:cost / a: below 0.01"),
        ('metric: "counter:drops", each: {of: a, above: 0}', "counter:drops / a, every launch: above 0"),
        ("runs: [a, b], fails: [c]", "all launches of a, b complete, all of c fail"),
        (
            'facts: {of: a, name: "namespace net", values: [own]}',
            "all ranks of a: namespace net is own",
        ),
        (
            'metric: "figure:time", slope: {of: a, over: [x, y, z], x: "traffic:packets/s", above: 0}',
            "figure:time / x / a, from the least packets/s to the most: above 0",
        ),
    ],
)  # fmt: skip
def test_each_kind_of_test_is_said_with_its_range(tmp_path: Path, by: str, said: str) -> None:
    assert holds_if(of(tmp_path, by)).replace(NO_BREAK, " ") == said


def test_of_many_parts_a_table_lists_three_and_says_how_many_follow(tmp_path: Path) -> None:
    cells = ", ".join(f"{{of: e{number}, against: b, above: 0%}}" for number in range(5))
    by = of(tmp_path, f"costs: [{cells}]")
    assert holds_if(by).count("above 0 %") == 5
    listed = "; ".join(f"e{number} against b: above 0 %" for number in range(3))
    assert stated_cells(by)[-1] == f"{listed}; and 2 more"


def test_a_table_says_what_was_compared(tmp_path: Path) -> None:
    by = "note: a bound, test: {study: made-up, cost: {of: slow, against: plain, above: 2%}}"
    found = judged(tmp_path, claim(1, by))
    *_, row, _, _ = markdown(read_paper(tmp_path / "900.yaml"), found)
    assert "| slow against plain: above +2 %. A bound | reproduced | slow against plain: +20" in row.replace(
        NO_BREAK, " "
    )


def test_markdown_has_no_html_link_or_mention_of_the_file_s(tmp_path: Path) -> None:
    bad = "<script>x</script> ![i](http://e.example) [l](javascript:x) @team & a | b \\| c `code`\x1b[31m"
    found = judged(
        tmp_path, claim(1, "note: a bound, test: {study: made-up, cost: {of: slow, against: plain, above: 2%}}")
    )
    paper = replace(read_paper(tmp_path / "900.yaml"), title=bad, conditions=bad)
    hostile = [replace(each, claim=replace(each.claim, says=bad, place=bad, note=bad), why=bad) for each in found]
    text = "\n".join(markdown(paper, hostile))
    assert text.count("&lt;script&gt;x&lt;/script&gt;") == 6
    assert "`code`" in text
    for harmful in ("<script", "](", "@team", "\x1b"):
        assert harmful not in text
    assert all(row.count(" | ") == 7 for row in text.splitlines() if row.startswith("| ") and "script" in row)
