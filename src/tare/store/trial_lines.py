"""Decode the lines of trials.jsonl, those of earlier releases too, and encode trials as lines. Pure.

Places of ranks, traffic and commands are checked when a line is read, but decoded when they are used: 100,000 trials
would otherwise need gigabytes.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any, Final, TypeVar, get_args, get_origin, overload

from tare import model
from tare.host.foreign import make_printable, read_json
from tare.store.codec import check_type, decoder_of, encode, expect, fields_of
from tare.store.results_checks import check_ranks, check_traffic, check_trial
from tare.store.shared import REFERENCE, VALUES, VARYING, Shared, digest_of, divide, dump, is_reference

T = TypeVar("T")
Filler = Callable[[Iterator[Any]], Any]

UNUSUAL: Final = re.compile(rb"[^\x20-\x5b\x5d-\x7e]|(?<![0-9.])[0-9]{19}|[0-9][eE]\+?[0-9]{2}|NaN|Infinity")
"""What may be a text that is not printable, or a number that is too large; only a line with it is examined closely."""

SHORT: Final = 64
"""Values whose JSON is at most this long are not worth a reference."""

SHARED: Final = ("noise", "argv", "ranks", "traffic", "mpi_library", "facts")
"""The fields of a trial that may be references; so may the metrics of its outcome."""

VARY: Final = frozenset({"noise", "argv"})
"""Of these any value may vary, of the others only the fields of `VARYING`."""

LATER: Final[Mapping[str, Callable[[Any], None]]] = {
    "argv": lambda _: None,
    "ranks": check_ranks,
    "traffic": check_traffic,
}
"""The fields that are decoded when they are used, with what checks their values."""

TYPES: Final = {name: hint for kind in (model.Completed, model.Trial) for name, hint, _ in fields_of(kind)}

_FIELDS: Final = tuple((name, decoder_of(hint), needed) for name, hint, needed in fields_of(model.Trial))
_FIGURES: Final = decoder_of(TYPES["figures"])
_JSON: Final = json.JSONDecoder()


class Later(Sequence[T]):
    """A sequence that is kept as a part and its values, and decoded at each use."""

    __slots__ = ("_part", "_values")

    def __init__(self, part: Part, values: Sequence[Any]) -> None:
        self._part, self._values = part, values

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        return self._decoded()[index]

    def __len__(self) -> int:
        return self._part.length

    def __iter__(self) -> Iterator[T]:
        return iter(self._decoded())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._decoded() == tuple(other)

    def __hash__(self) -> int:
        return hash(self._decoded())

    def __repr__(self) -> str:
        return repr(self._decoded())

    def _decoded(self) -> tuple[T, ...]:
        return self._part.fill(iter(self._values))  # type: ignore[no-any-return]


@dataclass(slots=True, kw_only=True)
class Part:
    """A part of trials, ready to be filled: the number of its gaps, its number of items, and the length of its JSON."""

    fill: Filler
    gaps: int
    length: int
    size_bytes: int
    checked: bool = False


class TrialLines:
    """Decode the lines of one file. With `to_show`, texts are made printable."""

    def __init__(self, shared: Shared, *, to_show: bool = False) -> None:
        self._shared, self._to_show = shared, to_show
        self._parts: dict[tuple[str, str], Part] = {}

    def decode(self, line: bytes) -> model.Trial:
        """Return the trial of a line; raise `ValueError` if it is none, or if a part that it refers to is missing."""
        given = expect(self._parsed(line), dict)
        check_type(model.Trial, given)
        values: dict[str, Any] = {}
        for name, decoder, needed in _FIELDS:
            if name not in given:
                if needed:
                    raise ValueError(f"Trial lacks {name}")
                continue
            data = given[name]
            if name == "outcome" and isinstance(data, dict) and is_reference(data.get("metrics")):
                values[name] = self._completed(data)
            elif name in SHARED and is_reference(data):
                values[name] = self._referred(name, data)
            else:
                values[name] = value = decoder(data)
                if name in LATER:
                    LATER[name](value)
        return check_trial(model.Trial(**values))

    def _parsed(self, line: bytes) -> Any:
        if UNUSUAL.search(line) is None:
            try:
                return _JSON.decode(line.decode("ascii"))
            except RecursionError:
                raise ValueError("it is nested too deeply") from None
        value = read_json(line)
        return make_printable(value) if self._to_show else value

    def _completed(self, data: Mapping[str, Any]) -> model.Completed:
        check_type(model.Completed, data)
        metrics = self._referred("metrics", data["metrics"])
        return model.Completed(metrics=metrics, figures=_FIGURES(data.get("figures", [])))

    def _referred(self, name: str, data: Mapping[str, Any]) -> Any:
        """Return the value of a reference."""
        digest, values = expect(data[REFERENCE], str), expect(data.get(VALUES, []), list)
        part = self._parts.get((name, digest))
        if part is None:
            part = self._parts[name, digest] = self._part(name, digest)
        if len(values) != part.gaps:
            raise ValueError(f"{name} has {len(values)} values for {part.gaps} places")
        if not part.gaps:
            return part.fill(iter(()))
        self._shared.count_filled(part.size_bytes)
        if name not in LATER:
            return part.fill(iter(values))
        packed = _pack(name, values)
        if not part.checked:
            LATER[name](part.fill(iter(packed)))
            part.checked = True
        return Later(part, packed)

    def _part(self, name: str, digest: str) -> Part:
        data = self._shared.parse(digest, to_show=self._to_show)
        part = Part(
            fill=_filler(TYPES[name], data, name in VARY),
            gaps=_count_gaps(data),
            length=len(data) if isinstance(data, list) else 0,
            size_bytes=self._shared.size_bytes(digest),
        )
        if not part.gaps and name in LATER:
            LATER[name](part.fill(iter(())))
        return part


def _pack(name: str, values: list[Any]) -> Sequence[Any]:
    """Return values that are kept, in little memory."""
    if name == "argv":
        return tuple([expect(value, str) for value in values])
    try:
        return array("Q", values)
    except (TypeError, OverflowError):
        raise ValueError(f"{name} has a value that is not a count") from None


def _count_gaps(part: Any) -> int:
    if isinstance(part, dict):
        return sum(map(_count_gaps, part.values()))
    if isinstance(part, list):
        return sum(map(_count_gaps, part))
    return part is None


def _filler(wanted: Any, part: Any, varies: bool) -> Filler:
    """Return the function that makes a value of type `wanted` of a part and the values for its gaps, in order."""
    if part is None:
        if not varies:
            raise ValueError("a part lacks a value that does not vary")
        decoder = decoder_of(wanted)
        return lambda values: decoder(next(values))
    if not _count_gaps(part):
        constant = decoder_of(wanted)(part)
        return lambda _: constant
    origin = get_origin(wanted)
    if origin in (tuple, Sequence):
        items = [_filler(get_args(wanted)[0], inner, varies) for inner in expect(part, list)]
        return lambda values: tuple([item(values) for item in items])
    if origin is Mapping:
        named = [(name, _filler(get_args(wanted)[1], inner, varies)) for name, inner in expect(part, dict).items()]
        return lambda values: {name: item(values) for name, item in named}
    if is_dataclass(wanted):
        return _object_filler(wanted, expect(part, dict))
    raise ValueError("a part has gaps where nothing varies")


def _object_filler(wanted: Any, part: Mapping[str, Any]) -> Filler:
    check_type(wanted, part)
    hints = {name: hint for name, hint, _ in fields_of(wanted)}
    if missing := next((name for name, _, needed in fields_of(wanted) if needed and name not in part), None):
        raise ValueError(f"{wanted.__name__} lacks {missing}")
    varying = VARYING.get(wanted, frozenset())
    fillers = [(name, _filler(hints[name], inner, name in varying)) for name, inner in part.items() if name in hints]
    constants = {name: fill(iter(())) for name, fill in fillers if not _count_gaps(part[name])}
    gaps = [(name, fill) for name, fill in fillers if name not in constants]
    if _count_gaps(dict(part)) != sum(_count_gaps(part[name]) for name, _ in gaps):
        raise ValueError(f"a part of {wanted.__name__} has gaps in unknown fields")
    return lambda values: wanted(**constants, **{name: fill(values) for name, fill in gaps})


class LineWriter:
    """Encode trials as lines, and collect the parts that shared.jsonl does not have yet."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._commands: dict[str, list[str | None]] = {}

    def encode(self, trials: Iterable[model.Trial]) -> tuple[bytes, dict[str, bytes]]:
        """Return the lines of trials, and the new parts by digest."""
        parts: dict[str, bytes] = {}
        lines = [dump(self._encoded(trial, parts)) + b"\n" for trial in trials]
        return b"".join(lines), parts

    def _encoded(self, trial: model.Trial, parts: dict[str, bytes]) -> dict[str, Any]:
        line: dict[str, Any] = {"type": "Trial"}
        for name, _, _ in _FIELDS:
            value = getattr(trial, name)
            if name == "argv":
                line[name] = self._command(trial.key.cell, value, parts)
            elif name in SHARED:
                line[name] = self._referred(value, name in VARY, parts)
            elif name == "outcome" and isinstance(value, model.Completed):
                metrics = self._referred(value.metrics, False, parts)
                line[name] = {"type": "Completed", "metrics": metrics, "figures": encode(value.figures)}
            else:
                line[name] = encode(value)
        return line

    def _referred(self, value: Any, varies: bool, parts: dict[str, bytes]) -> Any:
        """Return a reference to the part of a value, or the value itself if it is short or cannot be divided."""
        part, values = divide(value, varies=varies)
        text = dump(part)
        if len(text) <= SHORT or not self._is_stored(digest_of(text), text, parts):
            return encode(value)
        return {REFERENCE: digest_of(text)} | ({VALUES: values} if values else {})

    def _command(self, cell: str, argv: Sequence[str], parts: dict[str, bytes]) -> Any:
        """Return a reference to a command, in which the words vary in which commands of the cell differed so far."""
        common = self._commands.get(cell)
        if common is None or len(common) != len(argv):
            common = list(argv)
        common = [word if word == own else None for word, own in zip(common, argv, strict=True)]
        self._commands[cell] = common
        text = dump(common)
        if len(text) <= SHORT or not self._is_stored(digest_of(text), text, parts):
            return list(argv)
        values = [own for word, own in zip(common, argv, strict=True) if word is None]
        return {REFERENCE: digest_of(text)} | ({VALUES: values} if values else {})

    def _is_stored(self, digest: str, text: bytes, parts: dict[str, bytes]) -> bool:
        """Add a part if it is new; return False if another part has its digest."""
        known = parts.get(digest) or self._shared.text(digest)
        if known is None:
            parts[digest] = text
        return known is None or known == text
