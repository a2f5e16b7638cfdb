"""Mini-applications take turns with other launches: what they do in shares is what they do at once."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from at_table import Seated, opened
from miniapps.launching import SANITIZERS, argv_of, counts, figures, ran, series, told
from tare.run.turns import Table, Waited
from tare.workloads.declared import MINIAPPS
from tare.workloads.declared.declaration import choose

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake", "openmpi", "mpich")]

SPECS: Final[Mapping[str, str]] = {
    "graph500": "graph500:scale=9,roots=7",
    "hpcg": "hpcg:nx=16,ny=16,nz=16,seconds=0",
    "minife": "minife:nx=12,ny=12,nz=12",
    "kmi": "kmi:reads=64,queries=50",
    **{name: f"{name}:class=S" for name in MINIAPPS if name.startswith("npb-")},
}
PAUSE_S: Final = 0.5
BURST_S: Final = 0.25
"""What a host takes from a run of a few milliseconds now and then, in its turns or before them."""


@pytest.fixture
def table() -> Iterator[Table]:
    with opened() as table:
        yield table


class Job(Seated):
    """A launch of `tare-miniapps` at a table, in a thread of its own."""

    def __init__(self, table: Table, program: Path, spec: str, *, ranks: int, turns: int, mpi: str) -> None:
        super().__init__(table, ranks, turns)
        *launcher, last = argv_of(program, spec, ranks, mpi=mpi)
        self.argv = (*launcher, self.option, last)
        self.run = ThreadPoolExecutor(1).submit(self._run)

    def _run(self) -> subprocess.CompletedProcess[str]:
        try:
            environment = {**os.environ, **SANITIZERS}
            return subprocess.run(self.argv, capture_output=True, text=True, check=False, env=environment)
        finally:
            self.end()

    def record(self) -> dict[str, Any]:
        ended = self.run.result()
        assert ended.returncode == 0, ended.stderr
        return next(each for each in told(ended.stdout) if each["type"] == "miniapp")


def refused(spec: str, ranks: int) -> str | None:
    """Return why an application cannot run on so many ranks."""
    name, _, given = spec.partition(":")
    app = MINIAPPS[name]
    return app.refuse(choose(app, dict(each.split("=") for each in given.split(","))), ranks)


def test_every_application_that_divides_its_work_is_tried_here() -> None:
    assert {app.name for app in MINIAPPS.values() if app.divides} == set(SPECS)


@pytest.mark.parametrize(
    ("build", "mpi", "ranks", "turns"), [("sanitized", "openmpi", 3, 5), ("program_mpich", "mpich", 2, 9)]
)
@pytest.mark.parametrize("name", SPECS)
def test_in_turns_an_application_does_all_of_its_work(
    name: str, build: str, mpi: str, ranks: int, turns: int, table: Table, request: pytest.FixtureRequest
) -> None:
    program = request.getfixturevalue(build)
    if refused(SPECS[name], ranks):
        ranks = 4
    job = Job(table, program, SPECS[name], ranks=ranks, turns=turns, mpi=mpi)
    assert job.wait() is Waited.READY
    for _ in range(turns):
        time.sleep(PAUSE_S)
        assert job.turn() is Waited.READY
    assert job.turn() is Waited.ENDED
    record = job.record()
    status, alone, stderr = ran(program, SPECS[name], ranks, mpi=mpi, env=SANITIZERS)
    assert status == 0, stderr
    assert record["verified"]
    assert [check["name"] for check in record["checks"]] == [check["name"] for check in alone["checks"]]
    if name != "graph500":  # its rate is a harmonic mean of times
        assert record["operations"] == alone["operations"]
    assert record["elapsed_s"] < job.in_turns_s, "pauses do not count"
    if name == "graph500":  # its searches are timed one by one
        assert "shares" not in record
    else:
        assert 1 <= len(record["shares"]["parts"]) <= turns  # miniFE of this size is done in the first of five
        assert min(record["shares"]["parts"]) >= 1
        outside_s = record["elapsed_s"] - sum(record["shares"]["elapsed_s"])
        assert -1e-4 * record["elapsed_s"] < outside_s < max(0.5 * record["elapsed_s"], BURST_S)
    assert "shares" not in alone
    for key, values in series(record).items():
        assert len(values) == len(series(alone)[key])
        assert "time" not in key or 0 < sum(values) < 1.01 * record["elapsed_s"], key
    marks = {1: ranks * (ranks - 1) * (turns - 1)} if name == "kmi" else {}  # each share ends as the whole does
    more = {size: count + marks.get(size, 0) for size, count in counts(alone, "send").items()}
    assert counts(record, "send") == more
    assert figures(record).keys() == figures(alone).keys()


def test_with_more_turns_than_parts_some_turns_have_none(table: Table, program_mpich: Path) -> None:
    job = Job(table, program_mpich, "graph500:scale=8,roots=3", ranks=2, turns=8, mpi="mpich")
    assert job.wait() is Waited.READY
    assert [job.turn() for _ in range(8)] == [Waited.READY] * 8
    assert job.turn() is Waited.ENDED
    assert figures(job.record())["searches"] == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("--turns=2@127.0.0.1:1/0123456789abcdef", "io-metadata"),
            "takes no turns; allowed: one that divides its work",
        ),
        (("--turns=2@nowhere", "hpcg"), "one application is needed"),
        (("--other", "hpcg"), "one application is needed"),
    ],
)
def test_what_cannot_take_turns_says_so(program: Path, arguments: tuple[str, str], said: str) -> None:
    argv = argv_of(program, arguments[1], 1)
    done = subprocess.run((*argv[:-1], *arguments), capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert said in done.stderr
