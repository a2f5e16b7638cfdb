"""Turn the usage errors of typer into tare's."""

from __future__ import annotations

import typer

from tare.errors import UsageError


def usage_error(message: str, context: typer.Context | None) -> UsageError:
    """Return an error of typer as a `UsageError`; `context` is the command that it is about."""
    if context is None:
        return UsageError(message)
    listed = "commands" if hasattr(context.command, "commands") else "arguments and options"
    sentence = f"{message[:1].lower()}{message[1:]}".rstrip(".").replace(". Did you", "; did you")
    return UsageError(sentence, remedy=f"`{context.command_path} --help` lists the {listed}")
