"""Compare the answer of a command on a node with the one that a study expects. Pure.

Output is foreign: a bounded part of it is compared and shown, and a pattern cannot take long to match.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from tare.model import NodeCommand
from tare.model.text import printable

WORDS: Final[Mapping[str, str]] = {
    "image": "the image of the environment: its tag in Docker, elsewhere its file or folder",
    "name": "a name that no other launch on the machine uses, for what the commands make",
    "network": "the name by which Docker knows the environment's network",
}
"""What is replaced in the words of a command where it is in braces."""

BRACED: Final = re.compile(rf"(?<![{{$])\{{({'|'.join(WORDS)})\}}(?!\}})")
COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
COMPARED: Final = 1 << 16
"""Characters of an output that are compared."""
LONGEST_LINE: Final = 1 << 12
SHOWN: Final = 300
"""Characters of an output, and of a command, that a message has."""


def words_in(words: Sequence[str]) -> set[str]:
    """Return which of `WORDS` a command names."""
    return {found for word in words for found in BRACED.findall(word)}


def replaced(words: Sequence[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """Return a command with the values of the words in braces; a word without a value stays."""
    return tuple(BRACED.sub(lambda match: values.get(match[1], match[0]), word) for word in words)


def complaint(command: NodeCommand, words: Sequence[str], status: int, stdout: str, stderr: str) -> str:
    """Return what is wrong with an answer as one printable sentence, "" if it is as expected.

    `words` are the command as it ran; lines are those of stdout, then those of stderr.
    """
    lines = list(lines_of(stdout, stderr))
    if status != command.exit:
        return _sentence(words, f"ended with status {status}, not {command.exit}, and printed", lines)
    if command.line and not any(fnmatchcase(line, command.line) for line in lines):
        return _sentence(words, f"was expected to print a line like {command.line!r}, but printed", lines)
    forbidden = [line for line in lines if command.no_line and fnmatchcase(line, command.no_line)]
    if forbidden:
        return _sentence(words, f"was expected to print no line like {command.no_line!r}, but printed", forbidden)
    return ""


def lines_of(stdout: str, stderr: str) -> Iterator[str]:
    """Yield the lines that are compared, without colours and without blanks at their ends."""
    for text in (stdout, stderr):
        for line in COLOUR.sub("", text[:COMPARED]).splitlines():
            if stripped := line.strip()[:LONGEST_LINE]:
                yield stripped


def shown(words: Sequence[str]) -> str:
    """Return a command as a shell reads it, printable and not too long."""
    return _cut(printable(shlex.join(words)))


def _sentence(words: Sequence[str], what: str, lines: Sequence[str]) -> str:
    printed = _cut(" / ".join(map(printable, lines[: SHOWN // 2]))) or "nothing"
    return f"`{shown(words)}` {printable(what)}: {printed}"


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."
