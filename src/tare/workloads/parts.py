"""Put together the records that the preload library writes in parts, as kernels/common/parts.c cuts them.

A launcher may put the text of one rank into the middle of another's line. So a part is short, numbered and checked,
and stands there twice: `@tare-part NUMBER more|last BYTES CRC-32 TEXT`. What a launch writes has its key in the mark,
`@tare:KEY ` and `@tare-part:KEY `.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from typing import Final

PREFIX: Final = "@tare "
"""What a record begins with that is not in parts; a part has none, or its broken copy would be taken for a record."""
MARK: Final = "@tare-part "
HEADER: Final = re.compile(rb"@tare-part (\d{1,9}) (more|last) (\d{1,3}) ([0-9a-f]{8}) ")


OTHERS: Final = "(tare"
"""What the marks of other launches begin with in an output that `of_launch` returned."""


class ForeignRecordError(ValueError):
    """A record was printed by something else than tare's library."""


class PartMissingError(ValueError):
    """Both copies of a part are broken; the message has its number."""


def of_launch(stdout: str, key: str) -> str:
    """Return an output in which the records of the launch with this key are marked without it, and no others are."""
    for mark in (PREFIX, MARK):
        word = mark.rstrip()
        stdout = stdout.replace(mark, f"{OTHERS}{word[5:]}) ").replace(f"{word}:{key} ", mark)
        stdout = stdout.replace(f"{word}:", f"{OTHERS}{word[5:]}:")
    return stdout


def has_records(stdout: str) -> bool:
    """Tell whether any of tare's programs wrote to an output, be it in another launch."""
    return PREFIX in stdout or MARK in stdout or OTHERS in stdout


def with_whole_records(stdout: str) -> Iterator[str]:
    """Yield the lines of an output, and a record in parts as one line in the place of its last part.

    With records in parts no other line is a record: every rank may print, and only the library writes parts.
    Another first part begins the report of another program of the same launch. A part whose number is too high may be
    an earlier one behind the cut header of a later one: its copy is waited for. Raises `PartMissingError` if a part is
    missing, and `ForeignRecordError` for a record among parts that is not in parts.
    """
    record, expected, first, beyond = b"", 0, b"", False
    in_parts = MARK in stdout
    for line in stdout.splitlines():
        if MARK not in line:
            if in_parts and PREFIX in line:
                raise ForeignRecordError(f"tare's library did not print the record {line[line.find(PREFIX) :][:60]}...")
            yield line
            continue
        for number, last, text in _parts(line):
            if number == 0 and text != first:
                if record or (beyond and expected):
                    raise PartMissingError(f"part {expected} of the records is missing: another report begins there")
                expected, first = 0, text
            if number < expected:
                continue  # the copy of one that was read
            if number > expected:
                beyond = True
                continue
            record, expected, beyond = record + text, expected + 1, False
            if last:
                yield PREFIX + record.decode(errors="replace")
                record = b""
    if beyond:
        raise PartMissingError(f"part {expected} of the records is broken by other text, twice")
    if record:
        raise PartMissingError(f"part {expected} of the records is missing: the output is cut off or broken")


def _parts(line: str) -> Iterator[tuple[int, bool, bytes]]:
    """Yield the whole parts in a line: the number, whether it ends a record, and the text."""
    content = line.encode(errors="surrogateescape")
    for found in HEADER.finditer(content):
        number, kind, length, checksum = found.groups()
        text = content[found.end() : found.end() + int(length)]
        if len(text) == int(length) and zlib.crc32(text) == int(checksum, 16):
            yield int(number), kind == b"last", text
