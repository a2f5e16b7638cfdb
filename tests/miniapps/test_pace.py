"""Applications tell how much of their time was spent in MPI, and slow their arithmetic on request."""

from __future__ import annotations

from pathlib import Path

import pytest

from miniapps.launching import figures, ran
from tare.workloads.declared import MINIAPPS, choice_of

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake", "openmpi")]

SMALL = {
    "hpcg": "hpcg:nx=16,ny=16,nz=16,seconds=0",
    "minife": "minife:nx=12,ny=12,nz=12",
    "graph500": "graph500:scale=8,roots=8",
}


@pytest.mark.parametrize("app", [app.name for app in MINIAPPS.values() if app.official_pace])
def test_at_the_official_pace_the_result_is_the_same(program: Path, app: str) -> None:
    ranks = 4 if app in {"npb-bt", "npb-sp"} else 2
    spec = SMALL.get(app, f"{app}:class=S")
    status, record, stderr = ran(program, f"{spec},pace=official", ranks)
    assert status == 0, stderr
    assert record["verified"]
    assert record["parameters"]["pace"] == MINIAPPS[app].official_pace
    assert record["parameters"] == dict(choice_of(f"{spec},pace=official").values)
    assert 0 < figures(record)["time in MPI"] < 100


def test_arithmetic_takes_as_much_longer_as_was_asked_for(program: Path) -> None:
    usual = min(ran(program, "npb-ft:class=S", 1, cached=False)[1]["elapsed_s"] for _ in range(3))
    slowed = ran(program, "npb-ft:class=S,pace=1000", 1)[1]["elapsed_s"]
    assert slowed > 4 * usual


def test_a_program_that_mostly_waits_in_mpi_says_so(program: Path) -> None:
    _, record, _ = ran(program, "npb-ep:class=S,pace=1000", 1)
    assert figures(record)["time in MPI"] < 5
    _, record, _ = ran(program, "kmi", 2)
    assert figures(record)["time in MPI"] > 20
    _, record, _ = ran(program, "net-tcp-rtt:round_trips=10", 2)
    assert "time in MPI" not in figures(record)


def test_a_pace_that_is_not_possible_is_refused(program: Path) -> None:
    status, record, stderr = ran(program, "npb-ep:class=S,pace=fast", 1)
    assert (status, record) == (2, {})
    assert "pace=fast is not possible; allowed: a whole number from 100 to 1000, or official" in stderr
