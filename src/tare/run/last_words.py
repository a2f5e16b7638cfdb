"""Find in what a failed job said the one sentence that tells why. Pure."""

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
"""Messages of mpirun that say only that some rank is gone."""


def last_words(stderr: str) -> str:
    """Return why a job went wrong, by its own last line, else by mpirun's most telling message; "" if nothing tells.

    mpirun's messages stand between two rules, so that they alternate with what the program says. What would steer a
    terminal is written as its escape.
    """
    parts = RULE.split(stderr)
    own = [line.strip() for part in parts[::2] for line in part.splitlines() if line.strip()]
    own = [
        line for line in own if not line.startswith(("[", "INFO: "))
    ]  # Open MPI's trace of a crash, Apptainer's news
    if own:
        return printable(own[-1][:LONGEST])
    messages = [" ".join(part.strip().split("\n\n", 1)[0].split()) for part in parts[1::2]]
    telling = [message for message in messages if message and not _is_general(message)]
    return printable(telling[-1].split(". ", 1)[0].rstrip(".")[:LONGEST]) if telling else ""


def _is_general(message: str) -> bool:
    return any(" ".join(phrase.split()) in message for phrase in SAID_OF_ANY_FAILURE)
