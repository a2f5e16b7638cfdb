"""Answer what a head asks of this machine before and while it is a node of a site.

The service greets its head before it imports this module, which imports every plug-in.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tare.agent import administered, clean, machine_service, site_folder
from tare.agent.administered import Terms
from tare.agent.local import LocalNode
from tare.agent.probe import probe
from tare.agent.protocol import CALLS
from tare.agent.remote.unfit_machines import unfit
from tare.daemons import docker
from tare.errors import InfrastructureError
from tare.model import Environment
from tare.runtimes.containers.rights_sweep import swept
from tare.system.counters.interfaces import Counts, interface_counters
from tare.system.counters.values import CounterValues
from tare.system.node import Node, bridges, marked_processes, page_cache
from tare.system.node.cgroups import of_launches
from tare.system.node.owners import state_folder


class Service:
    """What a head can ask of this machine. What is made stays until the stack ends."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._node: LocalNode | None = None
        self._folder = Path()
        self._swept = ExitStack()
        self._sentences: list[str] = []

    def open(
        self, name: str, node: Node, folder: Path, writable: Collection[str] = (), terms: Terms | None = None
    ) -> Node:
        """Begin to serve a node of a site, after removing what ended runs have left; return the node as it is here.

        `writable` are the folders that programs of images may write to. With `terms` the machine has been given to
        tare.
        """
        self.clean(name)
        self._stack.enter_context(
            state_folder(f"{name}-node", name, cgroups=of_launches(name).bases, **{site_folder.KEY: str(folder)})
        )
        self._folder = folder
        self._stack.enter_context(self._swept).enter_context(swept(writable, self._sentences.append))
        self._node = self._stack.enter_context(machine_service.serving(name, node, folder, terms))
        return self._node.node

    def start_docker(self) -> Node:
        """Start a Docker daemon on a machine that has been given to tare; return the node with its socket."""
        node = self._served
        node.node = self._stack.enter_context(administered.with_docker(node.node, self._folder))
        return node.node

    def begin_swarm(self) -> str:
        """Make the node the manager of a Swarm; return the token for the others."""
        return docker.begin_swarm(self._served.node)

    def join_swarm(self, manager_address: str, token: str) -> None:
        """Make the node join a Swarm."""
        docker.join_swarm(self._served.node, manager_address, token)

    def settle(self) -> None:
        """Make frames on this machine's bridges bypass the packet filter, as in a lab.

        It is for machines on which tare runs a Docker daemon. Whenever the daemon creates a network, it enables
        filtering for all bridges, and its rules may drop what is not Docker's own. The machine's settings are restored
        when the daemon ends (`owned.with_docker`).
        """
        bridges.write(wanted=dict.fromkeys(bridges.NAMES, bridges.OFF))

    def missing(self, paths: Sequence[str]) -> tuple[str, ...]:
        """Return those of the paths that the machine does not have, or that its user cannot read."""
        return tuple(path for path in paths if not os.access(path, os.R_OK))

    def write(self, path: Path, text: str) -> None:
        """Write a file of a launch into the site's folder."""
        if path.parent != self._folder:
            raise InfrastructureError(f"{path} is not in the folder of this site")
        path.write_text(text)

    def drop_caches(self) -> None:
        """Drop the file caches of the machine."""
        page_cache.drop()

    def sweep(self) -> tuple[str, ...]:
        """Take back rights of files that programs of images left in the writable folders; return sentences on them.

        What runs on could go on writing: it is ended.
        """
        marked_processes.end_all(lambda: marked_processes.pids_of_launches(self._folder))
        self._swept.close()
        said = tuple(self._sentences)
        self._sentences.clear()
        return said

    @property
    def _served(self) -> LocalNode:
        if self._node is None:
            raise InfrastructureError("no node is open here")
        return self._node

    def clean(self, name: str = "") -> tuple[str, ...]:
        """Remove what runs that have ended left on this machine, and everything of the site `name`; return it."""
        found = (*(machine_service.remove_site(name) if name else ()), *clean.remove(dead_only=True))
        return tuple(item.what for item in found)

    def probe(self, environment: Environment, given: bool = False) -> str | None:
        """Return what an environment requires and this machine lacks, or None; `given`: it was given to tare."""
        return probe(environment, real=not given)

    def unfit(self, mpi: str, head_version: str, folders: tuple[str, ...]) -> str | None:
        """Return why this machine cannot take part in a job of the head, or None."""
        return unfit(mpi, head_version, folders)

    def interfaces(self) -> dict[str, Counts]:
        """Return the counters of all interfaces of this machine."""
        return interface_counters(0)

    def counters(self, *arguments: Any) -> CounterValues:
        """Return the counters that `NodeService.counters` reads, which are parsed here."""
        return self._served.counters(*arguments).values()

    def call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """Make one of the calls of `NodeService`."""
        if name not in CALLS:
            raise InfrastructureError(f"a node's service cannot be asked {name!r}")
        return getattr(self if name == "counters" else self._served, name)(*arguments)
