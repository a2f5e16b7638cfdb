"""Word the problems of a study: each with its place, and pydantic's errors in plain words."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, get_args

from pydantic import BaseModel

from tare.errors import StudyError
from tare.study.yaml_nodes import Problem, YamlNode, locate

EMPTY: Final[Mapping[str, str]] = MappingProxyType({})


def study_error(file: str, problems: Sequence[Problem]) -> StudyError:
    """Return one error that lists all problems, in the order of the file."""
    ordered = sorted(problems, key=lambda p: (p.node.line, p.node.column))
    lines: dict[tuple[str, ...], str] = {}
    for problem in ordered:
        line = f"{_place(file, problem.node)}: {problem.path + ': ' if problem.path else ''}{problem.message}"
        # A wrong option of a command is wrong in every environment: it is reported for the first one.
        identity = (line,) if problem.node.line else (problem.path.rpartition(".")[2], problem.message)
        lines.setdefault(identity, line)
    unique = list(lines.values())
    if len(unique) == 1:
        return StudyError(unique[0])
    return StudyError("\n".join([f"{file} has {len(unique)} problems:", *(f"  {line}" for line in unique)]))


def _place(file: str, node: YamlNode) -> str:
    return f"{file}:{node.line}:{node.column}" if node.line else file


def unknown(what: str, name: object, allowed: Iterable[str], others: Mapping[str, str] = EMPTY) -> str:
    """Return the sentence about an unknown name, with the nearest name and all that are allowed.

    `others` are allowed names by what they are called elsewhere.
    """
    allowed = list(allowed)
    other = others.get(str(name).lower(), "")
    near = difflib.get_close_matches(str(name).lower(), allowed, 1)
    hint = f": use {other}" if other in allowed else f"; did you mean {near[0]}?" if near else ""
    return f"unknown {what} {str(name)!r}{hint} (allowed: {', '.join(allowed)})"


def explain(form: type[BaseModel], root: YamlNode, detail: Mapping[str, Any]) -> Problem:
    """Return an error of pydantic about `form` as a problem with its place, in plain words."""
    loc: tuple[str | int, ...] = detail["loc"]
    node, path = locate(root, loc)
    return Problem(node, path, _sentence(form, loc, detail, node))


def _sentence(form: type[BaseModel], loc: tuple[str | int, ...], detail: Mapping[str, Any], node: YamlNode) -> str:
    kind, value = detail["type"], detail["input"]
    if kind == "extra_forbidden":
        return unknown("key", loc[-1], _fields_at(form, loc[:-1]))
    if kind == "missing":
        return "this key is required"
    if kind == "value_error":
        return str(detail["ctx"]["error"])
    if value is None:
        return "this key has no value"
    shown = repr(node.text) if isinstance(node.value, str) else node.text or kind_of(value)
    wanted = {
        "model": "a mapping (`key: value` lines)",
        "dict": "a mapping (`name: ...` lines)",
        "list": "a list (`- ...` lines, or [a, b])",
        "int": "a whole number",
        "float": "a number",
        "bool": "true or false",
        "string": "text",
    }.get(kind.split("_")[0])
    if loc == ("environments",) and isinstance(value, str):
        wanted = f"a list ([{', '.join(value.replace(',', ' ').split())}]) or a mapping (`name: ...` lines)"
    if wanted and kind.endswith(("_type", "_parsing", "_from_float")):
        return f"this must be {wanted}, not {shown}"
    if kind == "string_pattern_mismatch":
        return f"{shown} is not allowed: use letters, digits, dots, dashes and underscores, first a letter or digit"
    if kind in ("too_short", "string_too_short"):
        return "this is empty: give at least one"
    message = str(detail["msg"])
    for phrase, plain in [
        ("Input should", "this must"),
        ("greater than or equal to", "at least"),
        ("less than or equal to", "at most"),
        ("greater than", "above"),
        ("less than", "below"),
    ]:
        message = message.replace(phrase, plain)
    return f"{message}, not {shown}"


def _fields_at(form: type[BaseModel], loc: Sequence[str | int]) -> list[str]:
    """Return the keys that are allowed in the part of `form` at `loc`."""
    current: Any = form
    for step in loc:
        if isinstance(current, type) and issubclass(current, BaseModel):
            fields = current.model_fields
            current = next(each for name, each in fields.items() if step in (name, each.alias)).annotation
        else:
            current = get_args(current)[-1]
        if type(None) in get_args(current):
            current = get_args(current)[0]
    return [each.alias or name for name, each in current.model_fields.items()]


def kind_of(value: object) -> str:
    """Return the kind of a value, in words."""
    kinds: list[tuple[type | tuple[type, ...], str]] = [(dict, "a mapping"), (list, "a list"), (type(None), "nothing")]
    return next((word for types, word in kinds if isinstance(value, types)), repr(value))
