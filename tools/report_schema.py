"""Make the JSON Schemas of the JSON format and of `tare explain --json` from the types and columns of their data.

tools/frames_page.py writes them to docs/.
"""

from __future__ import annotations

import json
import types
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from enum import Enum
from typing import Any, Final, Union, get_args, get_origin

from tare.analysis.explain.answer import Answer
from tare.model import Summary
from tare.report.export.json import FORMAT, SHOWN
from tare.report.frames import TABLES, Column, ColumnType
from tare.store.codec import fields_of
from tare.store.damage import Damage

Schema = dict[str, Any]
TYPES: Final = {
    ColumnType.TEXT: "string",
    ColumnType.INTEGER: "integer",
    ColumnType.NUMBER: "number",
    ColumnType.TRUTH: "boolean",
}
PLAIN: Final[Mapping[Any, Schema]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"anyOf": [{"type": "number"}, {"enum": ["nan", "inf", "-inf"]}]},
    Any: {},
    type(None): {"type": "null"},
}


def report_schema() -> Schema:
    """Return the schema of the document that `tare report --format json` writes."""
    definitions: dict[str, Schema] = {}
    summary = _of_type(Summary, definitions)
    damage: dict[str, Schema] = {name: dict(PLAIN[hint]) for name, hint, _ in fields_of(Damage)}
    properties: dict[str, Schema] = {
        "format": {"const": FORMAT, "description": "version of this document"},
        "tool": {"type": "string", "description": "the tare that wrote it"},
        **{
            name: {"type": "array", "description": TABLES[name].meaning, "items": _of_columns(TABLES[name].columns)}
            for name in SHOWN
        },
        "damaged": {
            "type": "array",
            "description": "damaged lines of the results folder, which were left out",
            "items": _object(damage),
        },
        "summary": summary,
    }
    return _head("A report of tare") | _object(properties) | {"$defs": definitions}


def explain_schema() -> Schema:
    """Return the schema of the document that `tare explain --json` prints."""
    definitions: dict[str, Schema] = {}
    return _head("Why cells cost what they cost") | _of_type(Answer, definitions) | {"$defs": definitions}


def schema_text(schema: Schema) -> str:
    """Return the text of a published schema: docs/report.schema.json, docs/explain.schema.json."""
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"


def _head(title: str) -> Schema:
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title}


def _object(properties: Mapping[str, Schema]) -> Schema:
    return {"type": "object", "properties": dict(properties), "required": list(properties)}


def _of_columns(columns: Sequence[Column]) -> Schema:
    """Return the schema of a row: every column is there, and null where it has no value."""
    properties = {}
    for column in columns:
        meaning = f"{column.meaning} [{column.unit}]" if column.unit else column.meaning
        properties[column.name] = {"type": [TYPES[column.kind], "null"], "description": meaning}
    return _object(properties)


def _of_type(wanted: Any, definitions: dict[str, Schema]) -> Schema:
    """Return the schema of what `tare.store.codec.encode` makes of a type; classes are added to the definitions."""
    if wanted in PLAIN:
        return dict(PLAIN[wanted])
    origin = get_origin(wanted)
    if origin in (Union, types.UnionType):
        return {"anyOf": [_of_type(member, definitions) for member in get_args(wanted)]}
    if origin in (tuple, Sequence):
        return {"type": "array", "items": _of_type(get_args(wanted)[0], definitions)}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _of_type(get_args(wanted)[1], definitions)}
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return {"enum": [member.value for member in wanted]}
    if isinstance(wanted, type) and is_dataclass(wanted):
        return _of_class(wanted, definitions)
    raise TypeError(f"{wanted} has no JSON Schema")


def _of_class(wanted: type, definitions: dict[str, Schema]) -> Schema:
    name = wanted.__name__
    if name not in definitions:
        definitions[name] = {}
        inner = {field: _of_type(hint, definitions) for field, hint, _ in fields_of(wanted)}
        description = " ".join((wanted.__doc__ or "").split("\n\n")[0].split())
        definitions[name] = {"description": description} | _object({"type": {"const": name}} | inner)
    return {"$ref": f"#/$defs/{name}"}
