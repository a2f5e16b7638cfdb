"""Write the columns of tables to docs/notebooks.md, and schemas of JSON documents; with --check, only compare them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from report_schema import explain_schema, report_schema, schema_text
from study_schema import json_schema

from tare.frames import TABLES, Column
from tare.frames.samples import COLUMNS as SAMPLE_COLUMNS

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = DOCS / "notebooks.md"
SCHEMAS = {
    DOCS / "report.schema.json": report_schema,
    DOCS / "explain.schema.json": explain_schema,
    DOCS / "study.schema.json": json_schema,
}
BEGIN, END = "<!-- columns: tools/frames_page.py --write -->\n", "<!-- end of columns -->\n"


def columns_text() -> str:
    """Return a section for each table: its meaning and its columns."""
    sections = [_section(table.name, table.meaning, table.columns) for table in TABLES.values()]
    samples = _section("samples", "One row per sample of each launch.", SAMPLE_COLUMNS)
    return "\n".join([*sections, samples])


def _section(name: str, meaning: str, columns: tuple[Column, ...]) -> str:
    return "\n".join([f"### {name}\n", f"{meaning}\n", "| column | type | unit | meaning |", "|---|---|---|---|",
                      *_rows(columns), ""])  # fmt: skip


def _rows(columns: tuple[Column, ...]) -> Iterator[str]:
    for column in columns:
        yield f"| `{column.name}` | {column.kind.value} | {column.unit or '-'} | {column.meaning} |"


def page_text(text: str) -> str:
    """Return the page with the columns of the code; raise `ValueError` if it has no place for them."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE.name} has no place for the columns: {BEGIN.strip()} ... {END.strip()}")
    return f"{head}{begin}\n{columns_text()}\n{end}{tail}"


def main(arguments: list[str]) -> int:
    """Write or check the files and return the exit code."""
    wanted = {PAGE: page_text(PAGE.read_text())}
    wanted |= {path: schema_text(schema()) for path, schema in SCHEMAS.items()}
    if arguments == ["--check"]:
        stale = [path.name for path, text in wanted.items() if not path.exists() or path.read_text() != text]
        for name in stale:
            print(f"docs/{name} is not what the code says: run tools/frames_page.py --write", file=sys.stderr)
        return int(bool(stale))
    if arguments != ["--write"]:
        print("name --write or --check", file=sys.stderr)
        return 2
    for path, text in wanted.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
