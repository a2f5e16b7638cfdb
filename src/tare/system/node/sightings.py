"""See what no launch says: ranks that are alone, and ranks with more running threads than cores.

Each rank is rank 0 of 1 if another MPI started it, or its launcher's variables do not reach it; no error is printed.
So the processes of a launch are looked at while it runs: the MPI library that they have loaded, whether they were given
the variables by which their launcher numbers them, and the state of their threads. Only this machine's are seen.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tare.model.text import counted
from tare.system.node.process_stat import stat_fields

PAUSE_S: Final = 0.02
LONGEST_S: Final = 5.0
"""The pause between two looks, at first and at last."""
PROC: Final = Path("/proc")
NUMBERS: Final = (b"OMPI_COMM_WORLD_RANK", b"PMIX_RANK", b"PMI_RANK", b"PMI_ID")
"""The variables by which launchers tell a rank its number."""
BY_PMIX: Final = b"PMIX_RANK"
PMIX: Final = "libpmix.so"
"""What a rank has loaded that understands this variable, whatever its MPI."""
OFTEN: Final = 0.2
"""In this share of the looks at ranks, and in several, one has more running threads than cores where that counts."""
SEVERAL: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class MpiProcess:
    """A process with one MPI library: its family and file, and whether its launcher numbered it, and by PMIx."""

    family: str
    library: str
    has_number: bool
    by_pmix: bool


@dataclass(slots=True, kw_only=True)
class Sightings:
    """The processes with an MPI library that were seen in a launch of `ranks` ranks by an MPI of a family.

    `libraries` has the families of their files' names, `titles` the names of families. `looks` is the number of looks
    at ranks, and `crowded` how often one had so many running threads on so few cores.
    """

    family: str
    ranks: int
    libraries: Mapping[str, str]
    titles: Mapping[str, str]
    found: set[MpiProcess] = field(default_factory=set)
    looks: int = 0
    crowded: Counter[tuple[int, int]] = field(default_factory=Counter)

    def alone(self) -> str:
        """Return that each rank is alone, why, and the remedy; "" if some rank is as it should be, or none was seen."""
        title = self.titles.get(self.family, self.family)
        strange = [each for each in self.found if each.family != self.family and not each.by_pmix]
        if self.ranks == 1 or not self.found or any(each.has_number for each in self.found if each not in strange):
            return ""
        if strange:
            theirs = strange[0]
            return (
                f"each rank is alone (rank 0 of 1): {title} started it, and it uses {self.titles[theirs.family]} "
                f"({theirs.library}): add --mpi {theirs.family} (in a study mpi:), or build it for {title}"
            )
        return (
            f"each rank is alone (rank 0 of 1): {title} started it, whose variables (OMPI_*, PMIX_*, PMI_*) do not "
            "reach it: pass them on where the program is started in an empty environment (env -i, sudo, su)"
        )

    def more_threads(self) -> str:
        """Return that ranks have more running threads than cores, with both figures and the remedy; "" if not often."""
        times = self.crowded.total()
        if times < max(SEVERAL, OFTEN * self.looks):
            return ""
        threads, cores = self.crowded.most_common(1)[0][0]
        return (
            f"a rank has {threads} running threads on {counted(cores, 'core')}, so they wait for each other: add "
            f"--threads-per-rank {threads} (in a placement threads_per_rank), or let it start fewer (OMP_NUM_THREADS)"
        )


@contextmanager
def watched(sightings: Sightings, pids: Callable[[], Collection[int]]) -> Iterator[Sightings]:
    """Look at a launch's processes while the block runs."""
    over = threading.Event()

    def look() -> None:
        pause_s = PAUSE_S
        while not over.wait(pause_s):
            _look(sightings, pids())
            pause_s = min(LONGEST_S, pause_s * 1.1)  # a program of hours is not disturbed

    thread = threading.Thread(target=look, name="sightings", daemon=True)
    thread.start()
    try:
        yield sightings
    finally:
        over.set()
        thread.join(LONGEST_S)  # memory of a hostile process can be a file that is never read to its end


def _look(sightings: Sightings, pids: Collection[int]) -> None:
    """Add what is seen now of the processes with an MPI library."""
    for pid in pids:
        process = PROC / str(pid)
        if (seen := look_at(process, sightings.libraries)) is None:
            continue
        sightings.found.add(seen)
        sightings.looks += 1
        threads, cores = running_threads(process), cores_of(pid)
        if threads > cores > 0:
            sightings.crowded[threads, cores] += 1


def look_at(process: Path, libraries: Mapping[str, str]) -> MpiProcess | None:
    """Return what is known of a process with one family of MPI, by its folder in /proc; None for any other."""
    try:
        files = {line.split(maxsplit=5)[5] for line in (process / "maps").read_text().splitlines() if "lib" in line}
        given = {each.partition(b"=")[0] for each in (process / "environ").read_bytes().split(b"\0")}
    except (OSError, IndexError, UnicodeDecodeError):
        return None
    names = {Path(file).name: file for file in sorted(files)}
    mpi = {libraries[known]: file for known in libraries for name, file in names.items() if name.startswith(known)}
    if len(mpi) != 1:  # with those of two families, one is that of tare's own library
        return None
    ((family, library),) = mpi.items()
    return MpiProcess(
        family=family,
        library=library,
        has_number=any(name in NUMBERS for name in given),
        by_pmix=BY_PMIX in given and any(name.startswith(PMIX) for name in names),
    )


def running_threads(process: Path) -> int:
    """Return how many threads of a process run or wait for a core, by its folder in /proc."""
    return sum(stat_fields(str(thread))[:1] == ["R"] for thread in process.glob("task/*"))


def cores_of(pid: int) -> int:
    """Return the number of cores on which a process may run; 0 if it has ended."""
    try:
        return len(os.sched_getaffinity(pid))
    except OSError:
        return 0
