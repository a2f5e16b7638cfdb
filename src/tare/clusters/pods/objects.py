"""Read the server's objects, whatever is in them: fields may be missing or of another type, and nothing here raises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tare.model.text import printable

LONGEST: Final = 120
"""The most characters that are kept of a value."""
LARGEST: Final = 1 << 62


def at(value: Any, *keys: str) -> Any:
    """Return what is at a path in an object; None if there is nothing."""
    for key in keys:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def members(value: Any) -> Iterator[Any]:
    """Yield the members of a list; nothing of anything else."""
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        yield from value


def text(value: Any) -> str:
    """Return a value as short text that is safe for a terminal; "" if it is no text, number or truth value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value) if -LARGEST < value < LARGEST else ""
    return printable(value[:LONGEST]).strip() if isinstance(value, str) else ""


def named(value: Any) -> dict[str, str]:
    """Return a mapping of names to values, such as annotations, with what is text in it."""
    return {text(key): text(said) for key, said in value.items()} if isinstance(value, Mapping) else {}


def name_of(value: Any) -> str:
    """Return the name of an object."""
    return text(at(value, "metadata", "name")) or "?"


def annotations_of(value: Any) -> dict[str, str]:
    """Return the annotations of an object."""
    return named(at(value, "metadata", "annotations"))


def condition_of(value: Any, kind: str) -> Mapping[str, Any]:
    """Return the condition of an object that has this type; nothing if it has none."""
    return next((each for each in members(at(value, "status", "conditions")) if at(each, "type") == kind), {})
