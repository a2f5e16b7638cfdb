"""What an MPI is told about the networks of a job."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MpiWiring:
    """The subnets of control and data network (CIDR) and the transport that messages between hosts must take.

    For MPIs that know no subnets: the launcher's interface on the control network, and each host's on the data network.
    `ports` are each host's port of an InfiniBand adapter (`mlx5_0:1`), where the transport takes one, and `roce` tells
    that their link is Ethernet. With `asks` the library is to tell what it took. `launcher` is the launcher's program
    where it is not this machine's own, because it starts inside an image.
    """

    control_subnet: str
    data_subnet: str
    transport: str = "tcp"
    control_interface: str = "ctl0"
    interfaces: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()
    roce: bool = False
    asks: bool = False
    launcher: str = ""
