"""Mini-applications take turns with other launches: what they do in shares is what they do at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from at_table import Seated, opened
from kernels.launching import SANITIZERS, TICK_S, Run, argv_of, execute, ticking
from miniapps.launching import Record, counts, figures, record_of, right, series
from miniapps.test_all import OF_TURNS, SMALL
from tare.mpi.launch import PADDING
from tare.run.turns import TurnScheduler
from tare.workloads.declared import MINIAPPS, choice_of
from tare.workloads.parts import of_launch

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake", "openmpi", "mpich")]

PAUSE_S: Final = 3600.0
"""How long a pause is on the clock of ticks."""


@pytest.fixture
def table() -> Iterator[TurnScheduler]:
    with opened() as table:
        yield table


def in_turns(
    table: TurnScheduler, program: Path, spec: str, *, ranks: int, turns: int, mpi: str, **variables: str
) -> dict[str, Any]:
    """Run an application in turns and return its record."""

    def with_key(option: str, key: str) -> Run:
        run = execute(*argv_of(mpi, ranks, {**variables, PADDING: f"{key}:"}, program, option, spec))
        return replace(run, stdout=of_launch(run.stdout, key))

    run = Seated(table, with_key, ranks, turns).take(turns)
    assert run.code == 0, run.stderr
    record = record_of(run)
    assert record["verified"]
    return record


def spec_of(name: str) -> str:
    return SMALL.get(name, f"{name}:class=S")


@pytest.mark.parametrize(
    ("build", "mpi", "ranks", "turns"), [("sanitized", "openmpi", 3, 3), ("program_mpich", "mpich", 2, 4)]
)
@pytest.mark.parametrize("name", OF_TURNS)
def test_in_turns_an_application_does_all_of_its_work(
    name: str, build: str, mpi: str, ranks: int, turns: int, table: TurnScheduler, request: pytest.FixtureRequest
) -> None:
    spec = spec_of(name)
    if MINIAPPS[name].refuse(choice_of(spec), ranks):
        ranks = 4
    record = in_turns(table, request.getfixturevalue(build), spec, ranks=ranks, turns=turns, mpi=mpi, **SANITIZERS)
    alone = right(request.getfixturevalue("program"), spec, ranks)
    assert [check["name"] for check in record["checks"]] == [check["name"] for check in alone["checks"]]
    assert figures(record).keys() == figures(alone).keys()
    assert {key: len(values) for key, values in series(record).items()} == {
        key: len(values) for key, values in series(alone).items()
    }
    marks = {1: ranks * (ranks - 1) * (turns - 1)} if name == "kmi" else {}  # each share ends as the whole does
    more = {size: count + marks.get(size, 0) for size, count in counts(alone, "send").items()}
    assert counts(record, "send") == more
    assert "shares" not in alone
    if name == "graph500":  # its searches are timed one by one, and its rate is a harmonic mean
        assert "shares" not in record
    else:
        assert record["operations"] == pytest.approx(alone["operations"], rel=1e-12)  # another build rounds otherwise
        assert 1 <= len(record["shares"]["parts"]) <= turns  # miniFE of this size is done in the first ones
        assert min(record["shares"]["parts"]) >= 1


def ticks(record: Record) -> int:
    return round(record["elapsed_s"] / TICK_S)


@pytest.mark.parametrize("name", OF_TURNS)
def test_pauses_are_in_no_time(name: str, table: TurnScheduler, program: Path) -> None:
    spec = spec_of(name)
    clock = ticking(TARE_PAUSE_NS=f"{PAUSE_S * 1e9:.0f}")
    ranks = 2 if MINIAPPS[name].refuse(choice_of(spec), 1) else 1
    record = in_turns(table, program, spec, ranks=ranks, turns=3, mpi="openmpi", **clock)
    assert TICK_S <= record["elapsed_s"] < PAUSE_S / 100
    for key, values in series(record).items():
        assert "time" not in key or 0 < sum(values) < PAUSE_S / 100, key
    if name == "graph500":
        return
    shares = record["shares"]["elapsed_s"]
    outside = {"hpcg": 8, "minife": 5}.get(name, 2)  # readings before the first part
    assert ticks(record) == round(sum(shares) / TICK_S) + outside
    if name.startswith("npb-"):
        alone = right(program, spec, ranks, env=clock)
        assert ticks(record) == ticks(alone) + 2 * len(shares), "a pause ends a section and begins one"


def test_with_more_turns_than_parts_some_turns_have_none(table: TurnScheduler, program: Path) -> None:
    record = in_turns(table, program, "graph500:scale=8,roots=3", ranks=1, turns=8, mpi="openmpi")
    assert figures(record)["searches"] == 3


@pytest.mark.parametrize(
    ("option", "app", "said"),
    [
        ("--turns=2@127.0.0.1:1/0123456789abcdef", "io-metadata", "takes no turns; allowed: one that divides its work"),
        ("--turns=2@nowhere", "hpcg", "one application is needed"),
        ("--other", "hpcg", "one application is needed"),
    ],
)
def test_what_cannot_take_turns_says_so(program: Path, option: str, app: str, said: str) -> None:
    run = execute(*argv_of("openmpi", 1, {}, program, option, app))
    assert run.code == 2
    assert said in run.stderr
