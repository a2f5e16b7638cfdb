"""Fill in the values that lines of tare 0.2.0 refer to: what trials had in common was stored once, by digest. Pure.

    shared.jsonl    {"digest":"kfjaobmbicgpnhel","value":[{"rank":0,"pid":null,"rights":{...}}, ...]}
    trials.jsonl    {..., "ranks":{"$ref":"kfjaobmbicgpnhel","values":"24 31"}, ...}

In a part, `null` stands where the values of a trial go, in order: numbers as one text, or a list of texts. A field
of a trial may be a reference, and so may a field of its outcome (docs/adr/0034-whole-records.md).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tare.store.codec import expect
from tare.system.foreign_files import make_printable, read_json

REFERENCE: Final = "$ref"
VALUES: Final = "values"
MOST_FILLED: Final = 1 << 25
"""Most values in all parts together that lines refer to; each takes up to 110 bytes of memory, so they take 4 GiB."""

_LETTERS: Final = str.maketrans("0123456789", "ghijklmnop")
_LINE: Final = re.compile(rb'\{"digest":"([a-p]{16})","value":(.*)\}', re.DOTALL)


def digest_of(text: bytes) -> str:
    """Return the digest of a part; it has letters only, so that no digest looks like a large number."""
    return hashlib.blake2b(text, digest_size=8).hexdigest().translate(_LETTERS)


class Shared:
    """The parts of a results folder by digest. With `to_show`, their texts are made printable."""

    def __init__(self, *, to_show: bool = False) -> None:
        self._texts: dict[str, bytes] = {}
        self._parts: dict[str, tuple[Any, int]] = {}
        self._to_show = to_show
        self._filled = 0

    def add(self, digest: str, text: bytes) -> None:
        """Add a part as JSON text."""
        self._texts[digest] = text

    def filled(self, line: Mapping[str, Any]) -> dict[str, Any]:
        """Return the JSON data of a whole record; raise `ValueError` if a reference cannot be filled in."""
        whole = {name: self._referred(data) for name, data in line.items()}
        outcome = whole.get("outcome")
        if isinstance(outcome, dict):
            whole["outcome"] = {name: self._referred(data) for name, data in outcome.items()}
        return whole

    def _referred(self, data: Any) -> Any:
        """Return data, or the part that it refers to with the trial's values in it."""
        if not isinstance(data, dict) or REFERENCE not in data:
            return data
        digest, given = expect(data[REFERENCE], str), data.get(VALUES, [])
        part, count = self._part(digest)
        self._filled += count
        if self._filled > MOST_FILLED:
            raise ValueError(f"the trials up to this one refer to more than {MOST_FILLED:,} values")
        values = read_json(f"[{given.replace(' ', ',')}]".encode()) if isinstance(given, str) else expect(given, list)
        left = iter(values)
        try:
            whole = _fill(part, left)
        except StopIteration:
            raise ValueError(f"{len(values)} values are fewer than the places of their part") from None
        if any(True for _ in left):
            raise ValueError(f"{len(values)} values are more than the places of their part")
        return whole

    def _part(self, digest: str) -> tuple[Any, int]:
        """Return a part and the number of its values; raise `ValueError` if the folder lacks it."""
        if digest not in self._texts:
            raise ValueError(f"shared.jsonl lacks the part {digest!r:.40}")
        if digest not in self._parts:
            part = read_json(self._texts[digest])
            self._parts[digest] = make_printable(part) if self._to_show else part, _count(part)
        return self._parts[digest]


def _count(part: Any) -> int:
    inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    return 1 + sum(map(_count, inner))


def _fill(part: Any, values: Iterator[Any]) -> Any:
    if part is None:
        return next(values)
    if isinstance(part, dict):
        return {name: _fill(inner, values) for name, inner in part.items()}
    if isinstance(part, list):
        return [_fill(inner, values) for inner in part]
    return part


def read_parts(data: bytes, most_damaged: int, *, to_show: bool = False) -> tuple[Shared, list[int]]:
    """Return the parts in the content of shared.jsonl, and the numbers of its damaged lines.

    Up to `most_damaged` lines are passed over, so one more number means that the rest was not read. The last line may
    be torn by a crash: then no trial refers to it, and it is passed over.
    """
    shared, damaged = Shared(to_show=to_show), list[int]()
    lines = data.split(b"\n")
    for number, line in enumerate(lines[:-1], start=1):
        match = _LINE.fullmatch(line)
        if match is not None and digest_of(match[2]) == match[1].decode():
            shared.add(match[1].decode(), match[2])
        elif lines[-1] or number < len(lines) - 1:
            damaged.append(number)
            if len(damaged) > most_damaged:
                break
    return shared, damaged
