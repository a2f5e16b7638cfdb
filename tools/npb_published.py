"""Write miniapps/npb/published.c, the table of published values that BT, SP, LU and FT verify themselves with.

The values are those of tests/miniapps/npb-verification.json. With --check nothing is written, and the status is 1 where
the file differs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
VALUES: Final = ROOT / "tests" / "miniapps" / "npb-verification.json"
TABLE: Final = ROOT / "miniapps" / "npb" / "published.c"
HEAD: Final = """\
/* Written by tools/npb_published.py from tests/miniapps/npb-verification.json. Do not edit. */
/* clang-format off */
#include "npb/published.h"
"""


def braces(values: Iterable[float]) -> str:
    """Return numbers as an initialiser, each with the digits that give the same double again."""
    return "{" + ", ".join(repr(float(value)) for value in values) + "}"


def norms(name: str, classes: Mapping[str, Mapping[str, Any]]) -> Iterable[str]:
    """Return the lines of the table of norms of BT, SP or LU."""
    yield f"\nconst struct published_norms published_{name}[CLASSES] = {{"
    for letter, values in classes.items():
        yield f"    [CLASS_{letter}] = {{"
        yield f"        .dt = {values['dt']!r},"
        yield f"        .residual = {braces(values['residual_norms'])},"
        yield f"        .error = {braces(values['error_norms'])},"
        if "surface_integral" in values:
            yield f"        .surface = {values['surface_integral']!r},"
        yield "    },"
    yield "};"


def sums(classes: Mapping[str, list[tuple[float, float]]]) -> Iterable[str]:
    """Return the lines of the table of checksums of FT."""
    yield "\nconst struct complex published_ft[CLASSES][PUBLISHED_STEPS] = {"
    for letter, values in classes.items():
        yield f"    [CLASS_{letter}] = {{"
        yield from (f"        {braces(value)}," for value in values)
        yield "    },"
    yield "};"


def table() -> str:
    """Return the text of the C file."""
    values = json.loads(VALUES.read_text(encoding="utf-8"))
    lines = [line for name in ("bt", "sp", "lu") for line in norms(name, values[name])]
    return HEAD + "\n".join([*lines, *sums(values["ft"])]) + "\n"


def main(arguments: list[str]) -> int:
    """Write the C file, or check it."""
    if arguments != ["--check"]:
        TABLE.write_text(table(), encoding="utf-8")
        return 0
    if TABLE.read_text(encoding="utf-8") == table():
        return 0
    print(f"{TABLE} is not what {VALUES} gives: run tools/npb_published.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
