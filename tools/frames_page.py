"""Write the columns of tables to docs/notebooks.md, and schemas of JSON documents; with --check, only compare them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from report_schema import explain_schema, report_schema, schema_text
from study_schema import json_schema

from tare.report.frames import TABLES, Column
from tare.report.frames.columns import ColumnType, estimate
from tare.report.frames.samples import COLUMNS as SAMPLE_COLUMNS

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
    tables = [(table.name, table.meaning, table.columns) for table in TABLES.values()]
    tables.append(("samples", "One row per sample of each launch.", SAMPLE_COLUMNS))
    sections, above = [], set[Column]()
    for name, meaning, columns in tables:
        again = ", ".join(f"`{column.name}`" for column in columns if column in above)
        more = f" {again}: as in a table above." if again else ""
        sections.append(_section(name, meaning + more, tuple(column for column in columns if column not in above)))
        above.update(column for column in columns if column.kind is ColumnType.TEXT)
    return "\n".join(sections)


def _section(name: str, meaning: str, columns: tuple[Column, ...]) -> str:
    rows = [f"| {names} | {text} |" for names, text in _rows(columns)]
    return "\n".join([f"### {name}\n", f"{meaning}\n", "| column | meaning (type, unit) |", "|---|---|", *rows, ""])


def _rows(columns: tuple[Column, ...]) -> Iterator[tuple[str, str]]:
    """Yield names and meaning of each column; the four columns of an estimate are one row, usual types are left out."""
    while columns:
        first, four = columns[0], columns[:4]
        whole = len(four) == 4 and four == tuple(estimate(first.name, first.unit, first.meaning, lambda _: None))
        names = ", ".join(f"`{column.name}`" for column in (four if whole else four[:1]))
        kind = ", ".join(filter(None, (first.kind.value, first.unit)))
        usual = first.kind is ColumnType.TEXT or (first.name.endswith("_s") and kind == "float64, s")
        yield names, first.meaning if usual else f"{first.meaning} ({kind})"
        columns = columns[4 if whole else 1 :]


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
