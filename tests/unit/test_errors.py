"""The tree of errors: exit codes are distinct where the user can act differently, and messages are sentences."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tare
from tare import errors
from tare.analysis.summary import exit_code
from tare.errors import (
    CellsFailed,
    CommandFailed,
    CommandTimeout,
    ImageError,
    InfrastructureError,
    LabEnded,
    MissingTool,
    RefusedError,
    RequestFailed,
    ResultsError,
    StudyError,
    TareError,
    UsageError,
)

CODES = {name: value for name, value in vars(errors).items() if name.startswith("EXIT_") and isinstance(value, int)}
DOCUMENTED = {
    UsageError: 2, StudyError: 2, RefusedError: 2, ImageError: 2, ResultsError: 2, CellsFailed: 4,
    InfrastructureError: 5, LabEnded: 5, MissingTool: 5, CommandFailed: 5, CommandTimeout: 5, TareError: 5,
    RequestFailed: 5,
}  # fmt: skip


def every_error(base: type[TareError] = TareError) -> set[type[TareError]]:
    return {base}.union(*(every_error(child) for child in base.__subclasses__()))


def test_the_exit_codes_are_distinct_and_as_documented() -> None:
    assert sorted(CODES.values()) == [0, 1, 2, 3, 4, 5, 6, 130]


def test_every_error_has_the_code_that_the_tree_shows() -> None:
    ours = {error for error in every_error() if error.__module__ == "tare.errors"}
    assert {error: error.exit_code for error in ours} == DOCUMENTED


def test_every_error_stands_in_the_drawing_with_its_code() -> None:
    assert errors.__doc__ is not None
    drawn = dict(line.strip("| +-").split()[:2] for line in errors.__doc__.splitlines() if line.startswith("    "))
    assert drawn == {error.__name__: str(code) for error, code in DOCUMENTED.items()}


@pytest.mark.parametrize(
    ("codes", "expected"),
    [([], 0), ([0], 0), ([3, 0], 3), ([3, 1], 1), ([1, 4, 3], 4), ([3, 1, 4, 5, 0], 5), ([5, 4], 5), ([1, 1], 1)],
)
def test_of_several_codes_the_weightiest_is_the_commands(codes: list[int], expected: int) -> None:
    assert exit_code(codes) == expected
    assert exit_code(reversed(codes)) == expected


@pytest.mark.parametrize("error", sorted(DOCUMENTED, key=lambda e: e.__name__), ids=lambda e: e.__name__)
def test_an_error_says_what_failed_and_then_what_to_do(error: type[TareError]) -> None:
    assert str(error("n0 is gone")) == "n0 is gone"
    told = error("n0 is gone", remedy="make it again")
    assert str(told).splitlines() == ["n0 is gone", "  make it again"]
    assert (told.message, told.remedy) == ("n0 is gone", "make it again")


def test_a_failed_command_carries_its_argv_and_the_end_of_what_it_said() -> None:
    error = CommandFailed("it failed", argv=["a", "b"], status=3, stderr_tail="no such thing")
    assert (error.argv, error.status, error.stderr_tail) == (("a", "b"), 3, "no such thing")


def test_numbers_of_things_are_formatted_by_counted() -> None:
    """No message says `2 rank(s)`."""
    found = [
        f"{path.name}:{number}"
        for path in Path(tare.__file__).parent.rglob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(r"[}0-9] [a-z]+\(s\)", line)
    ]
    assert found == []
