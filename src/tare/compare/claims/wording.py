"""Say in words what a claim's test compares, and for which results the claim holds. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tare.compare.claims.model import (
    CellPattern,
    Claim,
    Comparing,
    Contrast,
    Counting,
    Region,
    Running,
    Slope,
    Stating,
    Test,
    Testing,
)
from tare.report import units


def holds_if(claim: Claim, *, most: int = 0) -> str:
    """Say for which results a claim holds, "" if no study tests it; of more than `most` parts, how many follow."""
    if not isinstance(claim.by, Test):
        return ""
    parts = list(dict.fromkeys(_parts(claim.by.testing)))
    left = len(parts) - most if most else 0
    return "; ".join([*parts[:most], f"and {left} more"] if left > 0 else parts)


def contrast_words(contrast: Contrast) -> str:
    """Return which cells a contrast compares, as `docker+overlay against bare`."""
    names = [place.environment for place, _ in contrast.places]
    if len(set(names)) < len(names) or len(names) == 1:
        names = [str(place) for place, _ in contrast.places]
    first = [name for name, (_, power) in zip(names, contrast.places, strict=True) if power > 0]
    second = [name for name, (_, power) in zip(names, contrast.places, strict=True) if power < 0]
    if contrast.counts:
        return " less ".join([" plus ".join(first), *second])
    if len(first) == len(second) == 2:
        return f"{first[0]} against {second[0]}, over {second[1]} against {first[1]}"
    return " against ".join(part for part in (" times ".join(first), " times ".join(second)) if part)


def words(region: Region, *, counts: bool) -> str:
    """Return a region in words, as `above 2 %`, `between −2 % and 2 %` or `below −2 % or above 2 %`."""
    low, high = (None if each is None else bound_text(each, counts=counts) for each in (region.low, region.high))
    if region.beyond:
        return " or ".join(part for part in (low and f"below {low}", high and f"above {high}") if part)
    if low is not None and high is not None:
        return f"between {low} and {high}"
    if low is not None:
        return f"above {low}"
    return "any figure" if high is None else f"below {high}"


def bound_text(bound: float, *, counts: bool) -> str:
    """Return a bound of a region, as `+2 %` or `100`."""
    if counts:
        return f"{bound:.4g}".replace("-", units.MINUS)
    return "0 %" if bound == 0 else units.keep_together(units.percent(bound))


def _parts(testing: Testing) -> Iterator[str]:
    """Yield what must hold for a claim to hold."""
    if isinstance(testing, Comparing):
        yield from _of_contrasts(testing.contrasts)
    elif isinstance(testing, Running):
        yield from _of_launches(testing)
    elif isinstance(testing, Counting):
        for place, against, region in testing.counts:
            less = "" if against is None else f" less {against}"
            yield f"{place}{less}, every launch: {words(region, counts=True)}"
    else:
        yield from _of_facts(testing)


def _of_contrasts(contrasts: Sequence[tuple[Contrast | Slope, Region]]) -> Iterator[str]:
    """Yield each contrast with its region; where two compare the same environments, with what was measured there."""
    names = [_name(contrast) for contrast, _ in contrasts]
    for (contrast, region), name in zip(contrasts, names, strict=True):
        where = _where(contrast.places[0][0]) if names.count(name) > 1 else ""
        yield f"{name}{where}: {words(region, counts=contrast.counts or contrast.absolute)}"


def _name(contrast: Contrast | Slope) -> str:
    """Return what a contrast compares, or what grows along which number."""
    if isinstance(contrast, Contrast):
        return contrast_words(contrast)
    along, grows = contrast.points[0]
    return f"{contrast_words(grows)}, from the least {along.metric.partition(':')[2]} to the most"


def _where(place: CellPattern) -> str:
    """Return the column and the workload of a place, as ` (latency / osu)`."""
    given = [part for part in (place.what, place.workload, place.placement) if part]
    return f" ({' / '.join(given)})" if given else ""


def _of_launches(testing: Running) -> Iterator[str]:
    """Yield which launches must complete, which must fail, and for what reason."""
    parts = (
        f"all launches of {', '.join(map(str, testing.places))} complete" if testing.places else "",
        f"all of {', '.join(map(str, testing.failing))} fail" if testing.failing else "",
        f"for a reason with {testing.saying!r}" if testing.saying and testing.failing else "",
        f"contradicted by a reason with {testing.saying!r}" if testing.saying and not testing.failing else "",
    )
    yield ", ".join(part for part in parts if part)


def _of_facts(testing: Stating) -> Iterator[str]:
    """Yield what ranks must report."""
    for fact in testing.facts:
        verb = "is not" if fact.differs else "is"
        yield f"all ranks of {fact.place}: {fact.name} {verb} {' or '.join(fact.patterns)}"
