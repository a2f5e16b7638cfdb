"""Say in words what a claim's test compares, and for which results the claim holds. Pure."""

from __future__ import annotations

from tare.claims.model import Claim, Comparing, Contrast, Region, Running, Test
from tare.report import units


def tested(claim: Claim) -> str:
    """Say for which results a claim holds, "" if no study tests it."""
    testing = claim.by.testing if isinstance(claim.by, Test) else None
    if isinstance(testing, Comparing):
        return "; ".join(
            f"{contrast_words(contrast)}: {words(region, counts=contrast.counts)}"
            for contrast, region in testing.contrasts
            if isinstance(contrast, Contrast) and not contrast.absolute and not region.beyond
        )
    if isinstance(testing, Running):
        parts = (
            f"all launches of {', '.join(map(str, testing.places))} complete" if testing.places else "",
            f"all of {', '.join(map(str, testing.failing))} fail" if testing.failing else "",
            f"for a reason with {testing.saying!r}" if testing.saying and testing.failing else "",
            f"contradicted by a reason with {testing.saying!r}" if testing.saying and not testing.failing else "",
        )
        return ", ".join(part for part in parts if part)
    return ""


def words(region: Region, *, counts: bool) -> str:
    """Return a region in words, as `above 2 %` or `between −2 % and 2 %`."""
    if region.low is not None and region.high is not None:
        return f"between {bound_text(region.low, counts=counts)} and {bound_text(region.high, counts=counts)}"
    if region.low is not None:
        return f"above {bound_text(region.low, counts=counts)}"
    return "any figure" if region.high is None else f"below {bound_text(region.high, counts=counts)}"


def bound_text(bound: float, *, counts: bool) -> str:
    """Return a bound of a region, as `+2 %` or `100`."""
    if counts:
        return f"{bound:.4g}".replace("-", units.MINUS)
    return "0 %" if bound == 0 else units.keep_together(units.percent(bound))


def contrast_words(contrast: Contrast) -> str:
    """Return which cells a contrast compares, as `docker+overlay against bare`."""
    names = [place.environment for place, _ in contrast.places]
    if len(set(names)) < len(names):
        names = [str(place) for place, _ in contrast.places]
    first = [name for name, (_, power) in zip(names, contrast.places, strict=True) if power > 0]
    second = [name for name, (_, power) in zip(names, contrast.places, strict=True) if power < 0]
    if contrast.counts:
        return " less ".join([" plus ".join(first), *second])
    if len(first) == len(second) == 2:
        return f"{first[0]} against {second[0]}, over {second[1]} against {first[1]}"
    return " against ".join(part for part in (" times ".join(first), " times ".join(second)) if part)
