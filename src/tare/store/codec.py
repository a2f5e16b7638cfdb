"""Encode values of the model as JSON data and decode them by their type annotations. Pure."""

from __future__ import annotations

import math
import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


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
    if isinstance(value, list | tuple):
        return [encode(inner) for inner in value]
    if hasattr(value, "item"):  # a NumPy scalar
        return encode(value.item())
    raise TypeError(f"{type(value).__name__} cannot be stored")


def decode(cls: type[T], data: Any) -> T:
    """Return the value of type `cls` that `encode` turned into `data`.

    Unknown keys are ignored and missing keys take their defaults, so that a field can be added without a new format.
    Raises `ValueError` if the data does not fit.
    """
    return _decode(cls, data)  # type: ignore[no-any-return]


def _decode(wanted: Any, data: Any) -> Any:
    origin = get_origin(wanted)
    if wanted is Any:
        return data
    if origin in (Union, types.UnionType):
        return _decode_union(get_args(wanted), data)
    if origin is tuple:
        return tuple(_decode(get_args(wanted)[0], inner) for inner in _expect(data, list))
    if origin is Mapping:
        inner_type = get_args(wanted)[1]
        return {key: _decode(inner_type, inner) for key, inner in _expect(data, dict).items()}
    if wanted is float:
        if isinstance(data, str) and data not in ("nan", "inf", "-inf"):
            raise ValueError(f"{data!r} is not a number")
        try:
            return float(_expect(data, int, float, str))
        except OverflowError:
            raise ValueError("an integer is too large for a number") from None
    if is_dataclass(wanted):
        return _decode_dataclass(wanted, data)
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return _decode_enum(wanted, data)
    return _expect(data, wanted)


def _decode_union(members: Sequence[Any], data: Any) -> Any:
    if data is None:
        if type(None) in members:
            return None
        raise ValueError("a value is missing")
    choices = [member for member in members if member is not type(None)]
    if len(choices) == 1:
        return _decode(choices[0], data)
    name = _expect(data, dict).get("type")
    for choice in choices:
        if choice.__name__ == name:
            return _decode(choice, data)
    raise ValueError(f"{name!r:.60} is not one of {', '.join(choice.__name__ for choice in choices)}")


def _decode_enum(wanted: type[Enum], data: Any) -> Enum:
    try:
        return wanted(data)
    except (TypeError, ValueError):
        raise ValueError(f"{data!r:.60} is not one of {', '.join(repr(choice.value) for choice in wanted)}") from None


def _decode_dataclass(wanted: Any, data: Any) -> Any:
    given = _expect(data, dict)
    if given.get("type", wanted.__name__) != wanted.__name__:
        raise ValueError(f"found {given['type']!r:.60} instead of {wanted.__name__}")
    values = {}
    for name, hint, needed in _fields_of(wanted):
        if name in given:
            values[name] = _decode(hint, given[name])
        elif needed:
            raise ValueError(f"{wanted.__name__} lacks {name}")
    return wanted(**values)


@cache
def _fields_of(wanted: Any) -> tuple[tuple[str, Any, bool], ...]:
    hints = get_type_hints(wanted)
    return tuple((f.name, hints[f.name], f.default is MISSING and f.default_factory is MISSING) for f in fields(wanted))


def _expect(data: Any, *allowed: type) -> Any:
    if not isinstance(data, allowed) or (isinstance(data, bool) and bool not in allowed):
        raise ValueError(f"found {data!r:.60} instead of {' or '.join(kind.__name__ for kind in allowed)}")
    return data
