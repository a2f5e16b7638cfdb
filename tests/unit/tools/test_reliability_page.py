"""docs/reliability.md has a row for each fault that `make test-faults` plays, and for no other."""

from __future__ import annotations

from faults.faults import FAULTS
from source_tree import program

page = program("reliability_page")


def test_the_page_has_the_faults_that_are_played_and_none_twice() -> None:
    assert page.titles(page.PAGE.read_text()) == [(fault.title, fault.cluster) for fault in FAULTS]
    assert len({fault.key for fault in FAULTS}) == len(FAULTS)


def test_a_row_gives_outcomes_that_differ_and_says_where_something_was_left() -> None:
    play = {"fault": "x", "recorded": [], "codes": [-9, 3], "said": "", "then": "resumed", "left": []}
    other = {**play, "recorded": ["Failed: a | b"], "codes": [-9, 4]}
    row = page.row_of(FAULTS[0], [play, other])
    assert "| none / Failed: a \\| b | -9, then 3 / -9, then 4 | resumed; plays: 2 |" in row
    assert "| resumed; left: /tmp/x |" in page.row_of(FAULTS[0], [play, play, {**play, "left": ["/tmp/x"]}])
