"""Every mini-application verifies itself on every number of ranks: under sanitizers where it is small, and larger."""

from __future__ import annotations

from pathlib import Path

import pytest

from miniapps.launching import SANITIZERS, ran
from tare.workloads.declared import MINIAPPS, choice_of, choose
from tare.workloads.miniapps import RATES

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake", "openmpi")]

SMALL = {
    "hpcg": "hpcg:nx=16,ny=16,nz=16,seconds=0",
    "minife": "minife:nx=12,ny=12,nz=12",
    "graph500": "graph500:scale=8,roots=8",
    "kmi": "kmi:reads=64,queries=64",
    "net-tcp-stream": "net-tcp-stream:milliseconds=100",
    "net-tcp-pingpong": "net-tcp-pingpong:milliseconds=100",
    "net-tcp-rtt": "net-tcp-rtt:round_trips=200",
    "net-udp-stream": "net-udp-stream:milliseconds=100",
    "net-udp-rtt": "net-udp-rtt:round_trips=200",
    "io-sequential": "io-sequential:kib=100,files=2",
    "io-random": "io-random:kib=100,files=2,write=1",
    "io-metadata": "io-metadata:files=50",
    "attempts": "attempts",
}
"""Applications without classes, in a size that takes a moment under sanitizers."""


def runs(letter: str) -> list[tuple[str, int]]:
    """Return each application in a class, or small where it has none, with each number of ranks that it allows."""
    found = []
    for app in MINIAPPS.values():
        if letter not in (app.classes or "S"):
            continue
        choice = choose(app, {"class": letter}) if app.classes else choice_of(SMALL[app.name])
        found += [(choice.spec, ranks) for ranks in (1, 2, 4) if app.refuse(choice, ranks) is None]
    return found


def verify(program: Path, spec: str, ranks: int, env: dict[str, str] | None = None, limit_s: int = 100) -> None:
    status, record, stderr = ran(program, spec, ranks, env=env, limit_s=limit_s)
    assert status == 0, stderr
    assert record["verified"]
    assert record["checks"]
    assert all(check["passed"] for check in record["checks"])
    choice = choice_of(spec)
    if choice.letter:  # others do as much as their time allows
        assert record["operations"] == pytest.approx(choice.app.operations(choice, ranks), rel=1e-6)
    assert record["rate_unit"] in RATES or record["rate_unit"] == choice.app.rate


@pytest.mark.parametrize(("spec", "ranks"), runs("S"))
def test_the_smallest_size_is_right_under_sanitizers(sanitized: Path, spec: str, ranks: int) -> None:
    verify(sanitized, spec, ranks, SANITIZERS)


@pytest.mark.parametrize(
    ("spec", "ranks"),
    # Four ranks on two cores take as long as all else here; class S has them in every run.
    [pytest.param(*run, marks=[pytest.mark.long] if run[1] > 2 else []) for run in runs("W")],
)
def test_class_w_is_right(program: Path, spec: str, ranks: int) -> None:
    verify(program, spec, ranks)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("spec", "ranks"), runs("A"))
def test_class_a_is_right(program: Path, spec: str, ranks: int) -> None:
    verify(program, spec, ranks, limit_s=600)


@pytest.mark.requires("mpich")
@pytest.mark.parametrize("app", [app.name for app in MINIAPPS.values()])
def test_every_application_is_right_under_mpich(program_mpich: Path, app: str) -> None:
    spec = next(spec for spec, ranks in runs("S") if spec.startswith(f"{app}:") or spec == app)
    ranks = max(ranks for each, ranks in runs("S") if each == spec and ranks <= 2)
    status, record, stderr = ran(program_mpich, spec, ranks, mpi="mpich")
    assert (status, record.get("verified")) == (0, True), stderr
