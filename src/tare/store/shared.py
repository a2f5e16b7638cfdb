"""Store what trials have in common once: divide a value into a part that recurs, and the values that vary.

    shared.jsonl    {"digest":"kfjaobmbicgpnhel","value":[{"rank":0,"pid":null,"rights":{...}}, ...]}
    trials.jsonl    {..., "ranks":{"$ref":"kfjaobmbicgpnhel","values":"24 31"}, ...}

In a part, `null` stands where the values of a trial go, in order; a field that is `None` is left out. A part is synced
before the first line that refers to it, so a line never refers to a part that a crash could lose. Pure, except for
memory: `tare.store.writer` writes parts, `tare.store.trial_lines` reads lines (docs/adr/0021-shared-facts.md).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Final

from tare import model
from tare.store.codec import encode
from tare.system.foreign_files import make_printable, read_json

REFERENCE: Final = "$ref"
VALUES: Final = "values"
MOST_FILLED_BYTES: Final = 8 << 30
"""Largest text of all parts that are filled in at each use; 100,000 trials of 1,000 ranks on few nodes are below it."""
MOST_KEPT_BYTES: Final = 1 << 30
"""Largest memory of all values that are filled in once and kept; 100,000 trials of ten metrics are below it."""

VARYING: Final[Mapping[type, frozenset[str]]] = {
    model.Metric: frozenset(
        {
            "value",
            "median_s",
            "p99_s",
            "rank_average_s",
            "samples",
            "late",
            "loop_s",
            "turn_mean_s",
            "turn_spread_s",
            "noise",
        }
    ),
    model.Figure: frozenset({"value"}),
    model.RankPlace: frozenset({"pid", "namespaces", "shm_device"}),
    model.InterfaceTraffic: frozenset({"rx_bytes", "tx_bytes", "rx_packets", "tx_packets"}),
}
"""The fields whose values are a trial's own; the others belong to the part."""

LEAVES: Final = (str, int, float)
_LETTERS: Final = str.maketrans("0123456789", "ghijklmnop")
_LINE: Final = re.compile(rb'\{"digest":"([a-p]{16})","value":(.*)\}', re.DOTALL)


def digest_of(text: bytes) -> str:
    """Return the digest of a part; it has letters only, so that no digest looks like a large number."""
    return hashlib.blake2b(text, digest_size=8).hexdigest().translate(_LETTERS)


def dump(value: Any) -> bytes:
    """Return JSON data as stored, without blanks."""
    return json.dumps(value, separators=(",", ":")).encode()


def divide(value: Any, *, varies: bool = False) -> tuple[Any, list[Any]]:
    """Return the part of a value with `null` in place of what varies, and the varying values in order.

    With `varies`, all numbers in the value vary.
    """
    values: list[Any] = []
    return _part_of(value, varies, values), values


def _part_of(value: Any, varies: bool, values: list[Any]) -> Any:
    if isinstance(value, LEAVES):  # most are, and to ask a leaf whether it is a mapping takes longest
        return _leaf_of(value, varies, values)
    if is_dataclass(value) and not isinstance(value, type):
        part: dict[str, Any] = {"type": type(value).__name__}
        for name, varying in _fields_of(type(value)):
            inner = getattr(value, name)
            if inner is not None:
                part[name] = _part_of(inner, varying, values)
        return part
    if isinstance(value, Mapping):
        return {str(key): _part_of(inner, varies, values) for key, inner in value.items()}
    if isinstance(value, Sequence):
        return [_part_of(inner, varies, values) for inner in value]
    return _leaf_of(value, varies, values)


def _leaf_of(value: Any, varies: bool, values: list[Any]) -> Any:
    data = encode(value)
    if data is None:
        raise TypeError("a part cannot contain None")
    if not varies:
        return data
    values.append(data)
    return None


@cache
def _fields_of(kind: type) -> tuple[tuple[str, bool], ...]:
    """Return the fields of a class of the model by name, and whether each varies."""
    return tuple((field.name, field.name in VARYING.get(kind, ())) for field in fields(kind))


def join(values: list[Any]) -> str:
    """Return numbers as one text, which takes less time to read than a list; floats are exact."""
    return " ".join(value if isinstance(value, str) else repr(value) for value in values)


def fill(part: Any, values: Iterator[Any]) -> Any:
    """Return a part with the values of a trial in their places."""
    if part is None:
        return next(values)
    if isinstance(part, dict):
        return {name: fill(inner, values) for name, inner in part.items()}
    if isinstance(part, list):
        return [fill(inner, values) for inner in part]
    return part


def _number(text: str) -> int | float:
    return int(text) if text.isdecimal() else float(text)


def is_reference(data: Any) -> bool:
    """Return whether JSON data refers to a part."""
    return type(data) is dict and REFERENCE in data


def line_of(digest: str, text: bytes) -> bytes:
    """Return the line of a part in shared.jsonl."""
    return b'{"digest":"%b","value":%b}\n' % (digest.encode(), text)


class Shared:
    """The parts of a results folder by digest, as JSON text; each is parsed when a trial refers to it."""

    def __init__(self) -> None:
        self._texts: dict[str, bytes] = {}
        self._filled_bytes = self._kept_bytes = 0

    def text(self, digest: str) -> bytes | None:
        """Return the JSON text of a part, or None."""
        return self._texts.get(digest)

    def add(self, digest: str, text: bytes) -> None:
        """Add a part."""
        self._texts[digest] = text

    def parse(self, digest: str, *, to_show: bool = False) -> Any:
        """Return a part; raise `ValueError` if the folder lacks it."""
        text = self._texts.get(digest)
        if text is None:
            raise ValueError(f"shared.jsonl lacks the part {digest!r:.40}")
        value = read_json(text)
        return make_printable(value) if to_show else value

    def size_bytes(self, digest: str) -> int:
        """Return the length of a part's JSON text."""
        return len(self._texts[digest])

    def count_filled(self, size_bytes: int) -> None:
        """Count a part that is filled in at each use; raise `ValueError` if all are larger than any study's results."""
        self._filled_bytes += size_bytes
        if self._filled_bytes > MOST_FILLED_BYTES:
            raise _too_large(MOST_FILLED_BYTES)

    def count_kept(self, size_bytes: int) -> None:
        """Count the memory of a filled part that is kept; raise `ValueError` if all together take too much."""
        self._kept_bytes += size_bytes
        if self._kept_bytes > MOST_KEPT_BYTES:
            raise _too_large(MOST_KEPT_BYTES)

    def filled(self, data: Any) -> Any:
        """Return a line's JSON data with all references filled in, as tare 0.1 stored it."""
        if is_reference(data):
            values = data.get(VALUES, ())
            numbers = map(_number, values.split()) if isinstance(values, str) else values
            return fill(self.parse(data[REFERENCE]), iter(numbers))
        if isinstance(data, dict):
            return {name: self.filled(inner) for name, inner in data.items()}
        return data


def _too_large(most_bytes: int) -> ValueError:
    return ValueError(f"the trials up to this one have more than {most_bytes >> 30} GiB of shared facts")


def read_lines(data: bytes, most_damaged: int = 0) -> tuple[Shared, int, list[int]]:
    """Return the parts in the content of shared.jsonl, the length of its valid lines, and the numbers of damaged ones.

    Up to `most_damaged` lines are passed over, so one more number means that the rest was not read. The last line may
    be torn by a crash: then no trial refers to it, and it is passed over.
    """
    shared, end, damaged = Shared(), 0, list[int]()
    lines = data.split(b"\n")
    for number, line in enumerate(lines[:-1], start=1):
        match = _LINE.fullmatch(line)
        if match is None or digest_of(match[2]) != match[1].decode():
            if number == len(lines) - 1 and not lines[-1]:
                break
            damaged.append(number)
            if len(damaged) > most_damaged:
                break
            continue
        shared.add(match[1].decode(), match[2])
        end += len(line) + 1 if not damaged else 0
    return shared, end, damaged
