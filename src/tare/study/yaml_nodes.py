"""Read YAML into nodes that know their line, column and path.

Only text, lists and mappings are allowed; plain scalars follow YAML 1.2: `no` and `on` are text, 010 is ten.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import yaml

from tare.errors import StudyError

MAX_FILE_BYTES: Final = 1 << 20
MAX_VALUES: Final = 20_000
CHECK_FILE: Final = "check that it is a study file; docs/study.md describes one"
_TAGS: Final = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("map", "seq", "str"))
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,300}")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,3})?")


@dataclass(frozen=True, slots=True)
class YamlNode:
    """A value of the file: a scalar, a list of nodes or a dict of nodes; line and column count from 1.

    The place of a mapping's value is that of its key; a list item has its own place. `text` is a scalar as it was
    written. Line 0 means that the value does not come from a file.
    """

    value: Any
    path: str
    line: int
    column: int
    text: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem at a node; `path` is its place in the study, which may continue to a key that is missing."""

    node: YamlNode
    path: str
    message: str


def decode(data: bytes, file: str) -> str:
    """Return the text of a file, or raise `StudyError` if it is too large or not UTF-8."""
    if len(data) > MAX_FILE_BYTES:
        raise StudyError(
            f"{file} has more than {MAX_FILE_BYTES >> 20} MiB, which is too large for a study", remedy=CHECK_FILE
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise StudyError(
            f"{file}:{line}:{column}: byte 0x{data[error.start]:02x} is not UTF-8", remedy="save the file as UTF-8"
        ) from None


def read_yaml(text: str, file: str, problems: list[Problem]) -> YamlNode | None:
    """Return the document as nodes, or raise `StudyError` if it is not YAML."""
    try:
        document = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else file
        raise StudyError(f"{where}: {_yaml_sentence(error)}") from None
    except yaml.YAMLError as error:
        character = getattr(error, "character", "")
        character = chr(character) if isinstance(character, int) else character
        line = text.count("\n", 0, getattr(error, "position", 0)) + 1
        raise StudyError(
            f"{file}:{line}: the character {character!r} is not allowed in YAML", remedy="remove it"
        ) from None
    except RecursionError:
        raise StudyError(f"{file} is nested too deeply for a study", remedy=CHECK_FILE) from None
    if document is None:
        raise StudyError(f"{file} is empty", remedy="begin with a copy of studies/quickstart.yaml")
    try:
        return _Reader(problems).node(document, "", document.start_mark)
    except RecursionError:
        raise StudyError(
            f"{file}: an alias (*name) contains itself, or the file is nested too deeply",
            remedy="write the values out in place of the alias",
        ) from None
    except OverflowError:
        raise StudyError(
            f"{file} has more than {MAX_VALUES} values, which is too many for a study", remedy=CHECK_FILE
        ) from None


def _yaml_sentence(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or "unknown problem"
    if "'\\t'" in problem:
        return "a tab is used here: indent with spaces"
    if "alias" in problem or "single document" in str(error.context):
        return f"{error.context + ', ' if error.context else ''}{problem}"
    return f"this is not valid YAML: {error.context + ', ' if error.context else ''}{problem}"


class _Reader:
    """Convert PyYAML's nodes to `YamlNode`s. Plain scalars follow YAML 1.2: `no` and `on` are text, 010 is ten."""

    def __init__(self, problems: list[Problem]) -> None:
        self._problems = problems
        self._count = 0

    def node(self, source: yaml.Node, path: str, mark: yaml.Mark) -> YamlNode:
        """Return `source` as a node at `path`; messages about it point at `mark`."""
        self._count += 1
        if self._count > MAX_VALUES:
            raise OverflowError
        empty = YamlNode(None, path, mark.line + 1, mark.column + 1)
        if source.tag not in _TAGS:
            self._problems.append(Problem(empty, path, f"the tag {source.tag} is not allowed in a study"))
            return empty
        if isinstance(source, yaml.MappingNode):
            return replace(empty, value=self._mapping(source, path))
        if isinstance(source, yaml.SequenceNode):
            items = enumerate(source.value)
            return replace(empty, value=[self.node(item, f"{path}[{i}]", item.start_mark) for i, item in items])
        text = str(source.value)
        plain = isinstance(source, yaml.ScalarNode) and source.style is None
        return replace(empty, value=_scalar(text) if plain else text, text=text)

    def _mapping(self, source: yaml.MappingNode, path: str) -> dict[str, YamlNode]:
        entries: dict[str, YamlNode] = {}
        merged: dict[str, YamlNode] = {}
        for key, value in source.value:
            mark = key.start_mark
            if not isinstance(key, yaml.ScalarNode):
                here = YamlNode(None, path, mark.line + 1, mark.column + 1)
                self._problems.append(Problem(here, path, "a key must be one word, not a list or a mapping"))
                continue
            name = str(key.value)
            node = self.node(value, f"{path}.{name}" if path else name, mark)
            if name == "<<" and key.style is None:
                sources = node.value if isinstance(node.value, list) else [node]
                for each in sources:
                    merged = (each.value if isinstance(each.value, dict) else {}) | merged
            elif name in entries:
                first = entries[name].line
                self._problems.append(Problem(node, node.path, f"this key is given twice; first in line {first}"))
            else:
                entries[name] = node
        return entries | {name: node for name, node in merged.items() if name not in entries}


def _scalar(text: str) -> Any:
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def nodes_of(value: Any, path: str = "") -> YamlNode:
    """Return the nodes for Python values (mappings, lists and scalars), as if read from a file with that content."""
    if isinstance(value, Mapping):
        inner = {str(key): nodes_of(each, f"{path}.{key}" if path else str(key)) for key, each in value.items()}
        return YamlNode(inner, path, 0, 0)
    if isinstance(value, list | tuple):
        return YamlNode([nodes_of(each, f"{path}[{i}]") for i, each in enumerate(value)], path, 0, 0)
    return YamlNode(value, path, 0, 0, "" if value is None else str(value))


def plain(node: YamlNode) -> Any:
    """Return the values of a tree without their places."""
    if isinstance(node.value, dict):
        return {key: plain(value) for key, value in node.value.items()}
    if isinstance(node.value, list):
        return [plain(item) for item in node.value]
    return node.value


def locate(root: YamlNode, loc: Sequence[str | int]) -> tuple[YamlNode, str]:
    """Return the node at `loc`, or the last one on the way to it, and the full path to show."""
    node = root
    for depth, step in enumerate(loc):
        inner: YamlNode | None = None
        if isinstance(node.value, dict):
            inner = node.value.get(str(step))
        elif isinstance(node.value, list) and isinstance(step, int) and step < len(node.value):
            inner = node.value[step]
        if inner is None:
            return node, ".".join([*([node.path] if node.path else []), *(str(rest) for rest in loc[depth:])])
        node = inner
    return node, node.path
