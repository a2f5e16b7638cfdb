"""Programs that tests put in the place of real ones."""

from __future__ import annotations

from pathlib import Path


def script(path: Path, text: str = "") -> Path:
    """Write a script of the shell that can be executed, and its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def speaker(path: Path, says: str) -> Path:
    """Write one that prints a text, whatever it is told."""
    return script(path, f"cat <<'END'\n{says}\nEND")
