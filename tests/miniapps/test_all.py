"""Every mini-application verifies itself on any number of ranks, finds what is wrong and refuses what it cannot do."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernels.launching import SANITIZERS
from miniapps.launching import asked, failed, ran, right
from tare.workloads.declared import MINIAPPS, choice_of, choose
from tare.workloads.miniapps import RATES

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake", "openmpi")]

SMALL = {
    "hpcg": "hpcg:nx=16,ny=16,nz=16,seconds=0",
    "minife": "minife:nx=12,ny=9,nz=12",
    "graph500": "graph500:scale=8,roots=8",
    "kmi": "kmi:reads=64,queries=64",
    "net-tcp-stream": "net-tcp-stream:milliseconds=20",
    "net-tcp-pingpong": "net-tcp-pingpong:milliseconds=20",
    "net-tcp-rtt": "net-tcp-rtt:round_trips=200",
    "net-udp-stream": "net-udp-stream:milliseconds=20",
    "net-udp-rtt": "net-udp-rtt:round_trips=200",
    "io-sequential": "io-sequential:kib=100,files=2",
    "io-random": "io-random:kib=100,files=2,write=1",
    "io-metadata": "io-metadata:files=50",
    "attempts": "attempts",
}
"""Applications without classes, in a size that takes a moment under sanitizers."""
OF_TURNS = tuple(app.name for app in MINIAPPS.values() if app.divides)
"""Those that test_turns.py runs under sanitizers and MPICH."""


def runs(letter: str, *numbers: int) -> list[tuple[str, int]]:
    """Return each application in a class, or small where it has none, with each number of ranks that it allows."""
    found = []
    for app in MINIAPPS.values():
        if letter not in (app.classes or "S"):
            continue
        choice = choose(app, {"class": letter}) if app.classes else choice_of(SMALL[app.name])
        found += [(choice.spec, ranks) for ranks in numbers if app.refuse(choice, ranks) is None]
    return found


def verify(program: Path, spec: str, ranks: int, **more: object) -> None:
    record = right(program, spec, ranks, **more)
    choice = choice_of(spec)
    if choice.letter:  # others do as much as their time allows
        assert record["operations"] == pytest.approx(choice.app.operations(choice, ranks), rel=1e-6)
        assert record["messages_complete"]
    assert record["rate_unit"] in RATES or record["rate_unit"] == choice.app.rate


@pytest.mark.parametrize(("spec", "ranks"), runs("S", 1, 2, 3, 4))
def test_the_smallest_size_is_right(program: Path, spec: str, ranks: int) -> None:
    verify(program, spec, ranks)


@pytest.mark.parametrize("spec", [spec for spec, _ in runs("S", 2) if choice_of(spec).app.name not in OF_TURNS])
def test_the_smallest_size_is_right_under_sanitizers(sanitized: Path, spec: str) -> None:
    verify(sanitized, spec, 2, env=SANITIZERS)


@pytest.mark.requires("mpich")
@pytest.mark.parametrize("spec", [spec for spec, _ in runs("S", 2) if choice_of(spec).app.name not in OF_TURNS])
def test_the_smallest_size_is_right_under_mpich(program_mpich: Path, spec: str) -> None:
    verify(program_mpich, spec, 2, mpi="mpich")


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("spec", "ranks"), [*runs("W", 1, 2, 4), *runs("A", 1, 2, 4)])
def test_larger_classes_are_right(program: Path, spec: str, ranks: int) -> None:
    verify(program, spec, ranks)


@pytest.mark.parametrize(
    ("spec", "ranks", "found"),
    [
        *((f"npb-{app}:class=S", ranks, set()) for app in ("ep", "cg", "mg", "ft", "lu") for ranks in (1, 4)),
        ("npb-is:class=S", 4, set()),
        *((f"npb-{app}:class=S", 4, {"error 1", "systems along x", "systems along y", "systems along z"})
          for app in ("bt", "sp")),
        *((SMALL[app], ranks, 1) for app in ("hpcg", "minife") for ranks in (1, 2)),
        ("graph500:scale=10,roots=6", 2, {
            "vertices whose parents do not lead to the root",
            "edges from inside to outside of trees",
            "edges of trees that are not in the list",
        }),
        ("kmi:reads=256,queries=64", 2, ("strings in the end", "answers that differ from a count by brute force")),
        *((SMALL[app], 2, 1) for app in MINIAPPS if app.startswith("net-")),
        ("attempts", 2, ("operations that could not be undone",)),
    ],
)  # fmt: skip
def test_one_wrong_value_is_found_by_the_checks_that_it_breaks(
    program: Path, spec: str, ranks: int, found: int | set[str] | tuple[str, ...]
) -> None:
    wrong = failed(program, spec, ranks)
    if isinstance(found, int):
        assert len(wrong) == found
    else:
        assert wrong >= set(found)
        assert isinstance(found, set) or wrong == set(found), "these and no others"


REFUSED = [
    ("npb-xx", 1, "unknown application npb-xx; allowed: npb-ep"),
    ("npb-cg:class=Z", 1, "npb-cg has no class Z; allowed: one letter of SWABCD"),
    ("npb-cg:size=3", 1, "npb-cg does not know size; allowed: class"),
    ("npb-cg", 3, "npb-cg class S cannot run on 3 ranks; allowed: powers of two"),
    ("npb-ep:class=S,pace=fast", 1, "pace=fast is not possible; allowed: a whole number from 100 to 1000, or official"),
    *((f"npb-{app}:class=S", 25, f"npb-{app} class S cannot run on 25 ranks; allowed: up to 24, of which the largest")
      for app in ("bt", "sp")),
    *(("npb-lu", n, f"npb-lu class S cannot run on {n} ranks, {n} along x and 1 along y; allowed: ") for n in (3, 5)),
    ("hpcg:nx=20", 1, "hpcg cannot halve 20 points three times; allowed for nx, ny, nz: multiples of 8"),
    ("hpcg:nx=8", 1, "nx=8 is not possible; allowed: a whole number from 16"),
    ("hpcg:nx=16,ny=136", 1, "allowed: the longest side at most 8 times the shortest"),
    ("hpcg:nx=16,ny=16,nz=16", 11, "hpcg cannot run on 11 ranks, a grid of 11x1x1"),
    ("minife:nx=2,ny=2,nz=2", 9, "minife cannot cut 2x2x2 elements for 9 ranks; allowed: at least one element"),
    ("minife:nx=1", 1, "nx=1 is not possible; allowed: a whole number from 2"),
    ("minife:class=S", 1, "minife does not know class; allowed: nx, ny, nz"),
    ("graph500:scale=5", 1, "scale=5 is not possible; allowed: a whole number from 6 to 31"),
    ("graph500:scale=31", 1, "has 3.44e+10 edges a rank on 1 ranks; allowed: up to 7.16e+08"),
    ("graph500:size=5", 1, "graph500 does not know size; allowed: scale, roots, edgefactor"),
    ("kmi", 1, "kmi cannot run on 1 rank, which would have nobody to ask; allowed: 2 and more"),
    ("kmi:length=20,query_length=21", 2, "query_length=21 is not possible with reads of 20 letters"),
    ("kmi:reads=1", 2, "reads=1 is not possible; allowed: a whole number from 16 to 100000000"),
    *((SMALL[app], 1, "cannot run on 1 rank; allowed: 2 and more") for app in MINIAPPS if app.startswith("net-")),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "ranks", "said"), REFUSED)
def test_what_cannot_run_is_refused_with_what_is_allowed(program: Path, spec: str, ranks: int, said: str) -> None:
    (answer,) = asked(program, "--ask", str(ranks), spec)["answers"]
    assert not answer["suits"]
    assert said in answer["reason"]


@pytest.mark.parametrize(("spec", "ranks", "said"), [REFUSED[1], REFUSED[3], REFUSED[-1]])
def test_a_launch_of_what_cannot_run_ends_with_status_2_and_no_record(
    program: Path, spec: str, ranks: int, said: str
) -> None:
    status, record, stderr = ran(program, spec, ranks)
    assert (status, record) == (2, {})
    assert stderr.count(said) == 1
