"""Markdown fits into a comment, and shows texts as they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import exports
from tare.export import markdown
from tare.export.markdown import MOST_CHARACTERS, escape
from tare.frames import Source
from tare.model import Plan


def large(plan: Plan, groups: int) -> Plan:
    """Return a plan with so many more groups that cannot run."""
    more = [
        replace(cell, key=f"{number} {cell.key}", group=f"{number} {cell.group}")
        for number in range(groups)
        for cell in plan.cells
    ]
    unavailable = {cell.key: "x" * 300 for cell in more}
    return replace(plan, cells=(*plan.cells, *more), unavailable={**plan.unavailable, **unavailable})


def test_what_does_not_fit_is_counted_and_the_headline_stays(tmp_path: Path) -> None:
    plan = exports.plan()
    source = exports.source(exports.write(tmp_path / "r", large(plan, 100), exports.trials(plan)))
    text = markdown.text(source)
    assert 0.5 * MOST_CHARACTERS < len(text) <= MOST_CHARACTERS
    assert escape(source.summary.headline)[:900] in text
    assert "parts of this report do not fit into 65,000 characters" in text.splitlines()[-1]


def test_what_fits_is_whole(tmp_path: Path) -> None:
    plan = exports.plan()
    source: Source = exports.source(exports.write(tmp_path / "r", plan, exports.trials(plan)))
    text = markdown.text(source)
    assert "do not fit" not in text
    assert text.startswith("### tare: example\n")
    assert text.count("n = 10") > 8
    assert f"limit {100 * exports.LIMIT:g} %" in text


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("a|b", "a\\|b"),
        ("<b>&", "&lt;b&gt;&amp;"),
        ("a\n\n# b", "a \\# b"),
        ("`x` *y* _z_", "\\`x\\` \\*y\\* \\_z\\_"),
        ("@user, 2 @ 3", "@<!-- -->user, 2 @ 3"),
        ("https://x www.y", "https:<!-- -->// www<!-- -->.y".replace("// ", "//x ")),
        ("[a](b)", "\\[a\\](b)"),
        ("\x1b[0m", "\\\\x1b\\[0m"),
    ],
)
def test_a_text_is_shown_as_it_is(given: str, written: str) -> None:
    assert escape(given) == written
