"""What a claim's test asks is said in words: environments, numbers, launches and facts, each with its range."""

from __future__ import annotations

from pathlib import Path

import pytest

from factory_judged import HEAD, claim, judged
from tare.claims import Claim, read_paper
from tare.claims.counting import _said
from tare.claims.model import Place
from tare.claims.shown import markdown, stated_cells
from tare.claims.wording import holds_if

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


def test_numbers_of_launches_are_more_or_less_than_others() -> None:
    a, b = Place(environment="a"), Place(environment="b")
    assert _said(a, None, [3.0], "drops") == "a has 3 drops"
    assert _said(a, b, [3.0, 4.0], "drops") == "a has 3 to 4 drops more than b, in each of 2 comparisons"
    assert _said(a, b, [-6468.0], "bytes") == "a has 6468 bytes less than b"
