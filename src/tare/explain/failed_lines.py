"""The lines of `tare explain` about environments in which launches failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tare.explain.failed import Difference, FailedCell


def lines_of_failed(cells: Sequence[FailedCell]) -> Iterator[str]:
    """Yield the lines about failed cells; those of a group that failed for the same reasons are told together."""
    told: dict[tuple[object, ...], list[FailedCell]] = {}
    for cell in cells:
        same = cell.group, cell.reasons, cell.differences, cell.at_limit, cell.perhaps
        told.setdefault(same, []).append(cell)
    for members in told.values():
        yield from _of_cells(members)
        yield ""


def _of_cells(cells: Sequence[FailedCell]) -> Iterator[str]:
    cell = cells[0]
    yield f"{cell.group} / {', '.join(each.environment for each in cells)}: failed"
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
