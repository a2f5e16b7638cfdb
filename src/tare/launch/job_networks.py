"""Describe a job's networks for an MPI."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MpiWiring:
    """The subnets of control and data network (CIDR) and the transport for messages between hosts.

    MPIs that cannot select by subnet use interface names: `control_interface` is the launcher's on the control network,
    `interfaces` are each host's on the data network. `ports` are each host's InfiniBand adapter port (`mlx5_0:1`), if
    the transport uses one; `roce` means that their link is Ethernet. With `asks`, the library reports the transport
    that it selected. `launcher` is the launcher program if it is not this machine's own, because it starts inside an
    image.
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
