"""Read which subordinate IDs an ordinary user has, without which it can have no user namespace with several users."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import Final

LEAST_IDS: Final = 65536
"""Number of subordinate IDs that an image's files need; useradd gives as many to each user."""


def lacks_ids() -> str | None:
    """Return that this user has too few subordinate IDs, with the command that adds them, or None."""
    name = user_name()
    for kind, option in (("subuid", "--add-subuids"), ("subgid", "--add-subgids")):
        if count_ids(_text(Path("/etc") / kind), name, os.geteuid()) < LEAST_IDS:
            return (
                f"/etc/{kind} gives user {name} fewer than {LEAST_IDS} subordinate IDs: have an administrator run "
                f"usermod {option} 100000-165535 {name}, with a range that no other user has"
            )
    return None


def count_ids(text: str, name: str, number: int) -> int:
    """Return how many subordinate IDs a user has, from the text of /etc/subuid (subuid(5))."""
    entries = (line.split(":") for line in text.splitlines())
    return sum(int(entry[2]) for entry in entries if len(entry) == 3 and entry[0] in (name, str(number)))


def user_name() -> str:
    """Return this user's name, or its number if it has none."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
