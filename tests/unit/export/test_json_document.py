"""The JSON document fits its published schema, which the code makes."""

from __future__ import annotations

import copy
import json
import runpy
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import exports
from tare.export import json as json_format
from tare.frames import Source

ROOT = Path(__file__).parents[3]
TOOL = runpy.run_path(str(ROOT / "tools" / "report_schema.py"))
REPORT = TOOL["report_schema"]()
GIVEN = ROOT / "tests" / "data" / "results-0.1.0"


def strict(schema: Any) -> Any:
    """Return a schema in which no object may have further keys."""
    if isinstance(schema, dict):
        changed = {key: strict(value) for key, value in schema.items()}
        if "properties" in schema and "required" in schema:
            changed["additionalProperties"] = False
        return changed
    return [strict(value) for value in schema] if isinstance(schema, list) else schema


def test_the_published_schema_is_what_the_code_makes_and_a_valid_one() -> None:
    text = (ROOT / "docs" / "report.schema.json").read_text()
    assert text == TOOL["schema_text"](REPORT), "run tools/frames_page.py --write"
    jsonschema.Draft202012Validator.check_schema(REPORT)


def test_documents_fit_the_schema_without_other_keys_or_infinite_numbers(source: Source) -> None:
    validator = jsonschema.Draft202012Validator(strict(REPORT))
    for each in (source, exports.source(GIVEN)):
        validator.validate(json.loads(json_format.text(each)))

    def refuse(name: str) -> None:
        raise AssertionError(name)

    json.loads(json_format.text(source), parse_constant=refuse)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("comparisons", 0, "verdict"), 5),
        (("comparisons", 0, "cost_s"), "1e-6"),
        (("summary", "comparisons", 0, "verdict"), "cheap"),
        (("summary", "exit_code"), "0"),
        (("summary", "cells", 0, "role"), "other"),
        (("format",), 2),
        (("damaged",), {}),
    ],
)
def test_a_wrong_value_does_not_fit(source: Source, path: tuple[Any, ...], value: Any) -> None:
    document = copy.deepcopy(json.loads(json_format.text(source)))
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    assert not jsonschema.Draft202012Validator(REPORT).is_valid(document)


def test_a_missing_key_does_not_fit(source: Source) -> None:
    document = json.loads(json_format.text(source))
    del document["comparisons"][0]["base_cost_n"]
    assert not jsonschema.Draft202012Validator(REPORT).is_valid(document)
