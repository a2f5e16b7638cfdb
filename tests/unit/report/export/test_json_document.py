"""The JSON document fits its published schema, which the code makes."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import exports
from tare.report.export import json as json_format
from tare.report.frames import Source

ROOT = Path(__file__).parents[4]
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
        validator.validate(json.loads(json_format.text(each), parse_constant=pytest.fail))
