"""Count launches in which a receive from MPI_ANY_SOURCE waits for ever, on two nodes of the lab under load.

    python benchmarks/any_source.py [--mpi mpich5] [--launches 40] [--receives 200]

Each launch makes so many receives after barriers: from MPI_ANY_SOURCE with MPI_Recv (any) or with MPI_Irecv and
MPI_Test (tested), or from the sender by name (named), and with MPI_Iprobe before them or without. A launch that has not
ended after ten seconds counts as hung; usual ones take half a second. Three busy programs beside it make ranks wait for
their cores. Why it exists: docs/troubleshooting.md, "A trial failed".
It needs root.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from wires import PLACEMENT, Wires, wires

from tare.images import mpi_wheels
from tare.images.kernels import find_compiler
from tare.model import Cell, Role, Workload
from tare.run import job
from tare.system.process import run, start

SOURCE = Path(__file__).with_suffix(".c")
HUNG_S = 10.0
BUSY = 3


@dataclass(frozen=True, slots=True)
class Count:
    """What became of the launches of one kind."""

    hung: int
    failed: int
    launches: int


def main() -> int:
    """Print the launches that hung, by how the program receives."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mpi", default="mpich5")
    parser.add_argument("--launches", type=int, default=40)
    parser.add_argument("--receives", type=int, default=200)
    stated = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tare-any-source-", dir="/var/tmp") as folder:
        program = compiled(stated.mpi, Path(folder))
        with wires(("tcp",), stated.mpi, Path(folder)) as lab, busy():
            for sender, probe in product(("any", "tested", "named"), ("none", "probe")):
                words = (program, str(stated.receives), sender, probe)
                counted = count_of([outcome(lab, *words) for _ in range(stated.launches)])
                print(f"{sender:6} {probe:5}: {counted.hung} of {counted.launches} hung, {counted.failed} failed")
    return 0


def compiled(mpi: str, folder: Path) -> Path:
    """Compile the program with an MPI's compiler; return where it is."""
    program = folder / "any_source"
    compiler = str(mpi_wheels.program(mpi, "mpicc")) if mpi in mpi_wheels.PACKAGES else find_compiler(mpi)
    if compiler is None:
        raise SystemExit(f"any_source: no compiler of {mpi} here")
    run((compiler, "-O2", "-o", str(program), str(SOURCE)), what="compiling")
    return program


@contextmanager
def busy() -> Iterator[None]:
    """Keep busy programs running."""
    with ExitStack() as stack:
        for _ in range(BUSY):
            process = start((sys.executable, "-c", "while True: pass"))
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield


def outcome(lab: Wires, *argv: str | Path) -> str:
    """Return what becomes of a launch: ended, hung or failed."""
    up = lab.made["tcp"]
    program = Workload(name="any", command=tuple(map(str, argv)))
    cell = Cell(
        key="any", group="any", role=Role.ENVIRONMENT, workload=program, environment=up.environment, placement=PLACEMENT
    )
    launch = job.make_launch(lab.site, cell, up, preload=False)
    command = job.command_of(lab.site, up, launch, lab.agent, name="any-source")
    result = job.started(lab.site, command, timeout_s=HUNG_S)
    if result.timed_out:
        return "hung"
    return "ended" if result.status == 0 else "failed"


def count_of(outcomes: list[str]) -> Count:
    """Count outcomes."""
    return Count(hung=outcomes.count("hung"), failed=outcomes.count("failed"), launches=len(outcomes))


if __name__ == "__main__":
    sys.exit(main())
