"""Encode the values that pass between the head and a node as JSON, and decode them again.

Only plain values, and the dataclasses, enumerations and errors of this package, can pass: a node must not be able to
make the head create anything else. A tuple is a JSON list; other types are objects with the key `=`.
"""

from __future__ import annotations

import base64
import importlib
import json
import select
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Final

from tare import errors
from tare.errors import CommandFailed, InfrastructureError, TareError
from tare.model.text import printable

TYPE: Final = "="
VALUE: Final = "of"
PACKAGE: Final = "tare."
PLAIN: Final = (bool, int, float, str)
PARTIAL: Final = b"\n"
"""What a side writes when it has a part of a line and no more comes for `PARTIAL_S`: an empty line, which says nothing.

Slurm carries a step's streams in messages of 1 kB over TCP with Nagle's algorithm: the second waits until the first is
acknowledged, which TCP delays by 40 ms unless something is sent the other way.
"""
PARTIAL_S: Final = 0.0005
LONGEST: Final = 8192
"""Characters of an error's message, remedy or output."""
MOST_VALUES: Final = 1 << 22
"""Values of a message: each takes up to a hundred bytes of memory, and may be two of the message."""


class NotUnderstood(InfrastructureError):
    """A node sent something that is not one of tare's messages.

    Commands: those that use nodes by ssh.
    Remedy: use the same version of tare on all machines; report it if it happens again.
    """


def dumps(value: Any) -> bytes:
    """Return a value as one line."""
    return json.dumps(encode(value), separators=(",", ":")).encode() + b"\n"


def loads(line: bytes) -> Any:
    """Return the value of a line; raise `NotUnderstood` if it is not a message of tare."""
    try:
        if sum(map(line.count, (b",", b"[", b"{"))) > MOST_VALUES:
            raise ValueError(f"it has more than {MOST_VALUES} values")
        return decode(json.loads(line))
    except (ValueError, LookupError, TypeError, AttributeError, ImportError, ArithmeticError, RecursionError) as error:
        why = printable(str(error))[:300]
        raise NotUnderstood(f"a node sent a message that tare does not understand ({why})") from error


def arrives(descriptor: int, seconds: float) -> bool:
    """Return whether there is something to read within a time."""
    return bool(select.select([descriptor], [], [], max(0.0, seconds))[0])


def encode(value: Any) -> Any:
    """Return a value in the form that JSON can write."""
    if value is None or type(value) in PLAIN:
        return value
    if isinstance(value, Enum):
        return {TYPE: "enum", VALUE: [_name(type(value)), value.value]}
    if isinstance(value, tuple):
        return [encode(each) for each in value]
    if is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: encode(getattr(value, field.name)) for field in fields(value)}
        return {TYPE: _name(type(value)), VALUE: parts}
    if isinstance(value, Mapping):
        return {TYPE: "dict", VALUE: [[encode(key), encode(own)] for key, own in value.items()]}
    for kind, tag in COLLECTIONS.items():
        if isinstance(value, kind):
            return {TYPE: tag, VALUE: [encode(each) for each in value]}
    if isinstance(value, Path):
        return {TYPE: "path", VALUE: str(value)}
    if isinstance(value, bytes):
        return {TYPE: "bytes", VALUE: base64.b64encode(value).decode()}
    if isinstance(value, TareError):
        return {TYPE: "error", VALUE: [type(value).__name__, encode(vars(value))]}
    raise TypeError(f"{type(value).__name__} cannot pass between head and node")


COLLECTIONS: Final[Mapping[type[Any], str]] = {list: "list", frozenset: "frozenset", set: "set"}


def decode(data: Any) -> Any:
    """Return the value of `encode`."""
    if isinstance(data, list):
        return tuple(decode(each) for each in data)
    if not isinstance(data, dict):
        return data
    tag, value = data[TYPE], data[VALUE]
    reader = READERS.get(tag)
    if reader is not None:
        return reader(value)
    parts = {name: decode(own) for name, own in value.items()}
    found = _class(tag)
    if not is_dataclass(found) or not found.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        raise TypeError(f"{tag} is no value")
    return found(**parts)


def _enum(value: Any) -> Any:
    found = _class(value[0])
    if not issubclass(found, Enum):
        raise TypeError(f"{value[0]} is no enumeration")
    return found(value[1])


def _error(value: Any) -> TareError:
    found = getattr(errors, value[0], InfrastructureError)
    if not (isinstance(found, type) and issubclass(found, TareError)):
        raise TypeError(f"{value[0]} is no error")
    told = decode(value[1])
    error = found(printable(str(told["message"]), lines=True)[:LONGEST])
    error.remedy = printable(str(told.get("remedy", "")), lines=True)[:LONGEST]
    if isinstance(error, CommandFailed):
        error.argv, error.status = tuple(map(str, told.get("argv", ()))), int(told.get("status", 0))
        error.stderr_tail = printable(str(told.get("stderr_tail", "")), lines=True)[-LONGEST:]
    return error


READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "dict": lambda value: {decode(key): decode(own) for key, own in value},
    "list": lambda value: [decode(each) for each in value],
    "set": lambda value: {decode(each) for each in value},
    "frozenset": lambda value: frozenset(decode(each) for each in value),
    "path": lambda value: Path(str(value)),
    "bytes": lambda value: base64.b64decode(value, validate=True),
    "enum": _enum,
    "error": _error,
}


def _name(kind: type) -> str:
    if not kind.__module__.startswith(PACKAGE):
        raise TypeError(f"{kind.__qualname__} cannot pass between head and node")
    return f"{kind.__module__}:{kind.__qualname__}"


@cache
def _class(name: str) -> type:
    module, _, qualified = name.partition(":")
    if not module.startswith(PACKAGE) or "." in qualified:
        raise TypeError(f"{name} is none of tare's")
    found = getattr(importlib.import_module(module), qualified)
    if not isinstance(found, type) or found.__module__ != module:
        raise TypeError(f"{name} is no type")
    return found
