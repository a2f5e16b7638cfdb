"""The targets of tests, as CONTRIBUTING tells them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
NOT_TESTS = {"help", "setup", "demo", "papers-%", "lint", "format", "types", "docs", "wheel", "lock", "clean"}


def test_contributing_has_a_line_for_each_target_of_tests() -> None:
    told = re.findall(r"^\| `make ([a-z-]+)` \| \S", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    made = re.findall(r"^([a-z%-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert sorted(told) == sorted(set(made) - NOT_TESTS)
