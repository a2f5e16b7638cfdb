"""Write an HTML page to the file that `--html` names."""

from __future__ import annotations

from pathlib import Path

from tare.errors import UsageError


def write_page(path: Path, page: str) -> None:
    """Write a page; raise `UsageError` if it cannot be written."""
    try:
        path.write_text(page, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise UsageError(
            f"the page cannot be written to {path}: {error.strerror}", remedy="name another file with --html"
        ) from error
