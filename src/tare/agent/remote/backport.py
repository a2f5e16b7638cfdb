"""Supply what a node's code uses of Python 3.10 and 3.11 where a node has 3.9. Imports nothing of tare.

`supply` is called before the first import of the package, by the program that serves a node. Only that process is
changed: dataclasses take `slots` and `kw_only`, `zip` takes `strict`, `enum` has `StrEnum`, `hashlib` has
`file_digest`.
"""

import builtins
import dataclasses
import enum
import hashlib
import sys

MYPY = False
if MYPY:
    from typing import Any


def supply() -> None:
    """Supply what this Python lacks."""
    if sys.version_info < (3, 10):
        dataclasses.dataclass = _dataclass  # type: ignore[assignment]
        builtins.zip = _Zip  # type: ignore[misc,assignment]
    if sys.version_info < (3, 11):
        enum.StrEnum = _StrEnum  # type: ignore[misc,assignment]
        hashlib.file_digest = _file_digest  # type: ignore[assignment]


class _StrEnum(str, enum.Enum):  # noqa: UP042  # it is what UP042 asks for, where there is none
    """An enumeration of texts, as in Python 3.11."""

    __str__ = str.__str__
    __format__ = str.__format__  # type: ignore[assignment]


_made_by_python = dataclasses.dataclass
_zipped_by_python = builtins.zip


def _dataclass(cls: "Any" = None, **options: "Any") -> "Any":
    """Make a dataclass without slots; with `kw_only`, fields without a default may follow those with one."""
    options.pop("slots", None)
    only_named = options.pop("kw_only", False)

    def made(cls: "Any") -> "Any":
        if not only_named:
            return _made_by_python(**options)(cls)
        return _named(_made_by_python(**{**options, "init": False})(cls))

    return made if cls is None else made(cls)


def _named(cls: "Any") -> "Any":
    """Give a dataclass an `__init__` that takes every field by name."""
    fields = [field for field in dataclasses.fields(cls) if field.init]
    unset = dataclasses.MISSING

    def __init__(self: "Any", **values: "Any") -> None:
        for field in fields:
            if field.name in values:
                value = values.pop(field.name)
            elif field.default is not unset:
                value = field.default
            elif field.default_factory is not unset:
                value = field.default_factory()
            else:
                raise TypeError(f"{cls.__name__} needs {field.name}")
            object.__setattr__(self, field.name, value)
        if values:
            raise TypeError(f"{cls.__name__} has no {', '.join(values)}")
        if hasattr(self, "__post_init__"):
            self.__post_init__()

    cls.__init__ = __init__
    return cls


class _Zip:
    """`zip` with `strict`."""

    def __new__(cls, *parts: "Any", strict: bool = False) -> "Any":
        return _strictly(parts) if strict else _zipped_by_python(*parts)


def _strictly(parts: "Any") -> "Any":
    missing = object()
    each = [iter(part) for part in parts]
    while each:
        values = [next(own, missing) for own in each]
        if all(value is missing for value in values):
            return
        if any(value is missing for value in values):
            raise ValueError("zip() arguments have different lengths")
        yield tuple(values)


def _file_digest(file: "Any", name: str) -> "Any":
    digest = hashlib.new(name)
    for block in iter(lambda: file.read(1 << 18), b""):
        digest.update(block)
    return digest
