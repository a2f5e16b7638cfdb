"""Write what `--html`, `--figures` and `-o` name, and say on stderr what happens."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tare.errors import UsageError
from tare.model.text import printable
from tare.system.safe_files import write_output


def say(message: str) -> None:
    """Print a message on stderr; it may have text of an image, a host or a batch system in it."""
    print(printable(message, lines=True), file=sys.stderr, flush=True)


def print_json(listed: object) -> None:
    """Print what `--json` asks for."""
    print(json.dumps(listed, indent=2, ensure_ascii=True, default=str))


@contextmanager
def writing(what: str, path: Path | str, other: str) -> Iterator[None]:
    """Raise `UsageError` if the output cannot be written; `other` says what to name instead."""
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"{what} cannot be written to {path}: {error.strerror}", remedy=f"name another {other}"
        ) from error


def write_page(path: Path, page: str) -> None:
    """Write a page to the file that `--html` names."""
    with writing("the page", path, "file with --html"):
        write_output(path, [page])
