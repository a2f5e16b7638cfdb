"""Launches of an MPI on hosts that nobody makes, and what its command line says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from factory_job import WIRING, job_of
from tare.model import Binding, Placement
from tare.mpi import MPIS
from tare.mpi.launch import Entry, Host
from tare.mpi.launch.job import Job


def make_job(
    transport: str = "tcp",
    *,
    nodes: int = 2,
    ranks: int = 1,
    programs: Sequence[str] = ("app",),
    variables: Sequence[Mapping[str, str]] = ({},),
    binding: Binding = Binding.DISJOINT,
    interfaces: Sequence[str] = ("data0",),
    ports: Sequence[str] = ("",),
    **more: bool,
) -> Job:
    """Return a job on nodes that are entered, with `more` of its wiring."""
    return job_of(
        [Host(name=f"n{i}", ranks=ranks, agent=Entry(argv=("nsenter", "--"))) for i in range(nodes)],
        Placement(nodes=nodes, ranks_per_node=ranks, binding=binding),
        replace(WIRING, transport=transport, **more),
        programs=[(program, "two words") for program in programs],
        environments=variables,
        interfaces=interfaces,
        ports=ports,
    )


def launch_argv(mpi: str, job: Job | None = None) -> tuple[str, ...]:
    """Return the command line of a launch, whose agent is /agent."""
    return MPIS[mpi].launch(make_job() if job is None else job).argv("/agent")


def values(argv: tuple[str, ...], option: str) -> list[str]:
    """Return what stands behind each use of an option."""
    return [argv[i + 1] for i, token in enumerate(argv) if token == option]


def settings(argv: tuple[str, ...], option: str) -> list[tuple[str, str]]:
    """Return the name and the value behind each use of an option that takes both."""
    return [(argv[i + 1], argv[i + 2]) for i, token in enumerate(argv) if token == option]
