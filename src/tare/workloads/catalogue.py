"""List every workload that tare knows, with its figures and how they are measured. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tare.workloads.command import Command
from tare.workloads.commands import Commands
from tare.workloads.declaration_check import DECLARED
from tare.workloads.declared import MINIAPPS, MiniApp
from tare.workloads.kernels import ALONE, Kernels
from tare.workloads.miniapps import MiniApps
from tare.workloads.plugin import WorkloadPlugin
from tare.workloads.programs import PROGRAMS, ProgramAdapter
from tare.workloads.startup import Startup

BARRIER: Final = "a barrier before each iteration"
READINGS: Final = "start windows, and a loop back to back"
KERNELS: Final = {
    "latency": ("half a round trip between rank 0 and the last rank", "none"),
    "bw": ("bytes a second from rank 0 to the last rank, 64 messages in flight", "none"),
    "bibw": ("bytes a second both ways between rank 0 and the last rank, 64 messages in flight each", "none"),
    "sendrecv": ("time of MPI_Sendrecv in a ring", BARRIER),
    "barrier": ("time of MPI_Barrier", READINGS),
    "alltoall": ("time of MPI_Alltoall", BARRIER),
    "alltoallv": ("time of MPI_Alltoallv with equal counts", BARRIER),
    "allgather": ("time of MPI_Allgather", BARRIER),
    "allreduce": ("time of MPI_Allreduce, a sum of floats", READINGS),
    "halo": ("time of a stencil sweep and the exchange of its edges with both neighbours", "none"),
    "spacing": ("p99 minus median of the gaps between messages at a steady rate, of sender and receiver", "none"),
}
"""What each kernel measures, and its default synchronisation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueEntry:
    """A workload: how a study states it, what it is and measures, and how its figures are measured.

    `brought_by` is the command that installs it, "" for tare's own.
    """

    name: str
    family: str
    stated: str
    describes: str
    measures: str
    ranks: str
    timer: str
    synchronisation: str
    reduction: str
    choices: str = ""
    brought_by: str = ""


def entries() -> tuple[CatalogueEntry, ...]:
    """Return every workload: tare's own, third-party programs, the user's command, the start-up, node commands."""
    return (*_kernels(), *map(_miniapp, MINIAPPS.values()), *map(_program, PROGRAMS.values()), *_others())


def _entry(member: type[WorkloadPlugin] | ProgramAdapter, **stated: str) -> CatalogueEntry:
    """Return an entry with what a member declares of how its figures are made, unless it is stated."""
    return CatalogueEntry(**{**{name: getattr(member, name) for name in DECLARED}, **stated})


def _kernels() -> Iterator[CatalogueEntry]:
    for name, (measures, synchronisation) in KERNELS.items():
        yield _entry(
            Kernels,
            name=name,
            family="kernel",
            stated=f"kernels: [{name}]",
            describes="micro-benchmark",
            measures=measures,
            ranks="any" if name in ALONE else "2 or more",
            synchronisation=synchronisation,
        )


def _miniapp(app: MiniApp) -> CatalogueEntry:
    parameters = [f"{each.name} {each.low} to {each.high} [{each.usual}]" for each in app.parameters]
    classes = [f"class {' '.join(app.classes)}"] if app.classes else []
    return _entry(
        MiniApps,
        name=app.name,
        family="mini-application",
        stated=f"miniapp: {app.name}{f':class={app.classes[0]}' if app.classes else ''}",
        describes=app.description,
        measures=f"{app.rate} of {app.timed}",
        ranks=app.ranks,
        choices="; ".join([*classes, *parameters]),
    )


def _program(adapter: ProgramAdapter) -> CatalogueEntry:
    return _entry(
        adapter,
        name=adapter.name,
        family="program",
        stated=f"program: {adapter.name}",
        describes=f"{adapter.describes} ({adapter.versions})",
        measures=adapter.measures,
        ranks=adapter.ranks,
        brought_by=adapter.brought_by,
    )


def _others() -> Iterator[CatalogueEntry]:
    yield _entry(
        Command,
        name="command",
        family="yours",
        stated="command: [./app]",
        describes="your own MPI program",
        measures="wall time from the end of MPI_Init to MPI_Finalize",
        ranks="any",
    )
    yield _entry(
        Startup,
        name="startup",
        family="start-up",
        stated="startup: warm",
        describes="the start of a job, and of an interpreter with a thousand small files",
        measures="times until containers are up, ranks run, MPI_Init has ended, ranks are ready, files are read",
        ranks="any",
    )
    yield _entry(
        Commands,
        name=Commands.name,
        family="product",
        stated="commands: [{run: [docker, info], expect: 'Swarm: active'}]",
        describes="commands of a product on the first node, each with the answer that is expected",
        measures="whether every command answers as expected; their time, without a verdict",
        ranks="any; none is started",
    )
