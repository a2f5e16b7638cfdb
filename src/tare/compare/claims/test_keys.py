"""Define the keys of a claim's test, and make them `model.Test`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Annotated, Final

from pydantic import BeforeValidator, Field, model_validator

from tare.compare.claims.model import (
    CellPattern,
    Comparing,
    Contrast,
    Counting,
    FactPattern,
    Region,
    Running,
    Slope,
    Stating,
    Test,
    Testing,
)
from tare.model import quantities
from tare.study.value_types import Checked, Word

FORMS: Final = ("cost", "costs", "order", "change", "changes", "slope", "count", "each", "facts", "runs", "fails")
TOGETHER: Final = (["costs", "count"], ["runs", "fails"])
"""Forms that a test can have together: all that they say must hold."""
VARIATION: Final = "variation:"


def _fraction(value: object) -> object:
    """Read `5%`, `-3%` or `0.05`."""
    if isinstance(value, str) and value.startswith("-"):
        return -quantities.parse_fraction(value[1:])
    return None if value is None else quantities.parse_fraction(value)


Fraction = Annotated[float, BeforeValidator(_fraction), Field(gt=-1)]


class PlaceForm(Checked):
    """A cell and a column; keys that are not given are those of the test."""

    environment: Word
    workload: str = ""
    placement: str = ""
    metric: str = ""


def _place(value: object) -> object:
    return {"environment": value} if isinstance(value, str) else value


PlaceOf = Annotated[PlaceForm, BeforeValidator(_place)]


class RegionForm(Checked):
    """Where a figure must be: above, below, or within or beyond a fraction of equality on both sides."""

    above: Fraction | None = None
    below: Fraction | None = None
    within: Annotated[Fraction, Field(gt=0)] | None = None
    beyond: Annotated[Fraction, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _one(self) -> RegionForm:
        given = (self.within is not None, self.beyond is not None, self.above is not None or self.below is not None)
        if sum(given) > 1:
            raise ValueError("give one of within, beyond, and above with or without below")
        if not any(given):
            raise ValueError("say where the figure must be: above, below, within or beyond")
        if self.above is not None and self.below is not None and self.above >= self.below:
            raise ValueError("above must be less than below")
        return self

    def region(self) -> Region:
        """Return the region; `within: 5%` is from 1/1.05 - 1 to 5 %, and `beyond: 5%` what is outside of it."""
        if (margin := self.within if self.beyond is None else self.beyond) is not None:
            return Region(low=1.0 / (1.0 + margin) - 1.0, high=margin, beyond=self.beyond is not None)
        return Region(low=self.above, high=self.below)


class CostForm(RegionForm):
    """What a cell costs against another one, both of another study if it is given."""

    of: PlaceOf
    against: PlaceOf
    study: str = ""


class ChangeForm(RegionForm):
    """By how much a cost against a second cell exceeds that of a third one against a fourth."""

    of: PlaceOf
    against: PlaceOf
    than: PlaceOf
    than_against: PlaceOf


class SlopeForm(RegionForm):
    """How much more a cost, or a number, is at the workload with the largest x than at that with the least."""

    of: PlaceOf
    against: PlaceOf | None = None
    over: Annotated[list[Word], Field(min_length=3)]
    x: Word


class CountForm(Checked):
    """A counter or figure of a cell a launch, or how much more it is than that of another cell; bounds in its unit."""

    of: PlaceOf
    against: PlaceOf | None = None
    above: float | None = None
    below: float | None = None

    @model_validator(mode="after")
    def _bounded(self) -> CountForm:
        if self.above is None and self.below is None:
            raise ValueError("say where the number must be: above or below")
        if self.above is not None and self.below is not None and self.above >= self.below:
            raise ValueError("above must be less than below")
        return self


class OtherPlaceForm(PlaceForm):
    """A place that may be in another study."""

    study: str = ""


OtherPlaceOf = Annotated[OtherPlaceForm, BeforeValidator(_place)]


class EachForm(CountForm):
    """A number of every launch, or how much more it is than every one of another cell, which may be another study's."""

    of: OtherPlaceOf
    against: OtherPlaceOf | None = None


class FactForm(Checked):
    """What all ranks of a cell report under a name: one of `values`, or none of `others`; both may be patterns."""

    of: PlaceOf
    name: Word
    values: Annotated[list[Word], Field(min_length=1)] | None = None
    others: Annotated[list[Word], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _one(self) -> FactForm:
        if (self.values is None) == (self.others is None):
            raise ValueError("give either values, or others")
        return self


def _in_study(contrast: Contrast, study: str) -> Contrast:
    """Return a contrast in a study; "" is that of the test."""
    return replace(contrast, places=tuple((replace(place, study=study), power) for place, power in contrast.places))


def _positive(given: CountForm) -> None:
    if given.against is not None:
        raise ValueError("compare variations by cost, as a ratio; count holds one against a bound")
    if min(bound for bound in (given.above, given.below) if bound is not None) <= 0:
        raise ValueError("the bound of a variation must be above 0; 0.01 is 1 % of the cost")


def _listed(value: object) -> object:
    return [value] if isinstance(value, dict) else value


class TestForm(Checked):
    """How a study tests a claim: one of `FORMS`, or several that are in `TOGETHER`."""

    __test__ = False

    study: Word
    workload: str = ""
    placement: str = ""
    metric: str = ""
    cost: CostForm | None = None
    costs: Annotated[list[CostForm], Field(min_length=1)] | None = None
    order: Annotated[list[PlaceOf], Field(min_length=2)] | None = None
    change: ChangeForm | None = None
    changes: Annotated[list[ChangeForm], Field(min_length=1)] | None = None
    slope: SlopeForm | None = None
    count: Annotated[list[CountForm], BeforeValidator(_listed), Field(min_length=1)] | None = None
    each: Annotated[list[EachForm], BeforeValidator(_listed), Field(min_length=1)] | None = None
    facts: Annotated[list[FactForm], BeforeValidator(_listed), Field(min_length=1)] | None = None
    runs: Annotated[list[PlaceOf], Field(min_length=1)] | None = None
    fails: Annotated[list[PlaceOf], Field(min_length=1)] | None = None
    saying: str = ""
    cores: Annotated[int, Field(ge=0, le=1 << 20)] = 0
    rebuilt: str = ""

    @model_validator(mode="after")
    def _one(self) -> TestForm:
        given = [name for name in FORMS if getattr(self, name) is not None]
        if len(given) != 1 and given not in TOGETHER:
            wanted = f"give one of {', '.join(FORMS[:-2])}, or {', or '.join(map(' and '.join, TOGETHER))}"
            raise ValueError(f"{wanted}, not {' and '.join(given) or 'none'}")
        for each in self.count or ():
            if self._place(each.of).metric.startswith(VARIATION):
                _positive(each)
        return self

    def test(self) -> Test:
        """Return the test."""
        return Test(study=self.study, testing=self._testing(), cores=self.cores, rebuilt=self.rebuilt)

    def _testing(self) -> Testing:
        if self.runs is not None or self.fails is not None:
            running, failing = (tuple(map(self._place, places or ())) for places in (self.runs, self.fails))
            return Running(places=running, failing=failing, saying=self.saying)
        if self.each is not None:
            return Counting(counts=tuple(map(self._counted, self.each)))
        if self.facts is not None:
            return Stating(facts=tuple(map(self._fact, self.facts)))
        return Comparing(contrasts=tuple(self._contrasts()))

    def _counted(self, each: EachForm) -> tuple[CellPattern, CellPattern | None, Region]:
        against = None if each.against is None else self._place(each.against)
        return self._place(each.of), against, Region(low=each.above, high=each.below)

    def _fact(self, each: FactForm) -> FactPattern:
        patterns = tuple(each.values or each.others or ())
        return FactPattern(
            place=self._place(each.of), name=each.name, patterns=patterns, differs=each.others is not None
        )

    def _contrasts(self) -> Iterator[tuple[Contrast | Slope, Region]]:
        for each in (*(self.costs or ()), *([self.cost] if self.cost else ())):
            yield _in_study(self._ratio(each.of, each.against), each.study), each.region()
        for cheaper, dearer in pairwise(self.order or ()):
            yield self._ratio(dearer, cheaper), Region(low=0.0)
        for number in self.count or ():
            yield self._count(number), Region(low=number.above, high=number.below)
        for change in (*(self.changes or ()), *([self.change] if self.change else ())):
            first = self._ratio(change.of, change.against).places
            second = self._ratio(change.than, change.than_against).places
            yield Contrast(places=(*first, *((place, -power) for place, power in second))), change.region()
        if self.slope is not None:
            yield Slope(points=tuple(self._points(self.slope))), self.slope.region()

    def _count(self, given: CountForm) -> Contrast:
        place = self._place(given.of)
        if given.against is not None:
            return Contrast(places=((place, 1), (self._place(given.against), -1)), counts=True)
        absolute = place.metric.startswith(VARIATION)
        return Contrast(places=((place, 1),), counts=not absolute, absolute=absolute)

    def _points(self, given: SlopeForm) -> Iterator[tuple[CellPattern, Contrast]]:
        """Yield a point a workload: where x is read, in the cell that is the standard, and what grows with it."""
        for workload in given.over:
            of = self._place(given.of.model_copy(update={"workload": workload}))
            against = given.against and self._place(given.against.model_copy(update={"workload": workload}))
            x = replace(against or of, metric=given.x)
            places = ((of, 1), (against, -1)) if against else ((of, 1),)
            yield x, Contrast(places=places, counts=against is None)

    def _ratio(self, of: PlaceForm, against: PlaceForm) -> Contrast:
        return Contrast(places=((self._place(of), 1), (self._place(against), -1)))

    def _place(self, given: PlaceForm) -> CellPattern:
        return CellPattern(
            environment=given.environment,
            workload=given.workload or self.workload,
            placement=given.placement or self.placement,
            metric=given.metric or self.metric,
            study=getattr(given, "study", ""),
        )
