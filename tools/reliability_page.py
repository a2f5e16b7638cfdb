"""Write the table of faults in docs/reliability.md from what `make test-faults` has seen.

    python tools/reliability_page.py results/faults.jsonl          print the table
    python tools/reliability_page.py results/faults.jsonl --write  write it between the page's markers

The last plays of each fault count. A row that the file lacks stays as it is on the page.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

from faults.faults import FAULTS, PLAYS, Fault  # noqa: E402
from faults.stage import general  # noqa: E402

PAGE: Final = ROOT / "docs" / "reliability.md"
BEGIN: Final = "<!-- tools/reliability_page.py writes from here -->\n"
END: Final = "<!-- to here -->\n"
HEADER: Final = (
    "| fault | cluster | trials that it hit | exit codes | then |\n"
    "|---|---|---|---|---|\n"
)  # fmt: skip
MISSING: Final = "not played"


def row_of(fault: Fault, plays: Sequence[Mapping[str, Any]]) -> str:
    """Return the row of a fault: outcomes that differ between plays, what was left, and fewer plays than usual."""
    last = plays[-PLAYS:]
    if not last:
        return row([fault.title, fault.cluster, MISSING, "", ""])
    recorded = _each("; ".join(map(_short, play["recorded"])) or "none" for play in last)
    codes = _each(", then ".join(map(str, play["codes"])) for play in last)
    then = _each(play["then"].replace(" to its end", "") for play in last)
    left = _each("; ".join(play["left"]) for play in last if play["left"])
    more = [f"left: {left}"] if left else []
    more += [f"plays: {len(last)}"] if len(last) < PLAYS else []
    return row([fault.title, fault.cluster, recorded, codes, "; ".join([then, *more])])


def row(cells: Sequence[str]) -> str:
    """Return a row of the table."""
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |\n"


def _short(reason: str) -> str:
    """Return the beginning of a reason, without the status of the launcher."""
    return shorten(re.sub(r"it ended with status \d+: ", "", general(reason)), 80, placeholder=" ...")


def _each(texts: Any) -> str:
    return " / ".join(dict.fromkeys(texts))


def titles(page: str) -> list[tuple[str, str]]:
    """Return the faults of the table on a page, with their clusters."""
    lines = page.split(BEGIN, 1)[1].split(END, 1)[0].splitlines()[2:]
    return [(cells[0].strip(), cells[1].strip()) for line in lines if (cells := line.strip("| ").split(" | "))]


def main(arguments: Sequence[str]) -> int:
    """Print or write the table."""
    plays = [json.loads(line) for line in Path(arguments[0]).read_text().splitlines()]
    page = PAGE.read_text()
    old = dict(zip(titles(page), page.split(BEGIN, 1)[1].split(END, 1)[0].splitlines(keepends=True)[2:], strict=True))
    rows = []
    for fault in FAULTS:
        own = [play for play in plays if play["fault"] == fault.key]
        kept = old.get((fault.title, fault.cluster))
        rows.append(kept if kept and not own else row_of(fault, own))
    table = HEADER + "".join(rows)
    print(table)
    if "--write" in arguments:
        PAGE.write_text(page.split(BEGIN, 1)[0] + BEGIN + table + END + page.split(END, 1)[1])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
