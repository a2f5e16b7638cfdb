"""Say in lines why launches of environments failed, for `tare explain` and the report. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tare.analysis.explain.failed import Difference, FailedCell


def lines_of_failed(cells: Sequence[FailedCell]) -> Iterator[str]:
    """Yield the lines about failed cells, with an empty one after each of `told_together`."""
    for title, lines in told_together(cells):
        yield from (title, *lines, "")


def told_together(cells: Sequence[FailedCell]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield a title and lines for each group of environments whose launches failed for the same reasons."""
    told: dict[tuple[object, ...], list[FailedCell]] = {}
    for cell in cells:
        same = cell.group, cell.reasons, cell.differences, cell.at_limit, cell.perhaps
        told.setdefault(same, []).append(cell)
    for members in told.values():
        title = f"{members[0].group} / {', '.join(each.environment for each in members)}: failed"
        yield title, tuple(_of_cells(members))


def _of_cells(cells: Sequence[FailedCell]) -> Iterator[str]:
    cell = cells[0]
    for each in cells:
        name = f"{each.environment}: " if len(cells) > 1 else ""
        yield f"  {name}{each.failed} of {each.launches} launches failed"
    for reason in cell.reasons:
        number = f" ({reason.launches} launches)" if len(cell.reasons) > 1 else ""
        yield f"    {reason.words}{number}"
    yield from (f"    at the time limit: {words}" for words in cell.at_limit)
    yield from _differences(cell)
    yield from (f"  perhaps: {words}" for words in cell.perhaps)


def _differences(cell: FailedCell) -> Iterator[str]:
    if not cell.ran:
        yield "  no environment of this group ran, so there is nothing to compare it with"
        return
    alone = [each for each in cell.differences if each.separates]
    others = [each for each in cell.differences if not each.separates]
    if alone:
        several = "every environment that ran: " if len(cell.ran) > 1 else ""
        yield f"  differs from {several}{', '.join(cell.ran)}"
        yield from map(_difference, alone)
    if others:
        yield "  differs from some that ran, as others do that ran"
        yield from map(_difference, others)
    if not cell.rights_recorded:
        yield "  rights and limits of its pods are not recorded in these results"


def _difference(found: Difference) -> str:
    theirs = "; ".join(f"{', '.join(each.environments)}: {each.value}" for each in found.others)
    return f"    {found.fact}: {found.value}; {theirs}"
