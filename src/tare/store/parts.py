"""Fill the parts that trials share with the values of one trial, at once or when the result is used. Pure."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from sys import getsizeof
from typing import Any, Final, TypeVar, Union, get_args, get_origin, overload

from tare.store.codec import check_type, decoder_of, expect, fields_of
from tare.store.shared import VARYING

T = TypeVar("T")
Values = str | tuple[str, ...]
"""The values of one trial for a part: numbers as one text, separated by blanks, or the words of a command."""

Filler = Callable[[Iterator[str]], Any]

LONGEST_NUMBER: Final = 25
"""Characters; the longest float has 24."""


@dataclass(slots=True, kw_only=True, eq=False)
class Part:
    """A part that is ready to be filled: its gaps, its number of items, the length of its JSON.

    `checked` tells whether a value that was made of it has been examined, `kept_bytes` is the memory of such a value
    (0: none was made). A part equals itself only.
    """

    fill: Filler
    gaps: int
    length: int
    size_bytes: int
    checked: bool = False
    kept_bytes: int = 0

    def made(self, values: Values) -> Any:
        """Return the part filled with values; raise `ValueError` if they do not fit."""
        return self.fill(iter(self.split(values)))

    def split(self, values: Values) -> Sequence[str]:
        """Return the values one by one; raise `ValueError` if there are too many, too few or too long ones."""
        split = values.split(" ") if isinstance(values, str) else values
        if len(split) != self.gaps:
            raise ValueError(f"found {len(split)} values for {self.gaps} places")
        if isinstance(values, str) and max(map(len, split)) > LONGEST_NUMBER:
            raise ValueError(f"a number has more than {LONGEST_NUMBER} characters")
        return split


class LazySequence(Sequence[T]):
    """A sequence that is kept as a part and its values, and made of them at each use."""

    __slots__ = ("part", "values")

    def __init__(self, part: Part, values: Values) -> None:
        self.part, self.values = part, values

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        return self._made()[index]

    def __len__(self) -> int:
        return self.part.length

    def __iter__(self) -> Iterator[T]:
        return iter(self._made())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._made() == tuple(other)

    def __hash__(self) -> int:
        return hash(self._made())

    def __repr__(self) -> str:
        return repr(self._made())

    def _made(self) -> tuple[T, ...]:
        return self.part.made(self.values)  # type: ignore[no-any-return]


def part_of(sequence: Sequence[Any]) -> Part | None:
    """Return what a stored sequence shares with those of other trials, which differ from it only in `VARYING`."""
    return sequence.part if isinstance(sequence, LazySequence) else None


def make_part(wanted: Any, data: Any, size_bytes: int, *, varies: bool) -> Part:
    """Return the part of a value of type `wanted`; raise `ValueError` if it is not one.

    `varies` tells whether any value in it may vary, or only those of `VARYING`.
    """
    return Part(
        fill=_filler(wanted, data, varies),
        gaps=_count_gaps(data),
        length=len(data) if isinstance(data, list) else 0,
        size_bytes=size_bytes,
    )


def held_bytes(value: Any) -> int:
    """Return an upper bound of the memory that a value takes, without its texts, which its like have in common."""
    if isinstance(value, float | int):
        return getsizeof(value)
    inner: Iterable[Any] = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else ()
    if is_dataclass(value):
        inner = (getattr(value, field.name) for field in fields(value))
    return getsizeof(value) + sum(map(held_bytes, inner)) if inner else 0


def _count_gaps(data: Any) -> int:
    if isinstance(data, dict):
        return sum(map(_count_gaps, data.values()))
    if isinstance(data, list):
        return sum(map(_count_gaps, data))
    return data is None


def _filler(wanted: Any, data: Any, varies: bool) -> Filler:
    """Return the function that makes a value of type `wanted`, given the values for its gaps in order."""
    if data is None:
        if not varies:
            raise ValueError("a part lacks a value that does not vary")
        return _gap_filler(wanted)
    if not _count_gaps(data):
        constant = decoder_of(wanted)(data)
        return lambda _: constant
    origin = get_origin(wanted)
    if origin in (tuple, Sequence):
        items = [_filler(get_args(wanted)[0], inner, varies) for inner in expect(data, list)]
        return lambda values: tuple([item(values) for item in items])
    if origin is Mapping:
        inners = expect(data, dict)
        if varies and all(inner is None for inner in inners.values()):
            names, kind = tuple(inners), _gap_type(get_args(wanted)[1])
            return lambda values: dict(zip(names, map(kind, values), strict=False))  # names first: no value is lost
        named = [(name, _filler(get_args(wanted)[1], inner, varies)) for name, inner in inners.items()]
        return lambda values: {name: item(values) for name, item in named}
    if is_dataclass(wanted):
        return _object_filler(wanted, expect(data, dict))
    raise ValueError("a part has gaps where nothing varies")


def _gap_filler(wanted: Any) -> Filler:
    kind = _gap_type(wanted)
    return lambda values: kind(next(values))


def _gap_type(wanted: Any) -> Callable[[str], Any]:
    """Return the type of a gap's value; raise `ValueError` if it is no text or number."""
    origin = get_origin(wanted)
    kinds = [kind for kind in get_args(wanted) if kind is not type(None)] if origin in (Union, types.UnionType) else []
    kind = kinds[0] if len(kinds) == 1 else wanted
    if kind not in (str, int, float):
        raise ValueError("a part has a gap in place of a whole object")
    return kind  # type: ignore[no-any-return]


def _object_filler(wanted: Any, data: Mapping[str, Any]) -> Filler:
    check_type(wanted, data)
    hints = {name: hint for name, hint, _ in fields_of(wanted)}
    if missing := next((name for name, _, needed in fields_of(wanted) if needed and name not in data), None):
        raise ValueError(f"{wanted.__name__} lacks {missing}")
    if unknown := next((name for name, inner in data.items() if name not in hints and _count_gaps(inner)), None):
        raise ValueError(f"a part of {wanted.__name__} has a gap in {unknown!r:.40}")
    varying = VARYING.get(wanted, frozenset())
    fillers = [(name, _filler(hints[name], inner, name in varying)) for name, inner in data.items() if name in hints]
    constants = {name: fill(iter(())) for name, fill in fillers if not _count_gaps(data[name])}
    gaps = [(name, fill) for name, fill in fillers if name not in constants]
    if any(data[name] is not None for name, _ in gaps):
        return lambda values: wanted(**constants, **{name: fill(values) for name, fill in gaps})
    return _flat_filler(wanted, constants, {name: _gap_type(hints[name]) for name, _ in gaps})


def _flat_filler(wanted: Any, constants: Mapping[str, Any], gaps: Mapping[str, Callable[[str], Any]]) -> Filler:
    """Return the filler of an object whose gaps are texts or numbers, of which large results have millions.

    The fields are set as `__init__` of a frozen dataclass sets them, without the passing of all of them by name.
    """
    if hasattr(wanted, "__post_init__"):
        raise TypeError(f"{wanted.__name__} checks its fields, so it must be made by calling it")
    like = wanted(**constants, **{name: kind("0") for name, kind in gaps.items()})
    set_of = {field.name: getattr(wanted, field.name).__set__ for field in fields(wanted)}
    same = [(put, getattr(like, name)) for name, put in set_of.items() if name not in gaps]
    varying = [(set_of[name], kind) for name, kind in gaps.items()]  # first in `zip`, so that no value is lost

    def filled(values: Iterator[str]) -> Any:
        made = object.__new__(wanted)
        for put, constant in same:
            put(made, constant)
        for (put, kind), value in zip(varying, values, strict=False):
            put(made, kind(value))
        return made

    return filled
