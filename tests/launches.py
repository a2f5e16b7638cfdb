"""Launches of an MPI on hosts that nobody makes, and what its command line says."""

from __future__ import annotations

from collections.abc import Sequence

from tare.launch import Entry, Host
from tare.model import Binding, Placement
from tare.mpi import MPIS, MpiWiring


def make_hosts(nodes: int = 2, ranks: int = 1) -> tuple[Host, ...]:
    return tuple(Host(name=f"n{i}", ranks=ranks, agent=Entry(argv=("nsenter", "--"))) for i in range(nodes))


def make_wiring(
    transport: str = "tcp",
    interfaces: tuple[str, ...] = ("data0", "data0"),
    ports: tuple[str, ...] = (),
    **more: bool,
) -> MpiWiring:
    return MpiWiring(
        control_subnet="10.213.0.0/16",
        data_subnet="10.214.0.0/24",
        transport=transport,
        interfaces=interfaces,
        ports=ports,
        **more,
    )


def launch_argv(
    mpi: str,
    wiring: MpiWiring | str = "tcp",
    *,
    nodes: int = 2,
    ranks: int = 1,
    programs: Sequence[str] = ("app", "app"),
    variables: Sequence[dict[str, str]] = ({}, {}),
    binding: Binding = Binding.DISJOINT,
) -> tuple[str, ...]:
    """Return the command line of a launch, whose agent is /agent; a wiring can be named by its transport."""
    if isinstance(wiring, str):
        wiring = make_wiring(wiring, ("data0",) * nodes)
    launch = MPIS[mpi].launch(
        head=(),
        hosts=make_hosts(nodes, ranks),
        placement=Placement(nodes=nodes, ranks_per_node=ranks, binding=binding),
        wiring=wiring,
        programs=tuple((program, "two words") for program in programs[:nodes]),
        environments=tuple(variables[:nodes]),
    )
    return launch.argv("/agent")


def values(argv: tuple[str, ...], option: str) -> list[str]:
    """Return what stands behind each use of an option."""
    return [argv[i + 1] for i, token in enumerate(argv) if token == option]


def settings(argv: tuple[str, ...], option: str) -> list[tuple[str, str]]:
    """Return the name and the value behind each use of an option that takes both."""
    return [(argv[i + 1], argv[i + 2]) for i, token in enumerate(argv) if token == option]
