"""Word what is wrong with a command line, and remedies for the command that prints them."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Final

import typer

from tare.errors import UsageError

WRONG_RANKS: Final = "Invalid value for '-n'"
"""How typer's message about a wrong value of -n begins."""
KEYS: Final = "|".join(
    (
        "binding", "binds", "cluster", "control", "cores_per_node", "cpu_weight", "cpus_per_container", "daemon",
        "devices", "env", "image", "launch", "link", "map_by", "memory_per_container", "mpi", "network",
        "oversubscribe", "pmi", "rank_order", "rounds", "runtime", "share", "sides", "subnets", "threads_per_rank",
        "time_limit", "transport", "workdir",
    )
)  # fmt: skip
"""Keys of a study that remedies name."""
OTHERWISE: Final[Mapping[str, str]] = {
    "binds": "--bind", "cpus_per_container": "--cpus", "devices": "--device", "memory_per_container": "--memory",
}  # fmt: skip
"""The option for a key where a command calls it otherwise."""
READS_A_STUDY: Final = "study"
"""The argument of commands that a study file is given to: its keys are what they have."""
NAMED: Final = re.compile(
    rf"(?P<before>\b(?:use|or|set|with|needs|remove) |`)(?P<key>{KEYS}): (?P<value>[\w:.+-]*\w)(?P<after>`?)"
)
ALONE: Final = re.compile(rf"`(?P<key>{KEYS})`")
PLACE: Final = " in the placement"
IN_A_STUDY: Final = " in a study file"


def worded(text: str, command: str) -> str:
    """Return a message as a command prints it; those of commands that read a study file stay as they are."""
    options = options_of(command) if NAMED.search(text) or ALONE.search(text) else None
    return text if options is None else "\n".join(_line(line, options) for line in text.split("\n"))


def given_command() -> str:
    """Return the name of the command that this process was started with; "" if it has none."""
    return next(iter(sys.argv[1:]), "")


def options_of(name: str) -> Mapping[str, str] | None:
    """Return the option of a command for each key of a study that it has; None if it reads a study, or is none."""
    from tare.cli.app import app

    command = getattr(typer.main.get_command(app), "commands", {}).get(name)
    if command is None or any(each.name == READS_A_STUDY for each in command.params) or hasattr(command, "commands"):
        return None
    known = {option for each in command.params for option in each.opts}
    names = {key: OTHERWISE.get(key, f"--{key.replace('_', '-')}") for key in KEYS.split("|")}
    return {key: option for key, option in names.items() if option in known}


def _line(line: str, options: Mapping[str, str]) -> str:
    """Return a line without the alternatives that only a study file has; if there are no others, it says so."""
    first, *more = re.split(r"(?<=[\w`)]), or ", line)
    parts = [first, *(f"or {part}" for part in more)]
    kept = [part for part in parts if _is_possible(part, options)]
    if not kept or not _is_possible(first, options):
        return NAMED.sub(lambda found: _option(found, options), line.replace(PLACE, ""))
    said = NAMED.sub(lambda found: _option(found, options), ", ".join(kept)).replace(PLACE, "")
    said = ALONE.sub(lambda found: f"`{options.get(found['key'], found['key'])}`", said)
    return said + ")" * (said.count("(") - said.count(")"))


def _is_possible(part: str, options: Mapping[str, str]) -> bool:
    return all(found["key"] in options for found in NAMED.finditer(part))


def _option(found: re.Match[str], options: Mapping[str, str]) -> str:
    key, value = found["key"], found["value"]
    if key not in options:
        return f"{found[0]}{IN_A_STUDY}"
    return f"{found['before']}{options[key]}{'' if value == 'true' else f' {value}'}{found['after']}"


def usage_error(message: str, context: typer.Context | None) -> UsageError:
    """Return an error of typer as a `UsageError`; `context` is the command that it is about."""
    if context is None:
        return UsageError(message)
    if message.startswith(WRONG_RANKS) and "-np" in sys.argv:  # which is read as -n with the value p
        per_node = " on each node" if "per-node" in message else " of the whole job"
        return UsageError("there is no option -np", remedy=f"write -n 2: the number of ranks{per_node}")
    listed = "commands" if hasattr(context.command, "commands") else "arguments and options"
    sentence = f"{message[:1].lower()}{message[1:]}".rstrip(".").replace(". Did you", "; did you")
    return UsageError(sentence, remedy=f"`{context.command_path} --help` lists the {listed}")
