"""Write the exit codes and the error classes in docs/errors.md, as the code has them.

Without an argument it writes them between the page's markers; with --check it ends with 1 where the page differs.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tare import errors
from tare.cli.launch_command import FAILED, NOT_EXECUTABLE, NOT_FOUND
from tare.errors import (
    EXIT_CELLS_FAILED,
    EXIT_DONE,
    EXIT_INCONCLUSIVE,
    EXIT_INFRASTRUCTURE,
    EXIT_INTERRUPTED,
    EXIT_OVER_LIMIT,
    EXIT_PRECEDENCE,
    EXIT_UNFINISHED,
    EXIT_USAGE,
    TareError,
)

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "errors.md"
BEGIN: Final = "<!-- tools/errors_page.py writes from here -->\n"
END: Final = "<!-- to here -->\n"
STUDY: Final = "`tare run`, `tare quick`, `tare report`"
CODES: Final = (
    (EXIT_DONE, "all", "done", "-"),
    (EXIT_OVER_LIMIT, STUDY, "the mean cost of an environment is above the study's `limit`", "read the report"),
    (
        EXIT_OVER_LIMIT,
        "`tare doctor --locality`",
        "the two ranks do not share memory as fast as they could",
        "apply the remedies that it prints",
    ),
    (
        EXIT_OVER_LIMIT,
        "`tare history --fail-on-change`",
        "a series is slower since one of the last results",
        "see what differs since then; `tare compare` of the two results says more",
    ),
    (
        EXIT_USAGE,
        "all",
        "wrong usage, a bad file, or a combination that cannot work; nothing was measured",
        "correct the input",
    ),
    (
        EXIT_INCONCLUSIVE,
        STUDY,
        "at least one comparison is inconclusive",
        "raise `rounds` and run the same command again",
    ),
    (EXIT_INCONCLUSIVE, "`tare explain`", "a cost has no proven cause", "add `--run`; docs/explaining.md"),
    (
        EXIT_CELLS_FAILED,
        STUDY,
        "a cell is invalid, did other work than the baseline's or fails more, or nothing could be compared",
        "the report gives each reason",
    ),
    (
        EXIT_CELLS_FAILED,
        "`tare explain`",
        "a suspect could not be measured, so a cost has no proven cause",
        "remove the reason, which is shown with the suspect, and run it again with `--run`",
    ),
    (
        EXIT_INFRASTRUCTURE,
        "all",
        "something is missing or broke; `tare doctor`: the baseline cannot run here",
        "follow the message; `tare doctor` lists what is missing",
    ),
    (
        EXIT_UNFINISHED,
        "`tare run`",
        "the allocation of Slurm ends before the study does; what was measured is stored",
        "the same command in another allocation resumes; `tare submit` does that by itself",
    ),
    (FAILED, "`tare launch`", "tare failed, by one of the errors below", "as the message says"),
    (NOT_EXECUTABLE, "`tare launch`", "the program is not executable", "`chmod +x`"),
    (NOT_FOUND, "`tare launch`", "there is no such program, here or in the image", "check the path and the image"),
    (EXIT_INTERRUPTED, "all", "interrupted by Ctrl-C, SIGTERM or SIGHUP; cleaned up", "the same command resumes"),
)
"""Exit code, the commands that end with it, its meaning, and what to do."""


def classes(base: type[TareError] = TareError) -> Iterator[type[TareError]]:
    """Yield the errors of tare.errors in the order of their tree."""
    yield base
    for child in base.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from classes(child)


def described(error: type[TareError]) -> tuple[str, str, str]:
    """Return meaning, commands and remedy from a docstring; exits where one of them is missing."""
    text = " ".join((error.__doc__ or "").split())
    parts = re.fullmatch(r"(.+?) Commands: (.+?) Remedy: (.+)", text)
    if parts is None:
        sys.exit(f"the docstring of {error.__name__} needs a sentence, `Commands: ...` and `Remedy: ...`")
    meaning, commands, remedy = parts.groups()
    return meaning, commands, remedy


def linked(text: str) -> str:
    """Return a text in which pages of docs/ are links."""
    return re.sub(r"\bdocs/(\w+\.md)", r"[\1](\1)", text)


def written() -> str:
    """Return what is between the markers."""
    order = ", ".join(map(str, EXIT_PRECEDENCE[:-1]))
    lines = ["## Exit codes", "", "| code | command | meaning | what to do |", "|---|---|---|---|"]
    lines += [f"| {number} | {command} | {meaning} | {do} |" for number, command, meaning, do in CODES]
    lines += ["", f"If several apply to a study, the first of {order} wins.", "", "## Classes", ""]
    lines += ["| error | code | meaning | what to do |", "|---|---|---|---|"]
    for error in classes():
        meaning, _, remedy = map(linked, described(error))
        lines += [f"| {error.__name__} | {error.exit_code} | {meaning} | {remedy} |"] if error is not TareError else []
    return "\n".join([*lines, ""])


def main(arguments: list[str]) -> int:
    """Write or check the page and return the exit code."""
    text = PAGE.read_text()
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        print(f"{PAGE.name} has no place for the errors: {BEGIN.strip()} ... {END.strip()}", file=sys.stderr)
        return 1
    new = f"{head}{begin}\n{written()}\n{end}{tail}"
    if arguments == ["--check"]:
        if new != text:
            print(f"{PAGE.name} differs from the code: run tools/errors_page.py", file=sys.stderr)
        return int(new != text)
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
