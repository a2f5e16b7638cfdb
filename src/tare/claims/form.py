"""Define the keys of a file of claims, and make them `model.Paper`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated, Final

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from tare.claims.model import (
    Claim,
    Comparing,
    Contrast,
    Here,
    Kind,
    Needs,
    Paper,
    Place,
    Region,
    Running,
    Test,
    Text,
    Verdict,
)
from tare.model import quantities
from tare.study.value_types import Checked, Word, choice

FORMS: Final = ("cost", "costs", "order", "change", "count", "runs", "fails")
NUMBER: Final = r"^[A-Za-z0-9.]+-[0-9]+[a-z]?$"
TEXT_VERDICTS: Final = (Verdict.REPRODUCED.value, Verdict.CONTRADICTED.value)


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
    """Where a figure must be: above, below, or within a fraction of equality on both sides."""

    above: Fraction | None = None
    below: Fraction | None = None
    within: Annotated[Fraction, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _one(self) -> RegionForm:
        if self.within is not None and (self.above is not None or self.below is not None):
            raise ValueError("give either within, or above and below")
        if self.within is None and self.above is None and self.below is None:
            raise ValueError("say where the figure must be: above, below or within")
        if self.above is not None and self.below is not None and self.above >= self.below:
            raise ValueError("above must be less than below")
        return self

    def region(self) -> Region:
        """Return the region; `within: 5%` is from 1/1.05 - 1 to 5 %."""
        if self.within is not None:
            return Region(low=1.0 / (1.0 + self.within) - 1.0, high=self.within)
        return Region(low=self.above, high=self.below)


class CostForm(RegionForm):
    """What a cell costs against another one."""

    of: PlaceOf
    against: PlaceOf


class ChangeForm(RegionForm):
    """By how much a cost against a second cell exceeds that of a third one against a fourth."""

    of: PlaceOf
    against: PlaceOf
    than: PlaceOf
    than_against: PlaceOf


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


def _listed(value: object) -> object:
    return [value] if isinstance(value, dict) else value


class TestForm(Checked):
    """How a study tests a claim: one of cost, costs, order, change, count, and runs with or without fails."""

    __test__ = False

    study: Word
    workload: str = ""
    placement: str = ""
    metric: str = ""
    cost: CostForm | None = None
    costs: Annotated[list[CostForm], Field(min_length=1)] | None = None
    order: Annotated[list[PlaceOf], Field(min_length=2)] | None = None
    change: ChangeForm | None = None
    count: Annotated[list[CountForm], BeforeValidator(_listed), Field(min_length=1)] | None = None
    runs: Annotated[list[PlaceOf], Field(min_length=1)] | None = None
    fails: Annotated[list[PlaceOf], Field(min_length=1)] | None = None
    saying: str = ""
    cores: Annotated[int, Field(ge=0, le=1 << 20)] = 0
    rebuilt: str = ""

    @model_validator(mode="after")
    def _one(self) -> TestForm:
        given = [name for name in FORMS if getattr(self, name) is not None]
        if len(given) != 1 and given != ["runs", "fails"]:
            wanted = "give one of cost, costs, order, change, count, or runs and fails"
            raise ValueError(f"{wanted}, not {' and '.join(given) or 'none'}")
        return self

    def test(self) -> Test:
        """Return the test."""
        if self.runs is not None or self.fails is not None:
            running, failing = (tuple(map(self._place, places or ())) for places in (self.runs, self.fails))
            return self._made(Running(places=running, failing=failing, saying=self.saying))
        return self._made(Comparing(contrasts=tuple(self._contrasts())))

    def _made(self, testing: Comparing | Running) -> Test:
        return Test(study=self.study, testing=testing, cores=self.cores, rebuilt=self.rebuilt)

    def _contrasts(self) -> Iterator[tuple[Contrast, Region]]:
        for each in (*(self.costs or ()), *([self.cost] if self.cost else ())):
            yield self._ratio(each.of, each.against), each.region()
        for cheaper, dearer in pairwise(self.order or ()):
            yield self._ratio(dearer, cheaper), Region(low=0.0)
        for each in self.count or ():
            places = [(self._place(each.of), 1), *([(self._place(each.against), -1)] if each.against else [])]
            yield Contrast(places=tuple(places), counts=True), Region(low=each.above, high=each.below)
        if self.change is not None:
            first = self._ratio(self.change.of, self.change.against).places
            second = self._ratio(self.change.than, self.change.than_against).places
            yield Contrast(places=(*first, *((place, -power) for place, power in second))), self.change.region()

    def _ratio(self, of: PlaceForm, against: PlaceForm) -> Contrast:
        return Contrast(places=((self._place(of), 1), (self._place(against), -1)))

    def _place(self, given: PlaceForm) -> Place:
        return Place(
            environment=given.environment,
            workload=given.workload or self.workload,
            placement=given.placement or self.placement,
            metric=given.metric or self.metric,
        )


class TextForm(Checked):
    """What the publication's own words decide."""

    verdict: choice(*TEXT_VERDICTS)  # type: ignore[valid-type]
    because: Word


class NeedsForm(Checked):
    """What would decide a claim, and the study that does it where that is."""

    what: Word
    study: str = ""


def _needs(value: object) -> object:
    return {"what": value} if isinstance(value, str) else value


class ClaimForm(Checked):
    """A claim: one of test, text and needs says what decides it."""

    place: Word
    claim: Word
    kind: choice(*Kind)  # type: ignore[valid-type]
    here: choice(*Here)  # type: ignore[valid-type]
    conditions: str = ""
    note: str = ""
    changed: str = ""
    test: TestForm | None = None
    text: TextForm | None = None
    needs: Annotated[NeedsForm, BeforeValidator(_needs)] | None = None

    @model_validator(mode="after")
    def _one(self) -> ClaimForm:
        given = [name for name in ("test", "text", "needs") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give one of test, text and needs, not {' and '.join(given) or 'none'}")
        return self

    def by(self) -> Test | Text | Needs:
        """Return what decides the claim."""
        if self.test is not None:
            return self.test.test()
        if self.text is not None:
            return Text(verdict=Verdict(self.text.verdict), because=self.text.because)
        needs = self.needs or NeedsForm(what="")
        return Needs(what=needs.what, study=needs.study)


class PaperForm(Checked):
    """A publication and its claims by number."""

    paper: Word
    title: Word
    source: Word
    conditions: str = ""
    claims: Annotated[dict[Annotated[str, StringConstraints(pattern=NUMBER)], ClaimForm], Field(min_length=1)]

    def made(self) -> Paper:
        """Return the publication."""
        return Paper(
            name=self.paper,
            title=self.title,
            source=self.source,
            conditions=self.conditions,
            claims={number: _claim(number, given) for number, given in self.claims.items()},
        )


def _claim(number: str, given: ClaimForm) -> Claim:
    return Claim(
        number=number,
        place=given.place,
        says=given.claim,
        kind=Kind(given.kind),
        here=Here(given.here),
        by=given.by(),
        conditions=given.conditions,
        note=given.note,
        changed=given.changed,
    )
