"""Turn the usage errors of typer into tare's."""

from __future__ import annotations

import sys
from typing import Final

import typer

from tare.errors import UsageError

WRONG_RANKS: Final = "Invalid value for '-n'"
"""How typer's message about a wrong value of -n begins."""


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
