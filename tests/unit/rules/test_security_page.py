"""Each promise of SECURITY.md names the tests that hold it, and these are there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from source_tree import ROOT

SECTION = "## What is protected, and how\n"
NAMED = re.compile(r"`(tests/[\w/]+\.py)?(?:::(\w+))?`")
"""A file of tests, a test of it, or `::test` of the file that was named before."""


def promises(page: str) -> list[str]:
    """Return the points of the section, each with the lines that continue it."""
    section = page.partition(SECTION)[2].partition("\n## ")[0]
    return [point.partition("\n\n")[0] for point in re.split(r"^- ", section, flags=re.MULTILINE)[1:]]


def defined_in(file: Path) -> set[str]:
    return {each.name for each in ast.walk(ast.parse(file.read_text())) if isinstance(each, ast.FunctionDef)}


def faults(promise: str) -> Iterator[str]:
    """Yield what is wrong with the tests that a promise names."""
    file, found = "", False
    for path, test in NAMED.findall(promise):
        file, found = path or file, True
        if not (ROOT / file).is_file():
            yield f"{file or test}: there is no such file"
        elif test and not (test.startswith("test_") and test in defined_in(ROOT / file)):
            yield f"{file} has no {test}"
        elif not Path(file).name.startswith("test_"):
            yield f"{file} has no tests"
    if not found:
        yield f"no test: {promise[:60]}"


def test_every_promise_names_tests_that_exist() -> None:
    found = promises((ROOT / "SECURITY.md").read_text())
    assert len(found) > 50, "the section is not read as it is written"
    assert [fault for promise in found for fault in faults(promise)] == []


@pytest.mark.parametrize(
    ("tests", "fault"),
    [
        ("", "no test: Nothing"),
        ("(`test_security_page.py`)", "no test: Nothing"),
        ("(tests/unit/rules/test_security_page.py)", "no test: Nothing"),
        ("(`tests/unit/rules/test_gone.py`)", "tests/unit/rules/test_gone.py: there is no such file"),
        ("(`::test_of_no_file`)", "test_of_no_file: there is no such file"),
        ("(`tests/unit/rules/test_security_page.py::test_gone`)", "test_security_page.py has no test_gone"),
        ("(`tests/unit/rules/test_security_page.py`, `::test_gone`)", "test_security_page.py has no test_gone"),
        ("(`tests/unit/rules/test_security_page.py::faults`)", "test_security_page.py has no faults"),
        ("(`tests/unit/rules/made.py`)", "made.py has no tests"),
    ],
)
def test_a_promise_without_a_test_that_exists_is_found(tests: str, fault: str) -> None:
    good = "`tests/unit/rules/test_security_page.py`, `::test_every_promise_names_tests_that_exist`"
    points = f"- Nothing is\n  lost. {tests}\n- All is well. ({good})\n"
    bad, well = promises(f"# Security\n\n{SECTION}\n### Files\n\n{points}\n## More\n\n- x\n")
    assert list(faults(well)) == []
    (said,) = faults(bad)
    assert fault in said
