"""Ask an MPI's library which transport it selected, in a separate launch before the timed ones.

Reporting costs the library time, so the timed launches do not ask.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from tare.cluster import Site
from tare.deploy.hosts import Deployed
from tare.launch.ways import way_of
from tare.model import Cell, Environment, KernelSpec, Placement, Workload
from tare.mpi import MPIS
from tare.run import job
from tare.run.transport_log import Chosen, by_rank, judged
from tare.wiring.transports import is_local, needs_port
from tare.workloads import plugin_of
from tare.workloads.answers import SHOWN

QUESTION: Final = Workload(
    name="question",
    kernels=(
        KernelSpec(kernel="alltoall", message_bytes=8, iterations=5, warmup=1),
        KernelSpec(kernel="alltoall", message_bytes=1 << 16, iterations=5, warmup=1),
    ),
    time_limit_s=60.0,
)
"""Every rank sends a short and a long message to every other."""


Pair = tuple[Environment, Placement]


def pair_of(cell: Cell) -> Pair:
    """Return the environment and placement, which cells launched in the same pods have in common."""
    return cell.environment, cell.placement


def answers(site: Site, launches: Iterable[tuple[Cell, Deployed]], agent: Path) -> dict[Pair, Chosen]:
    """Return the transports that the libraries selected, asking once per environment and placement."""
    found: dict[Pair, Chosen] = {}
    for cell, up in launches:
        if pair_of(cell) not in found and asks(cell, up):
            found[pair_of(cell)] = ask(site, cell, up, agent)
            up.end_left()
    return found


def asks(cell: Cell, up: Deployed) -> bool:
    """Return whether the library has to be asked; a launch without ranks has none.

    It is not asked on a single host, nor if the settings name everything and counters verify it. An MPI that is left as
    it is is always asked.
    """
    if plugin_of(cell.workload).runs_on_node:
        return False
    mpi = MPIS.get(cell.environment.mpi)
    if mpi is not None and not mpi.pins:
        return cell.placement.ranks > 1
    if mpi is None or len(up.sides) < 2 or is_local(cell.environment.transport):
        return False
    return bool(mpi.ways) and bool(way_of(mpi.ways, cell.environment.transport, mpi.name).tells)


def ask(site: Site, cell: Cell, up: Deployed, agent: Path) -> Chosen:
    """Return the transport that the library selected in an environment that is up, or why it is not known."""
    environment = cell.environment
    asking = replace(cell, workload=QUESTION)
    launch = job.make_launch(site, asking, up, asks=True)
    command = job.command_of(site, up, launch, agent, name="question")
    result = job.started(site, command, timeout_s=QUESTION.time_limit_s)
    library = way_of(MPIS[environment.mpi].ways, environment.transport, environment.mpi).tells
    if not MPIS[environment.mpi].pins:
        return by_rank(library, result.stdout + result.stderr)
    if result.status != 0:
        said = " ".join(result.stderr_tail.split())[-SHOWN:] or "it wrote nothing to stderr"
        why = f"asked what it took, the MPI ended with status {result.status}: {said}"
        return Chosen(library=library, reason=why)
    port = needs_port(environment.transport, environment.devices)
    return judged(environment.transport, library, result.stdout + result.stderr, port=port)
