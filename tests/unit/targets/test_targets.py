"""The targets of tests, as CONTRIBUTING tells them."""

from __future__ import annotations

import re
from pathlib import Path

from needs import LATER, NEEDS

ROOT = Path(__file__).parents[3]
NOT_TESTS = {
    "help",
    "setup",
    "demo",
    "papers-%",
    "lint",
    "format",
    "types",
    "docs",
    "wheel",
    "release",
    "lock",
    "clean",
}


def test_contributing_has_a_line_for_each_target_of_tests() -> None:
    told = re.findall(r"^\| `make ([a-z-]+)` \| \S", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    made = re.findall(r"^([a-z%-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert sorted(told) == sorted(set(made) - NOT_TESTS)


def test_a_test_that_needs_what_make_test_does_not_bring_is_in_another_target() -> None:
    later = {name for names in LATER.values() for name in names}
    assert later <= NEEDS.keys()
    brought = re.findall(r"^\t\[(?:run|test)\]=(\"[^\"]*\")", (ROOT / "tools" / "bootstrap").read_text(), re.MULTILINE)
    words = set(re.split(r"[\s\":,=]+", " ".join(brought)))
    assert "docker.io" in words
    assert not {name for name in later if name in words or (name == "mpich5" and "debian-mpich5" in words)}
