"""Applications tell how much of their time was spent in MPI, and slow their arithmetic on request.

By the clock of ticks, what an application computes between two calls of MPI takes one tick, and so does a call: the
clock is read at both ends of it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kernels.launching import TICK_S, ticking
from miniapps.launching import figures, right
from miniapps.test_all import SMALL
from tare.workloads.declared import MINIAPPS, choice_of

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake", "openmpi")]


@pytest.mark.parametrize("app", [app.name for app in MINIAPPS.values() if app.official_pace])
def test_at_the_official_pace_the_result_is_the_same(program: Path, app: str) -> None:
    spec = f"{SMALL.get(app, f'{app}:class=S')},pace=official"
    record = right(program, spec, 4 if app in {"npb-bt", "npb-sp"} else 2)
    assert record["parameters"]["pace"] == MINIAPPS[app].official_pace
    assert record["parameters"] == dict(choice_of(spec).values)
    assert 0 < figures(record)["time in MPI"] < 100


def ticks(record: dict) -> int:
    return round(record["elapsed_s"] / TICK_S)


def test_arithmetic_takes_as_much_longer_as_was_asked_for(program: Path) -> None:
    usual, slowed = (right(program, f"npb-ft:class=S,pace={pace}", 1, env=ticking()) for pace in (100, 1000))
    calls = (ticks(usual) - 2) // 2
    assert calls > 5
    # What was computed before a call, and at the end, is waited for nine times more and a reading; the first took two.
    assert ticks(slowed) == ticks(usual) + (calls + 1) * 10 + 9
    assert figures(usual)["time in MPI"] == pytest.approx(100 * calls / ticks(usual))
    assert figures(slowed)["time in MPI"] == pytest.approx(100 * calls / ticks(slowed))


def test_time_in_mpi_is_told_where_mpi_is_what_is_measured(program: Path) -> None:
    assert figures(right(program, "kmi:reads=64,queries=50", 2))["time in MPI"] > 0
    assert "time in MPI" not in figures(right(program, "net-tcp-rtt:round_trips=10", 2))


@pytest.mark.measures
def test_a_program_that_mostly_waits_in_mpi_says_so(program: Path) -> None:
    assert figures(right(program, "npb-ep:class=S,pace=1000", 1))["time in MPI"] < 5
    assert figures(right(program, "kmi", 2))["time in MPI"] > 20
