"""Define the keys of a workload's commands, which run on a node itself, and of the answers that are expected."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, StringConstraints, WithJsonSchema

from tare.study.value_types import Checked, Duration

LONGEST_PATTERN: Final = 1000
WORD: Final[dict[str, Any]] = {"type": ["string", "integer"]}
"""The schema of a word: a number is written without quotes."""


def _no_zero_byte(text: str) -> str:
    if "\0" in text:
        raise ValueError("a word of a command cannot have a zero byte")
    return text


def _one_line(text: str) -> str:
    if len(text.splitlines()) > 1 or text.endswith(("\n", "\r")):
        raise ValueError("a pattern is compared with one line of output: write it without a line end")
    return text


CommandWord = Annotated[str, StringConstraints(min_length=1), AfterValidator(_no_zero_byte), WithJsonSchema(WORD)]
Command = Annotated[list[CommandWord], Field(min_length=1)]
Pattern = Annotated[
    str, StringConstraints(min_length=1, max_length=LONGEST_PATTERN), AfterValidator(_one_line), WithJsonSchema(WORD)
]


class ExpectIn(Checked):
    """What a command must answer: its exit status, and patterns of lines of its output (`*` is any text)."""

    exit: Annotated[int, Field(ge=0, le=255)] = Field(default=0, description="the status with which it ends")
    line: Pattern | None = Field(default=None, description="a line of its output matches this pattern")
    no_line: Pattern | None = Field(default=None, description="no line of its output matches this pattern")


class CommandIn(Checked):
    """A command that runs on the first node, and the answer that is expected."""

    run: Command = Field(
        description="the program and its arguments, one a word; {image}, {name} and {network} are replaced"
    )
    expect: ExpectIn = Field(
        default=ExpectIn(), description="a pattern of a line of its output, or what else it must answer"
    )
    within_s: Duration | None = Field(
        default=None, alias="within", description="run it again until it answers as expected, for at most this time"
    )
