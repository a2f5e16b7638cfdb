"""Ranks that are alone, and ranks with more running threads than cores, are recognised by their processes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tare.images.inside.inspect import LIBRARIES
from tare.system.node import sightings
from tare.system.node.sightings import MpiProcess, Sightings, look_at, running_threads

OPENMPI, MPICH = "/usr/lib/libmpi.so.40.30.4", "/opt/a b/libmpich.so.12.2.2"


def sighted(family: str, ranks: int = 2, **more: Any) -> Sightings:
    titles = {"openmpi": "Open MPI", "mpich": "MPICH"}
    return Sightings(family=family, ranks=ranks, libraries=LIBRARIES, titles=titles, **more)


def process(folder: Path, *files: str, environ: str = "", states: str = "S") -> Path:
    """Return a folder in the place of one of /proc."""
    place = folder / "7"
    place.mkdir()
    lines = [f"7f0000000000-7f0000001000 r-xp 00000000 fe:00 1   {file}" for file in files]
    (place / "maps").write_text("\n".join(["7ffc00000000-7ffc00001000 rw-p 00000000 00:00 0", *lines]))
    (place / "environ").write_text(environ)
    for number, state in enumerate(states):
        (place / "task" / str(number)).mkdir(parents=True)
        (place / "task" / str(number) / "stat").write_text(f"{number} (a) R b) {state}" + " 0" * 49)
    return place


@pytest.mark.parametrize(
    ("mpi", "files", "environ", "words"),
    [
        ("openmpi", (OPENMPI,), "A=1\0OMPI_COMM_WORLD_RANK=0\0", ""),
        ("mpich", (MPICH,), "PMI_RANK=1\0", ""),
        ("openmpi", ("/usr/lib/libc.so.6",), "", ""),
        ("openmpi", (OPENMPI, MPICH), "OMPI_COMM_WORLD_RANK=0\0", ""),
        ("openmpi", (MPICH, "/usr/lib/libpmix.so.2"), "PMIX_RANK=0\0", ""),
        ("openmpi", (MPICH,), "PMIX_RANK=0\0", f"and it uses MPICH ({MPICH}): add --mpi mpich"),
        ("mpich", (OPENMPI,), "PMI_RANK=0\0", f"and it uses Open MPI ({OPENMPI}): add --mpi openmpi"),
        ("openmpi", (OPENMPI,), "PATH=/bin\0", "Open MPI started it, whose variables"),
        ("mpich", (MPICH,), "", "do not reach it: pass them on"),
    ],
)  # fmt: skip
def test_each_rank_is_alone_if_another_mpi_started_it_or_its_variables_are_lost(
    tmp_path: Path, mpi: str, files: tuple[str, ...], environ: str, words: str
) -> None:
    seen = look_at(process(tmp_path, *files, environ=environ), LIBRARIES)
    told = sighted(mpi, found={seen} if seen else set()).alone()
    assert words in told
    assert bool(told) == bool(words)
    assert sighted(mpi, ranks=1, found={seen} if seen else set()).alone() == ""


def test_a_rank_that_is_as_it_should_be_shows_that_others_are_helpers() -> None:
    right = MpiProcess(family="openmpi", library=OPENMPI, has_number=True, by_pmix=True)
    helper = MpiProcess(family="mpich", library=MPICH, has_number=True, by_pmix=False)
    assert sighted("openmpi", found={right, helper}).alone() == ""


@pytest.mark.parametrize(
    ("crowded", "looks", "words"),
    [
        ({(2, 1): 50, (3, 1): 5}, 100, "a rank has 2 running threads on 1 core, so they wait for each other: add --th"),
        ({(9, 4): 30}, 100, "9 running threads on 4 cores"),
        ({(2, 1): 19}, 100, ""),
        ({(2, 1): 4}, 4, ""),
    ],
)  # fmt: skip
def test_more_running_threads_than_cores_are_told_with_both_figures_if_they_are_so_often(
    crowded: dict[tuple[int, int], int], looks: int, words: str
) -> None:
    told = sighted("openmpi", ranks=1, looks=looks, crowded=Counter(crowded)).more_threads()
    assert words in told
    assert bool(told) == bool(words)


def test_threads_that_run_or_wait_for_a_core_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = process(tmp_path, OPENMPI, environ="PMIX_RANK=0\0", states="SRRSR")
    assert running_threads(place) == 3
    monkeypatch.setattr(sightings, "PROC", tmp_path)
    monkeypatch.setattr(sightings, "cores_of", lambda pid: 2)
    seen = sighted("openmpi")
    sightings._look(seen, [7, 8])
    assert (seen.looks, seen.crowded) == (1, Counter({(3, 2): 1}))
