"""Write the commands of tare with their arguments, options and defaults into docs/reference/commands.md, from the code.

Without an argument it writes the page; with --check it ends with 1 where the page differs.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any, Final

import typer.main

from tare.cli.app import app

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "reference" / "commands.md"
HEAD: Final = """# Commands

Every command with its arguments and options, as `tare COMMAND --help` has them (`tools/commands_page.py` writes this
page). The exit codes are in [errors](../errors.md).
"""
SHARED: Final = "Options of several commands"


def commands(group: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the commands below a group in alphabetical order, each with its whole name."""
    for word, command in sorted(group.commands.items()):
        if command.hidden:
            continue
        if hasattr(command, "commands"):
            if command.invoke_without_command:
                yield f"{name} {word}", command
            yield from commands(command, f"{name} {word}")
        else:
            yield f"{name} {word}", command


def default(option: Any) -> str:
    """Return what is taken without an option, in words; nothing where `--help` does not say it."""
    if isinstance(option.show_default, str):
        return f" Default: {option.show_default}."
    is_calculated = callable(option.default)
    if option.param_type_name == "argument" or option.is_flag or not option.show_default or is_calculated:
        return ""
    if option.default in (None, "", [], ()):
        return ""
    return f" Default: {getattr(option.default, 'value', option.default)}."


def listed(parameter: Any) -> str:
    """Return the line on an argument or an option."""
    if parameter.param_type_name == "argument":
        names = [parameter.metavar or parameter.name.upper()]
    else:
        names = sorted((*parameter.opts, *parameter.secondary_opts), key=lambda name: not name.startswith("--"))
        names[0] += "" if parameter.is_flag else f" {parameter.metavar or 'VALUE'}"
    name = ", ".join(f"`{each}`" for each in names)
    said = " ".join((parameter.help or "").split())
    return f"- {name}: {said}{default(parameter)}"


def parameters(command: Any) -> list[Any]:
    """Return the arguments and options of a command that its help shows."""
    return [each for each in command.params if not getattr(each, "hidden", False) and each.name != "help"]


def section(name: str, command: Any, shared: Set[str]) -> Iterator[str]:
    """Yield the lines on a command; options that other commands have as well are only named."""
    yield from (f"## {name}", "", (command.help or "").strip(), "")
    lines = {listed(each): each for each in parameters(command)}
    own = [line for line in lines if line not in shared]
    yield from own
    if also := [f"`{each.opts[0]}`" for line, each in lines.items() if line in shared]:
        yield f"- [As elsewhere](#{SHARED.lower().replace(' ', '-')}): {', '.join(also)}"
    if lines:
        yield ""


def written() -> str:
    """Return the page."""
    named = list(commands(typer.main.get_command(app), "tare"))
    counts = Counter(
        listed(each) for _, command in named for each in parameters(command) if each.param_type_name != "argument"
    )
    often = [line for line, count in counts.items() if count > 1 and len(line.split()) > 5]
    names = Counter(line.split()[1] for line in often)  # `--name` has two meanings, so each command says its own
    shared = {line for line in often if names[line.split()[1]] == 1}
    lines = [line for name, command in named for line in section(name, command, shared)]
    return "\n".join([HEAD, *lines, f"## {SHARED}", "", *sorted(shared)]) + "\n"


def main(arguments: list[str]) -> int:
    """Write or check the page and return the exit code."""
    new = written()
    if arguments == ["--check"]:
        is_same = PAGE.exists() and PAGE.read_text() == new
        if not is_same:
            print(f"{PAGE.name} differs from the code: run tools/commands_page.py", file=sys.stderr)
        return int(not is_same)
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
