"""Write the exit codes, the error classes and their messages in docs/errors.md, as the code has them.

Without an argument it writes them between the page's markers; with --check it ends with 1 where the page differs.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
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
from tare.system.packages import COMMANDS

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCE: Final = ROOT / "src" / "tare"
PAGE: Final = ROOT / "docs" / "errors.md"
BEGIN: Final = "<!-- tools/errors_page.py writes from here -->\n"
WIDTH: Final = 120
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
    (EXIT_OVER_LIMIT, "`tare check`", "the job is broken, or slower than it need be", "change what each finding says"),
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
    (EXIT_INCONCLUSIVE, "`tare check`", "the program's MPI could not be asked", "give the program that calls MPI"),
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
        "remove the reason, which stands beside the suspect, and run it again with `--run`",
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
    (FAILED, "`tare launch`", "tare failed; the message is one of those below", "as that message says"),
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


@cache
def tree_of(path: Path) -> ast.Module:
    """Return a parsed module."""
    return ast.parse(path.read_text())


@cache
def constants(path: Path) -> Mapping[str, str]:
    """Return the module's own constants and those that it imports from tare, as far as they are literals."""
    found: dict[str, str] = {}
    for node in tree_of(path).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tare."):
            base = SOURCE.joinpath(*(node.module or "").split(".")[1:])
            origin = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
            imported = {alias.name for alias in node.names if alias.name.isupper()}
            found |= {name: text for name, text in constants(origin).items() if name in imported} if imported else {}
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and isinstance(node.value.value, str | int | float):
                value = node.value.value
                found[target.id] = value if isinstance(value, str) else f"{value:g}"
    return found


def text_of(node: ast.expr | None, known: Mapping[str, str]) -> str | None:
    """Return what a literal, an f-string or a constant says, None for any other expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part, known) or "" for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return placeholder(node.value, known)
    if isinstance(node, ast.IfExp):  # a remedy that is given only where one is known
        return text_of(node.body, known) or text_of(node.orelse, known)
    if isinstance(node, ast.Call):
        return installed_by(node, known)
    return known.get(node.id) if isinstance(node, ast.Name) else None


def placeholder(node: ast.expr, known: Mapping[str, str]) -> str:
    """Return a constant's value, `{name}` for a variable or an attribute, `...` for what is calculated."""
    if isinstance(node, ast.Name):
        return known.get(node.id) or ("..." if node.id.strip("_").isupper() else f"{{{node.id.strip('_')}}}")
    if isinstance(node, ast.Attribute):
        owner = placeholder(node.value, known)
        return owner if node.attr == "name" and owner not in {"{self}", "..."} else f"{{{node.attr.strip('_')}}}"
    return (installed_by(node, known) if isinstance(node, ast.Call) else None) or "..."


def installed_by(node: ast.Call, known: Mapping[str, str]) -> str | None:
    """Return what the functions of `tare.system.packages` say on Debian, None for the call of another function."""
    command = {"install": COMMANDS["apt"], "install_python": "python3 -m pip install"}
    if not isinstance(node.func, ast.Name) or node.func.id not in command:
        return None
    packages = [text_of(part, known) or placeholder(part, known) for part in node.args]
    return f"{command[node.func.id]} {' '.join(packages)}"


def messages() -> dict[str, list[str]]:
    """Return the messages of every class in alphabetical order: values known only at run time are `{name}` or `...`."""
    names = {error.__name__ for error in classes()}
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted(SOURCE.rglob("*.py")):
        if path.relative_to(SOURCE).parts[0] == "sources":  # links to C sources
            continue
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names and node.args:
                text = text_of(node.args[0], constants(path))
                if text and isinstance(node.args[0], ast.Constant | ast.JoinedStr):
                    found[node.func.id].add(text)
    return {name: sorted(each, key=in_order) for name, each in found.items()}


def in_order(text: str) -> tuple[str, str]:
    """Return what a message is sorted by: its words, without placeholders and signs."""
    return re.sub(r"\{\w+\}|[^a-z ]", "", text.lower()).strip(), text


def code(text: str) -> str:
    """Return a text as code, on one line."""
    text = " ".join(text.split())
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def section(error: type[TareError], known: list[str]) -> Iterator[str]:
    """Yield the lines on one class: what it means, what to do, its messages."""
    meaning, commands, remedy = described(error)
    yield from (f"### {error.__name__}: exit code {error.exit_code}", "", *textwrap.wrap(linked(meaning), WIDTH), "")
    for item in (f"- Commands: {commands}", f"- What to do: {linked(remedy)}"):
        yield from textwrap.wrap(item, WIDTH, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)
    if known:
        yield "- Messages:"
    for message in known:
        yield f"  - {code(message)}"
    yield ""


def linked(text: str) -> str:
    """Return a text in which pages of docs/ are links."""
    return re.sub(r"\bdocs/(\w+\.md)", r"[\1](\1)", text)


def written() -> str:
    """Return what stands between the markers."""
    known = messages()
    order = ", ".join(map(str, EXIT_PRECEDENCE[:-1]))
    lines = ["## Exit codes", "", "| code | command | meaning | what to do |", "|---|---|---|---|"]
    lines += [f"| {number} | {command} | {meaning} | {do} |" for number, command, meaning, do in CODES]
    lines += ["", f"If several apply to a study, the first of {order} wins.", "", "## Classes and messages", ""]
    for error in classes():
        lines += section(error, known.get(error.__name__, []))
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Write or check the page and return the exit code."""
    text = PAGE.read_text()
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        print(f"{PAGE.name} has no place for the messages: {BEGIN.strip()} ... {END.strip()}", file=sys.stderr)
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
