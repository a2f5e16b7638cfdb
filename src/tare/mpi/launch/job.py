"""Describe a job for an MPI: its hosts with what runs there, where ranks are placed, its networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import groupby

from tare.model import Placement
from tare.mpi.launch import Context, Entry, Host


@dataclass(frozen=True, slots=True, kw_only=True)
class MpiWiring:
    """The subnets of control and data network (CIDR) and the transport for messages between hosts.

    `control_interface` is the launcher's on the control network, for MPIs that cannot select by subnet. `roce` means
    that the link of the hosts' adapters is Ethernet. With `asks`, the library reports the transport that it selected.
    `launcher` is the launcher program if it is not this machine's own, because it starts inside an image.
    """

    control_subnet: str
    data_subnet: str
    transport: str = "tcp"
    control_interface: str = "ctl0"
    roce: bool = False
    asks: bool = False
    launcher: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """How a launcher starts in the first host of a job, not on the head, because only there it reaches the others.

    `entry` is how the head enters the host, `agent` the path of the launcher's agent there, and `folder` one there for
    temporary files. The launcher's connections use the data network. `took` returns the seconds from the beginning of
    the last launch until each step of its own, where a launch has such steps. `rank` is the path of a program on every
    host by which ranks enter their containers; its first argument is how many ranks a container has.
    """

    entry: Entry
    agent: str
    folder: str
    took: Callable[[], Mapping[str, float]] | None = None
    rank: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHost:
    """A host of a job: as the MPI sees it, the argv of its ranks, and their variables.

    `interface` is its interface on the data network, for MPIs that cannot select by subnet ("": any). `port` is its
    InfiniBand adapter port (`mlx5_0:1`) if the transport uses one. `inside` means that ranks use the files of an image.
    """

    host: Host
    program: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    interface: str = ""
    port: str = ""
    inside: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job on its hosts, in order of ranks; `head` is the argv prefix that starts the launcher in its place."""

    head: tuple[str, ...]
    members: tuple[JobHost, ...]
    placement: Placement
    wiring: MpiWiring

    @property
    def hosts(self) -> tuple[Host, ...]:
        """Return the hosts as the MPI sees them."""
        return tuple(member.host for member in self.members)


def group_contexts(members: tuple[JobHost, ...]) -> tuple[Context, ...]:
    """Return the contexts of a job: adjacent hosts with the same program and variables share one."""
    groups = groupby(members, key=lambda member: (member.program, dict(member.environment)))
    return tuple(
        Context(hosts=tuple(member.host for member in of_group), program=program, environment=environment)
        for (program, environment), of_group in groups
    )
