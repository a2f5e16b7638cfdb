"""Find the one sentence in a failed job's output that explains the failure. Pure."""

from __future__ import annotations

import re
from typing import Final

from tare.model.text import printable

LONGEST: Final = 300
RULE: Final = re.compile(r"^-{20,}$", re.MULTILINE)
SAID_OF_ANY_FAILURE: Final = (
    "peer process has unexpectedly disconnected",
    "Primary job  terminated normally",
    "processes exited with non-zero status",
)
"""Messages of mpirun that report only that some rank has ended."""


def last_words(stderr: str) -> str:
    """Return why a job failed: its own last line, else mpirun's most specific message; "" if nothing explains it.

    mpirun's messages are enclosed in two rules each, so they alternate with the program's output. Characters that would
    control a terminal are escaped.
    """
    parts = RULE.split(stderr)
    own = [line.strip() for part in parts[::2] for line in part.splitlines() if line.strip()]
    own = [
        line for line in own if not line.startswith(("[", "INFO: "))
    ]  # Open MPI's trace of a crash, Apptainer's notices
    if own:
        return printable(own[-1][:LONGEST])
    messages = [" ".join(part.strip().split("\n\n", 1)[0].split()) for part in parts[1::2]]
    telling = [message for message in messages if message and not _is_general(message)]
    return printable(telling[-1].split(". ", 1)[0].rstrip(".")[:LONGEST]) if telling else ""


def _is_general(message: str) -> bool:
    return any(" ".join(phrase.split()) in message for phrase in SAID_OF_ANY_FAILURE)
