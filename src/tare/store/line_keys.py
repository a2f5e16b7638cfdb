"""Read from a line of trials.jsonl only what a run needs to resume. Pure.

A line exactly as tare writes it is recognised by one regular expression, which takes a third of the time of parsing
it as JSON. Any other line is parsed.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final, get_args

from tare import model
from tare.store.codec import decoder_of, expect, fields_of
from tare.store.trial_lines import parse

_KEY: Final = decoder_of(model.TrialKey)
_OUTCOMES: Final = frozenset(kind.__name__ for kind in get_args(model.Outcome))

_PLAIN: Final = bytes(code for code in range(0x20, 0x7F) if code != ord("\\"))
"""The characters that stand for themselves in JSON texts; a line with any other is parsed."""

# Nothing in the expression is tried twice (`*+`, `++`), so no line takes longer than its length allows. Digits are
# limited as `parse` limits those of integers.
_TEXT: Final = r'"[^"]*+"'
_COUNT: Final = r"(0|[1-9]\d{0,18}+)"
_NUMBER: Final = r"-?(?:0|[1-9]\d{0,18}+)(?:\.\d++)?+(?:[eE][+-]?\d++)?+"


def _value(levels: int) -> str:
    """Return the pattern of a value with so many levels of objects and lists."""
    choices = [_TEXT, _NUMBER, "true", "false", "null"]
    if levels:
        inner = _value(levels - 1)
        choices += [rf"\{{(?:{_TEXT}:{inner}(?:,{_TEXT}:{inner})*+)?+\}}", rf"\[(?:{inner}(?:,{inner})*+)?+\]"]
    return f"(?>{'|'.join(choices)})"


def _field(name: str) -> str:
    """Return the pattern of a field's value in a line."""
    if name == "key":
        numbers = "".join(f',"{number}":{_COUNT}' for number, _, _ in fields_of(model.TrialKey)[1:])
        return rf'\{{"type":"TrialKey","cell":"([^"]*+)"{numbers}\}}'
    if name == "outcome":
        value = _value(2)
        return rf'\{{"type":"({"|".join(sorted(_OUTCOMES))})"(?:,"(?!type")[a-z_]++":{value})*+\}}'
    if name == "samples_file":
        return r'"([^"]*+)"'
    return _value(2 if name == "argv" else 1)


@cache
def _as_written() -> re.Pattern[bytes]:
    """Return the expression; it takes some ms to compile."""
    fields = "".join(f',"{name}":{_field(name)}' for name, _, _ in fields_of(model.Trial))
    return re.compile(rf'\{{"type":"Trial"{fields}\}}'.encode())


class LineKeys:
    """Read the keys of the lines of one file; `cells` are those of its plan."""

    def __init__(self, cells: frozenset[str]) -> None:
        self._match = _as_written().fullmatch
        self._cells = {cell.encode(errors="surrogatepass"): cell for cell in cells}

    def read(self, line: bytes) -> tuple[model.TrialKey, str, str]:
        """Return the key of a line's trial, the name of its outcome's class, and its file of samples ("": none).

        Raises `ValueError` if the line is none of a trial; nothing else of it is examined.
        """
        match = None if line.translate(None, _PLAIN) else self._match(line)
        cell = self._cells.get(match[1]) if match else None
        if match is None or cell is None:
            return _parsed(line)
        _, round_, block, attempt, repeat, outcome, file = match.groups()
        key = model.TrialKey(cell=cell, round=int(round_), block=int(block), attempt=int(attempt), repeat=int(repeat))
        return key, outcome.decode(), file.decode()


def _parsed(line: bytes) -> tuple[model.TrialKey, str, str]:
    given = expect(parse(line), dict)
    key, outcome = _KEY(given.get("key")), expect(given.get("outcome"), dict).get("type")
    if outcome not in _OUTCOMES:
        raise ValueError(f"{outcome!r:.60} is not an outcome")
    return key, outcome, expect(given.get("samples_file", ""), str)
