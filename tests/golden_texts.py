"""Golden files of many texts that are much alike: each text is whole, or what differs from one above it.

Nothing is left out: the differences, with the numbers of their lines, make a text again. So a text that changes in one
token changes in one line of the file, and those that follow it do not change.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from difflib import unified_diff
from pathlib import Path


def check_golden(file: Path, texts: Mapping[str, str]) -> None:
    """Compare texts with their file; `TARE_UPDATE_GOLDEN=1` writes it: read the difference."""
    _check(file, rendered(texts))


def check_commands(file: Path, commands: Iterable[Iterable[str]]) -> None:
    """Compare command lines with their file, one word a line, as `check_golden` does."""
    _check(file, "\n".join("".join(f"{word}\n" for word in command) for command in commands))


def _check(file: Path, text: str) -> None:
    if os.environ.get("TARE_UPDATE_GOLDEN") == "1":
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert file.read_text(encoding="utf-8").splitlines() == text.splitlines()


def rendered(texts: Mapping[str, str]) -> str:
    """Return the contents of a file: under each name the text, or how it differs from the one that is most like it."""
    names: dict[str, list[str]] = {}
    for name, text in texts.items():
        assert text.endswith("\n")
        names.setdefault(text, []).append(name)
    lines: list[str] = []
    above: list[str] = []
    for text, (name, *others) in names.items():
        own = text.splitlines()
        changes = [(list(unified_diff(each.splitlines(), own, n=0, lineterm=""))[2:], each) for each in above]
        fewest, like = min(changes, key=lambda change: len(change[0]), default=(own, ""))
        if len(fewest) < len(own) / 2:
            lines += [f"== {name}: as {names[like][0]}, but", *fewest]
        else:
            lines += [f"== {name}", *own]
        if others:
            lines.append(f"== as {name}: {' '.join(others)}")
        above.append(text)
    return "\n".join(lines) + "\n"
