"""The papers' claims are all there, and what tests them is in the studies that they name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from pathlib import Path

import pytest

from tare import study
from tare.analysis.summary.isolation import NAMESPACES
from tare.analysis.summary.rows import PairedRows
from tare.analysis.summary.select import select
from tare.compare.claims import read_paper
from tare.compare.claims.facts import facts_of
from tare.compare.claims.figures import COUNTER, FIGURE, TRAFFIC, MeasuredStudy
from tare.compare.claims.judge import places_of, studies_of
from tare.compare.claims.model import CellPattern, Claim, Comparing, Here, Slope, Stating, Test, Text, Undecided
from tare.compare.claims.modes import NUMBERS
from tare.compare.claims.paper_keys import NUMBER
from tare.model import MetricInfo, Plan, RankPlace
from tare.study.plan.cells import expand
from tare.workloads import plugin_of

SAID = {
    "capabilities": "0", "uid_map": "0 0 1", "seccomp": "2", "no_new_privs": "0", "root": "rw", "setuid": "none",
    "limits": "cores=1",
}  # fmt: skip
REPOSITORY = Path(__file__).parents[4]
INVENTORY = {"000": 110, "001": 54, "002": 30, "003": 35, "004": 60, "2406.11760": 6, "abraham-2020": 3}
"""Claims of each paper that were found when the papers were first read; more may be added."""
PAPERS = {name: read_paper(REPOSITORY / "claims" / f"{name}.yaml") for name in INVENTORY}
CLAIMS = [claim for paper in PAPERS.values() for claim in paper.claims.values()]
STUDIES = sorted(
    {claim.by.study for claim in CLAIMS if isinstance(claim.by, Undecided) and claim.by.study}
    | {name for claim in CLAIMS if isinstance(claim.by, Test) for name in studies_of(claim.by)}
)


class Planned(MeasuredStudy):
    """A study that has not run: it has the metrics that its workloads will have."""

    @cached_property
    def table(self) -> PairedRows:
        return PairedRows(select(self.plan, ()), tuple(infos(self.plan)), ())


@cache
def measured(name: str) -> MeasuredStudy:
    """Return a study that has not run."""
    plan = expand(study.load(REPOSITORY / "studies" / f"{name}.yaml"), lambda *_: None)
    return Planned(plan=plan, trials=(), cores=2, label=name)


def infos(plan: Plan) -> Iterator[MetricInfo]:
    for group, cell in {cell.group: cell for cell in plan.cells}.items():
        for info in plugin_of(cell.workload).metrics(cell.workload, cell.placement):
            yield MetricInfo(key=info.key, label=info.label, kind=info.kind, statistic="", group=group)


def compared(claims: Iterable[Claim], *, counts: bool = False) -> list[tuple[str, CellPattern]]:
    """Return the places whose costs, or numbers, claims compare, each with its study."""
    found = []
    for claim in claims:
        if isinstance(claim.by, Test) and isinstance(claim.by.testing, Comparing):
            contrasts = [contrast for contrast, _ in claim.by.testing.contrasts if contrast.counts == counts]
            places = [place for contrast in contrasts for place, _ in contrast.places]
            found += [(place.study or claim.by.study, place) for place in places]
    return found


@pytest.mark.parametrize("name", INVENTORY)
def test_every_claim_of_the_inventory_is_there(name: str) -> None:
    numbers = [int(number.rpartition("-")[2]) for number in PAPERS[name].claims]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= INVENTORY[name]
    assert all(number.startswith(f"{name}-") for number in PAPERS[name].claims)


def test_the_number_of_a_claim_begins_with_a_name_that_may_have_dots_and_hyphens() -> None:
    assert all(re.search(NUMBER, number) for number in ("003-5", "2406.11760-1", "abraham-2020-3", "abraham-2020-3b"))
    others = ("003", "-5", "a--5", "a-", "a.-5", "a b-5", "a/b-5", "a-5bc")
    assert [number for number in others if re.search(NUMBER, number)] == []


def test_every_claim_says_what_decides_it_and_most_that_a_lab_can_decide_have_a_test() -> None:
    for claim in CLAIMS:
        if isinstance(claim.by, Undecided):
            assert claim.by.what not in {"", "a test in this file"}, claim.number
        elif isinstance(claim.by, Text):
            assert len(claim.by.because.split()) >= 3, claim.number
    here = [claim for claim in CLAIMS if claim.here is Here.YES]
    decided = [claim for claim in here if isinstance(claim.by, Test | Text)]
    assert len(decided) >= 0.5 * len(here)


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_that_claims_name_can_be_planned(name: str) -> None:
    assert measured(name).plan.cells
    if name in {study_name for study_name, _ in compared(CLAIMS)}:
        assert measured(name).plan.study.repetition.rounds >= 6, "verdicts need six rounds"


def test_every_cell_metric_and_line_that_a_claim_compares_is_in_its_study() -> None:
    for name, place in compared(CLAIMS):
        if not not_planned(measured(name), place):
            measured(name).logs(place)
    for _, place in compared(CLAIMS, counts=True):
        assert place.metric.startswith((COUNTER, FIGURE, TRAFFIC, *NUMBERS)), place
    for claim in CLAIMS:
        if isinstance(claim.by, Test):
            for place in places_of(claim.by):
                measured(place.study or claim.by.study).cell(place)
    for claim in CLAIMS:
        if isinstance(claim.by, Test) and isinstance(claim.by.testing, Comparing):
            slopes = [each for each, _ in claim.by.testing.contrasts if isinstance(each, Slope)]
            for place in (place for slope in slopes for place, _ in slope.points):
                measured(claim.by.study).cell(place)
                assert place.metric.startswith((COUNTER, FIGURE, TRAFFIC)), place


def test_the_facts_that_a_claim_names_are_reported() -> None:
    rank = RankPlace(
        rank=0, host="h", hostname="h", pid=1, cpus=(), namespaces=dict.fromkeys(NAMESPACES, 1), rights=SAID
    )
    for claim in CLAIMS:
        if isinstance(claim.by, Test) and isinstance(claim.by.testing, Stating):
            assert {fact.name for fact in claim.by.testing.facts} <= set(facts_of(rank)), claim.number


def not_planned(found: MeasuredStudy, place: CellPattern) -> bool:
    """Return whether the metrics of a place are known only when it has run, as those of other people's programs."""
    group = found.cell(place).group
    return not any(info.group == group for info in found.table.infos)
