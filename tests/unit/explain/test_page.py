"""docs/explaining.md lists the causes that there are."""

from __future__ import annotations

import re
from pathlib import Path

from tare.explain.causes import CAUSES

PAGE = (Path(__file__).parents[3] / "docs" / "explaining.md").read_text()


def test_every_cause_is_in_the_table() -> None:
    table = PAGE.partition("## The causes")[2].partition("\n## ")[0]
    assert re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)[1:] == list(CAUSES)
