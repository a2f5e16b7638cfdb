"""Programs that are not there: scripts of the shell that stand for them."""

from __future__ import annotations

from pathlib import Path


def put_program(path: Path, script: str) -> Path:
    """Write a program that the shell runs, and the folders that it is in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def put_speaker(path: Path, says: str) -> Path:
    """Write a program that prints a text, whatever it is told."""
    return put_program(path, f"cat <<'END'\n{says}\nEND")
