"""The terms of docs/glossary.md are those that the documentation uses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "glossary.md"
ROWS = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", PAGE.read_text(), re.MULTILINE)
MEANINGS = {term: meaning for term, meaning in ROWS if term != "term"}
TERMS = sorted({word for term in MEANINGS for word in term.split(" / ")})
FAMILIES = ("runtime", "network", "cluster", "MPI", "workload")
"""The plug-ins by what README and docs/architecture.md call them."""
OTHERS = "\n".join(
    page.read_text() for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if page != PAGE
)


def used(term: str, text: str) -> bool:
    """Tell whether a text has a term, in the singular or the plural, also broken over two lines."""
    words = r"\s+".join(map(re.escape, term.split()))
    return re.search(rf"\b{words}(?:s|es)?\b", text, re.IGNORECASE) is not None


def test_the_glossary_has_terms_and_none_twice_in_a_table() -> None:
    assert len(MEANINGS) >= 28
    assert len(MEANINGS) == len([term for term, _ in ROWS if term != "term"])


@pytest.mark.parametrize("term", TERMS)
def test_a_term_of_the_glossary_is_used_in_the_documentation(term: str) -> None:
    assert used(term, OTHERS), f"neither README nor docs/ has {term!r}"


def test_a_term_that_nobody_uses_would_be_found() -> None:
    assert not used("frobnication floor", OTHERS)
    assert not used("turn", "turnover")


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_of_plug_ins_is_in_the_glossary(family: str) -> None:
    assert family in MEANINGS


def test_the_families_are_the_folders_of_plug_ins() -> None:
    folders = {"runtimes", "networks", "cluster", "mpi", "workloads"}
    assert {name.lower().rstrip("s") for name in FAMILIES} == {name.rstrip("s") for name in folders}
    assert all((ROOT / "src" / "tare" / name / "__init__.py").is_file() for name in folders)


def test_the_index_leads_to_the_glossary() -> None:
    assert "(glossary.md)" in (ROOT / "docs" / "index.md").read_text()
