"""Turn what ssh says into a sentence with what to do. Pure."""

from __future__ import annotations

import re
from typing import Final

MISSING_PYTHON: Final = re.compile(
    r"python3: (?:command )?not found|exec: python3|command not found: python3|Unknown command: python3|"
    r"python3: No such file"
)
SENTENCES: Final = (
    (re.compile(r"REMOTE HOST IDENTIFICATION HAS CHANGED"),
     "its host key is not the one in known_hosts: find out why, then remove the old one with `ssh-keygen -R HOST`"),
    (re.compile(r"Host key verification failed"),
     "its host key is not known: run `ssh HOST` once, compare the fingerprint, and accept it"),
    (re.compile(r"Permission denied|Too many authentication failures"),
     "it refuses your key: try `ssh HOST true`, which must work without a password"),
    (re.compile(r"Could not resolve hostname"), "there is no host of this name: see `hosts`, and ~/.ssh/config"),
    (re.compile(r"Connection refused"), "nothing accepts ssh connections there"),
    (re.compile(r"timed out|Timeout, server|not responding"), "it does not answer"),
    (re.compile(r"No route to host|Network is unreachable"), "there is no route to it"),
    (re.compile(r"No space left on device|Disk quota exceeded"), "its home folder is full"),
    (MISSING_PYTHON, "it has no python3 in PATH: install Python 3.9 or later there"),
)  # fmt: skip


def explained(host: str, words: str) -> str:
    """Return why a connection failed, in one sentence; the last line of `words` if it is none that is known."""
    for pattern, sentence in SENTENCES:
        if pattern.search(words):
            return sentence.replace("HOST", host)
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "the connection was closed"
