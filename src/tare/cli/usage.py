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
OF_BOTH: Final = {"mpi": "--mpi", "transport": "--transport", "image": "--image", "binds": "--bind", "env": "--env"} | {
    "cluster": "--cluster", "threads_per_rank": "--threads-per-rank",
}  # fmt: skip
OPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "quick": {**OF_BOTH, "time_limit": "--time-limit", "rounds": "--rounds"},
    "launch": {
        **OF_BOTH,
        "binding": "--binding",
        "control": "--control",
        "cpus_per_container": "--cpus",
        "devices": "--device",
        "launch": "--launch",
        "map_by": "--map-by",
        "memory_per_container": "--memory",
        "network": "--network",
        "oversubscribe": "--oversubscribe",
        "runtime": "--runtime",
        "share": "--share",
        "workdir": "--workdir",
    },
}
"""The option of each command for a study's key."""
OTHERS: Final = (
    "cores_per_node", "cpu_weight", "daemon", "link", "pmi", "rank_order", "sides", "subnets",
)  # fmt: skip
KEYS: Final = "|".join(sorted({*OTHERS, *(key for own in OPTIONS.values() for key in own)}))
NAMED: Final = re.compile(
    rf"(?P<before>\b(?:use|or|set|with|needs|remove) |`)(?P<key>{KEYS}): (?P<value>[\w:.+-]*\w)(?P<after>`?)"
)
ALONE: Final = re.compile(rf"`(?P<key>{KEYS})`")
PLACE: Final = " in the placement"
IN_A_STUDY: Final = " in a study file"


def worded(text: str, command: str) -> str:
    """Return a message as a command prints it; those of commands that read a study file stay as they are."""
    if command not in OPTIONS:
        return text
    return "\n".join(_line(line, OPTIONS[command]) for line in text.split("\n"))


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
