"""Read what a program did: the record `work` of tare's preload library, and the program's own output."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tare.model import Work
from tare.model.text import printable
from tare.workloads.output import OutputError, number

RECORD: Final = re.compile("@tare(?:-part)? ")
"""What tare's records, and their parts, begin with."""
COLUMNS: Final = ("read_bytes", "written_bytes", "received_bytes", "sent_bytes", "threads", "user_s")
"""What ranks report at their end (kernels/wall/work.h)."""
MOST_BYTES: Final = 1e18
MOST_NAMES: Final = 4096
"""Characters of the names of preloaded libraries."""
MOST_TEXT: Final = 1 << 14
"""Characters of an output that has a digest: one of a larger output would take milliseconds."""
PATH: Final = re.compile(rb"/\S+")
NUMBERS: Final = b"0123456789abcdefx.+- "
"""The characters of numbers and addresses, and what pads them: the other letters tell one word from another."""


def own_output(stdout: str) -> str:
    """Return a program's own output: stdout without tare's records. A line that was cut off has no line end."""
    kept: list[str] = []
    for line in stdout.splitlines(keepends=True):
        before = RECORD.split(line, maxsplit=1)[0] if "@tare" in line else line
        if before == line:
            kept.append(line)
        elif before:
            kept.append(f"{before}\n")
    return "".join(kept)


def work_of(found: Sequence[Mapping[str, Any]], text: str) -> Work | None:
    """Return what the program of a launch did, None if no record says it; `text` is its own output.

    Raises `OutputError` for an impossible number.
    """
    record = next((each for each in found if each["type"] == "work"), None)
    if record is None:
        return None
    ranks = int(found[0]["ranks"])
    columns = {name: _column(record[f"rank_{name}"], ranks) for name in COLUMNS}
    hosts = {str(each["hostname"]) for each in found if each["type"] == "rank"}
    same = _without(text.encode(errors="surrogatepass"), hosts) if len(text) <= MOST_TEXT else b""
    user_s = columns.pop("user_s")
    return Work(
        **{name: None if values is None else sum(values) for name, values in columns.items()},
        user_s=None if user_s is None else min(user_s),
        preloads=printable(" ".join(map(str, record["preloads"])))[:MOST_NAMES],
        output_bytes=len(text),
        output_lines=sum(map(bool, text.splitlines())),
        output=_digest(same),
        words=_digest(PATH.sub(b"", same).translate(None, NUMBERS)),
    )


def _column(values: object, ranks: int) -> list[float] | None:
    """Return what each rank reported, None if some rank does not know."""
    if values is None:
        return None
    if not isinstance(values, list) or len(values) != ranks:
        raise OutputError(f"the record of what ranks did is not of {ranks} ranks")
    numbers = [number(value) for value in values]
    if not all(0 <= value <= MOST_BYTES for value in numbers):
        raise OutputError("the record of what ranks did has an impossible number")
    return numbers


def _without(text: bytes, hosts: Iterable[str]) -> bytes:
    """Return a text without the names of the ranks' hosts, which environments have each their own."""
    known = (name.encode(errors="surrogatepass") for name in hosts if name)
    names = sorted((name for name in known if name in text), key=len, reverse=True)
    return re.sub(rb"\b(?:" + b"|".join(map(re.escape, names)) + rb")\b", b"*", text) if names else text


def _digest(text: bytes) -> str:
    """Return a digest of lines in whatever order: ranks print side by side."""
    return hashlib.sha256(b"\n".join(filter(None, sorted(text.split(b"\n"))))).hexdigest()[:16]
