"""Say what is wrong with a study: each problem with its place, pydantic's findings in our words."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel

from tare.errors import StudyError
from tare.study.yaml_nodes import Problem, YamlNode, locate


def study_error(file: str, problems: Sequence[Problem]) -> StudyError:
    """Return the one error that tells all problems, in the order of the file."""
    ordered = sorted(problems, key=lambda p: (p.node.line, p.node.column))
    told: dict[tuple[str, ...], str] = {}
    for problem in ordered:
        line = f"{_place(file, problem.node)}: {problem.path + ': ' if problem.path else ''}{problem.message}"
        # An option that is wrong is wrong in every environment: it is reported for the first one.
        same = (line,) if problem.node.line else (problem.path.rpartition(".")[2], problem.message)
        told.setdefault(same, line)
    unique = list(told.values())
    if len(unique) == 1:
        return StudyError(unique[0])
    return StudyError("\n".join([f"{file} has {len(unique)} problems:", *(f"  {line}" for line in unique)]))


def _place(file: str, node: YamlNode) -> str:
    return f"{file}:{node.line}:{node.column}" if node.line else file


def unknown(what: str, name: object, allowed: Iterable[str]) -> str:
    """Return the sentence on a name that nobody knows, with the nearest and all that are allowed."""
    allowed = list(allowed)
    near = difflib.get_close_matches(str(name), allowed, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"unknown {what} {str(name)!r}{hint} (allowed: {', '.join(allowed)})"


def explain(form: type[BaseModel], root: YamlNode, detail: Mapping[str, Any]) -> Problem:
    """Return one of pydantic's findings on `form` as a problem with its place, in our words."""
    loc: tuple[str | int, ...] = detail["loc"]
    node, path = locate(root, loc)
    return Problem(node, path, _sentence(form, loc, detail, node))


def _sentence(form: type[BaseModel], loc: tuple[str | int, ...], detail: Mapping[str, Any], node: YamlNode) -> str:
    kind, value = detail["type"], detail["input"]
    if kind == "extra_forbidden":
        return unknown("key", loc[-1], _fields_at(form, loc[:-1]))
    if kind == "missing":
        return "this key is needed"
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
    if wanted and kind.endswith(("_type", "_parsing", "_from_float")):
        return f"this must be {wanted}, not {shown}"
    if kind == "string_pattern_mismatch":
        return f"{shown} can hold letters, digits, dots, dashes and underscores only, and begins with a letter or digit"
    if kind in ("too_short", "string_too_short"):
        return "this is empty: give at least one"
    message = str(detail["msg"])
    for theirs, ours in [
        ("Input should", "this must"),
        ("greater than or equal to", "at least"),
        ("less than or equal to", "at most"),
        ("greater than", "above"),
        ("less than", "below"),
    ]:
        message = message.replace(theirs, ours)
    return f"{message}, not {shown}"


def _fields_at(form: type[BaseModel], loc: Sequence[str | int]) -> list[str]:
    """Return the keys that the part of `form` at `loc` takes."""
    current: Any = form
    for step in loc:
        if isinstance(current, type) and issubclass(current, BaseModel):
            current = current.model_fields[str(step)].annotation
        else:
            current = get_args(current)[-1]
        if type(None) in get_args(current):
            current = get_args(current)[0]
    return list(current.model_fields)


def kind_of(value: object) -> str:
    """Return what a value is, in words."""
    kinds: list[tuple[type | tuple[type, ...], str]] = [(dict, "a mapping"), (list, "a list"), (type(None), "nothing")]
    return next((word for types, word in kinds if isinstance(value, types)), repr(value))
