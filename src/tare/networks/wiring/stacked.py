"""The base class of networks that have a stack of their own on each node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tare.daemons.daemons import Place
from tare.errors import InfrastructureError
from tare.networks.wiring.host_stack import host_stack
from tare.networks.wiring.network import Network
from tare.system.node import Node


class StackedNetwork(Network):
    """A network whose part of a node is in a separate stack (`tare.networks.wiring.host_stack`), made by `prepare`."""

    passes_node = False
    _place: Place | None = None
    _nodes: tuple[Node, ...] = ()

    @property
    def place(self) -> Place:
        """Return the stack on this node; raise `InfrastructureError` before `prepare`."""
        if self._place is None:
            raise InfrastructureError(f"the network {self.name} was not prepared")
        return self._place

    @property
    def stack_name(self) -> str:
        """Return the part of the stack's name that identifies the network; it is part of a path."""
        return self.name

    @contextmanager
    def prepare(self, node: Node, nodes: Sequence[Node], study: str) -> Iterator[None]:
        """Keep the stack; members that override this enter it first."""
        self._nodes = tuple(nodes)
        with host_stack(node, study, self.stack_name) as self._place:
            yield
