"""Put into lines why cells cannot run, which `study.feasibility` has found: each reason once, with its cells. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tare.model import Cell, Plan


def in_lines(plan: Plan) -> Iterator[str]:
    """Yield a line for each reason, with the cells that cannot run because of it."""
    by_reason: dict[str, list[Cell]] = {}
    for cell in plan.cells:
        if cell.key in plan.unavailable:
            by_reason.setdefault(plan.unavailable[cell.key], []).append(cell)
    for reason, cells in by_reason.items():
        what = cells[0].key if len(cells) == 1 else "; ".join(_listed(cells))
        yield f"{f'all {len(cells)} cells' if len(cells) == len(plan.cells) else what}  (unavailable: {reason})"


def _listed(cells: list[Cell]) -> Iterator[str]:
    """Yield the names of environments before the groups that have them; groups with the same ones together."""
    groups: dict[str, list[str]] = {}
    for cell in cells:
        groups.setdefault(cell.group, []).append(cell.key.removeprefix(f"{cell.group} / "))
    together: dict[str, list[str]] = {}
    for group, names in groups.items():
        together.setdefault(", ".join(names), []).append(group)
    for joined, listed in together.items():
        yield f"{joined} in {', '.join(listed)}"
