"""Define what a node is asked to deploy: an environment, a placement, and the files for its pods."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tare.images.host_mpi import HostMpi
from tare.model import Environment, Launching, Placement, Sides
from tare.system.node import Node

IMAGE_PREFIX: Final = Path("/opt/tare")
"""Where tare's programs are in images."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The files for pods: tare's programs on the host, the image (None if no environment needs one), visible folders.

    `shown` lists folders visible in pods, `read_only` those of them that a lab's pods without a container may not write
    to either, as some environment of the study has containers. `cwd` is the working folder of the ranks, which they may
    write to; "" if it does not matter. `host_mpi` is this machine's MPI, for containers that use it instead of their
    own. For a user's own image, `variables` is its environment, `foreign` means that nothing may be written to it, and
    `shows_kernels` that it has no kernels, so that this machine's are mounted in it. `seen` lists further folders that
    nodes must see. `sshd` is an empty folder for the sshd in each pod ("": there is none).
    `packed` pairs runtimes with the image in another form that they start from.
    """

    host_prefix: Path
    rootfs: Path | None = None
    tar: Path | None = None
    packed: tuple[tuple[str, Path], ...] = ()
    image_tag: str = ""
    shown: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    cwd: str = ""
    host_mpi: HostMpi | None = None
    variables: tuple[str, ...] = ()
    foreign: bool = False
    shows_kernels: bool = False
    seen: tuple[str, ...] = ()
    sshd: str = ""

    @property
    def made(self) -> tuple[Path, ...]:
        """Return what tare has made in its cache, which every node needs at the same path."""
        return tuple(
            place
            for place in (self.host_prefix, self.rootfs, self.tar, *dict.fromkeys(path for _, path in self.packed))
            if place is not None
        )

    def host_mpi_of(self, environment: Environment) -> HostMpi | None:
        """Return this machine's MPI if an environment uses it."""
        return self.host_mpi if environment.launch is Launching.HOST_MPI else None

    def prefix_in(self, environment: Environment) -> Path:
        """Return the path of tare's programs inside of an environment."""
        from_host = self.host_mpi_of(environment) or self.shows_kernels or not environment.image
        return self.host_prefix if from_host else IMAGE_PREFIX

    @property
    def seen_by_nodes(self) -> tuple[str, ...]:
        """Return the folders that must be visible on the nodes, wherever they are."""
        places = (
            *self.shown,
            *self.seen,
            *(self.host_mpi.shown if self.host_mpi else ()),
            str(self.rootfs) if self.rootfs else "",
            *(str(path.parent) for _, path in self.packed),
            self.cwd,
        )
        return tuple(dict.fromkeys(place for place in places if place))


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A deployment of an environment on `nodes`, the same for all of them.

    `study` names the site and the deployment (`SITE-SLOT`); it is unique on a node. `nic` is the number of the data NIC
    that the environment uses. `hosts` is the distance between the addresses of a node's pods: beyond those of all nodes
    of the site.
    """

    study: str
    slot: int
    environment: Environment
    placement: Placement
    nodes: tuple[Node, ...]
    nic: int
    hosts: int
    files: Files

    @property
    def wired_nodes(self) -> tuple[Node, ...]:
        """Return the nodes on the environment's network: all, or those inside if it is on one side only."""
        sides = self.environment.sides
        return tuple(node for number, node in enumerate(self.nodes) if is_inside(sides, number, len(self.nodes)))


def is_inside(sides: Sides, node: int, nodes: int) -> bool:
    """Return whether a node's ranks run in the environment; the sender is the first node, the receiver the last."""
    return sides is Sides.BOTH or node == (0 if sides is Sides.SENDER else nodes - 1)
