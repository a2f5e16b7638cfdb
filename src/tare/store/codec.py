"""Encode values of the model as JSON data and decode them by their type annotations. Pure."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from sys import intern
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
Decoder = Callable[[Any], Any]


def encode(value: Any) -> Any:
    """Return JSON data for a value of the model.

    A dataclass becomes an object with its class name as `type`. Floats are exact; those that JSON cannot represent
    (nan, inf) become text.
    """
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else repr(float(value))
    if is_dataclass(value) and not isinstance(value, type):
        return {"type": type(value).__name__} | {f.name: encode(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): encode(inner) for key, inner in value.items()}
    if isinstance(value, Sequence):
        return [encode(inner) for inner in value]
    if hasattr(value, "item"):  # a NumPy scalar
        return encode(value.item())
    raise TypeError(f"{type(value).__name__} cannot be stored")


def decode(cls: type[T], data: Any) -> T:
    """Return the value of type `cls` that `encode` turned into `data`.

    Unknown keys are ignored and missing keys take their defaults, so that a field can be added without a new format.
    Raises `ValueError` if the data does not fit.
    """
    return decoder_of(cls)(data)  # type: ignore[arg-type, no-any-return]


@cache
def decoder_of(wanted: Any) -> Decoder:
    """Return the function that decodes data of a type; results have 20,000 trials, so it is made once a type."""
    origin = get_origin(wanted)
    if wanted is Any:
        return lambda data: data
    if origin in (Union, types.UnionType):
        return _union_decoder(get_args(wanted))
    if origin in (tuple, Sequence):
        item = decoder_of(get_args(wanted)[0])
        return lambda data: tuple(map(item, expect(data, list)))
    if origin is Mapping:
        item = decoder_of(get_args(wanted)[1])
        return lambda data: {intern(key): item(inner) for key, inner in expect(data, dict).items()}
    if wanted is float:
        return _decode_float
    if is_dataclass(wanted):
        return _dataclass_decoder(wanted)
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return lambda data: _decode_enum(wanted, data)
    return lambda data: data if type(data) is wanted else expect(data, wanted)


def _decode_float(data: Any) -> float:
    if type(data) is float:
        return data
    if isinstance(data, str) and data not in ("nan", "inf", "-inf"):
        raise ValueError(f"{data!r} is not a number")
    try:
        return float(expect(data, int, float, str))
    except OverflowError:
        raise ValueError("an integer is too large for a number") from None


def _union_decoder(members: Sequence[Any]) -> Decoder:
    optional = type(None) in members
    choices = [member for member in members if member is not type(None)]
    decoders = {choice.__name__: decoder_of(choice) for choice in choices}

    def decode_member(data: Any) -> Any:
        if data is None:
            if optional:
                return None
            raise ValueError("a value is missing")
        if len(choices) == 1:
            return decoder_of(choices[0])(data)
        name = expect(data, dict).get("type")
        if not isinstance(name, str) or name not in decoders:
            raise ValueError(f"{name!r:.60} is not one of {', '.join(decoders)}")
        return decoders[name](data)

    return decode_member


def _decode_enum(wanted: type[Enum], data: Any) -> Enum:
    try:
        return wanted(data)
    except (TypeError, ValueError):
        raise ValueError(f"{data!r:.60} is not one of {', '.join(repr(choice.value) for choice in wanted)}") from None


def _dataclass_decoder(wanted: Any) -> Decoder:
    fields_of_class = [(name, hint, decoder_of(hint), needed) for name, hint, needed in fields_of(wanted)]

    def decode_fields(data: Any) -> Any:
        given = expect(data, dict)
        if given.get("type", wanted.__name__) != wanted.__name__:
            raise ValueError(f"found {given['type']!r:.60} instead of {wanted.__name__}")
        values = {}
        for name, hint, decoder, needed in fields_of_class:
            if name in given:
                value = given[name]
                values[name] = value if type(value) is hint else decoder(value)  # most are plain texts and numbers
            elif needed:
                raise ValueError(f"{wanted.__name__} lacks {name}")
        return wanted(**values)

    return decode_fields


@cache
def fields_of(wanted: Any) -> tuple[tuple[str, Any, bool], ...]:
    """Return the fields of a dataclass: name, type, and whether it has no default."""
    hints = get_type_hints(wanted)
    return tuple((f.name, hints[f.name], f.default is MISSING and f.default_factory is MISSING) for f in fields(wanted))


def expect(data: Any, *allowed: type) -> Any:
    """Return data whose type is one of those allowed; raise `ValueError` for any other."""
    if not isinstance(data, allowed) or (isinstance(data, bool) and bool not in allowed):
        raise ValueError(f"found {data!r:.60} instead of {' or '.join(kind.__name__ for kind in allowed)}")
    return data
