"""The base class of runtimes that only a site's administrators install: each command is a container of its own.

tare wrote their commands from the published documentation and has never run them (docs/environments.md, "Runtimes of
sites"). Nothing is held: a container lives as long as its command, on the network of its node.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import ClassVar

from tare.networks.wiring.plug import refuse_docker_wiring
from tare.runtimes.containers.held_namespaces import enter, held, limited_containers, pod_group
from tare.runtimes.containers.request import PodRequest
from tare.runtimes.containers.runtime import Runtime
from tare.system import devices
from tare.system.node import Container, Pod
from tare.system.process import find


class SiteRuntime(Runtime):
    """A runtime with one program, in which a command starts a container: a member says how in `command`."""

    pods_are_hosts = False
    shares_network = True
    program: ClassVar[str]
    title: ClassVar[str]
    setuid: ClassVar[str] = "none"
    carries: ClassVar[bool] = False
    """Whether a container drops the environment of the command that starts it."""

    def probe(self) -> str | None:
        """Return that the runtime is not installed, or None."""
        if find(self.program) is None:
            return (
                f"{self.title} is not installed: have an administrator install it (tare has its commands from its "
                "documentation, and has never been run with it)"
            )
        return None

    @abstractmethod
    def command(self, request: PodRequest, *, alone: bool = False) -> tuple[str, ...]:
        """Return the argv prefix that starts a command in a container.

        With `alone` it is for one rank of several containers, which is shown the session folder of the MPI's daemon.
        """

    @contextmanager
    def ready(self, request: PodRequest) -> Iterator[None]:
        """Hold what the containers of a pod start from, if it is more than the packed image."""
        yield

    @contextmanager
    def pod(self, request: PodRequest) -> Iterator[Pod]:
        """Hold a pod on a node: its cgroup, and what its containers start from."""
        refuse_docker_wiring(request.wiring, self.name)
        command = (*devices.inherited(request.devices), *self.command(request))
        with held(request) as pid, pod_group(request) as group, self.ready(request):
            yield Pod(
                name=request.name,
                node=request.node,
                runtime=self.name,
                pid=pid,
                enter=(*enter(pid), *command),
                group=group,
                outside=enter(pid),
                setuid=self.setuid,
            )

    @contextmanager
    def containers(
        self, pod: Pod, request: PodRequest, cores: Sequence[tuple[int, ...]]
    ) -> Iterator[tuple[Container, ...]]:
        """Yield a container for each entry of `cores`, which starts with the rank that enters it."""
        command = (*devices.inherited(request.devices), *self.command(request, alone=True))
        with limited_containers(pod, request, cores, command) as containers:
            yield tuple(replace(container, carry=self.carries) for container in containers)


def folders(request: PodRequest, *, alone: bool) -> tuple[tuple[str, str, bool], ...]:
    """Return what a container sees of its node: source, target, and whether it is read-only."""
    session = [(request.session, request.session, False)] if alone else []
    return (*((bind.source, bind.target, bind.read_only) for bind in request.folders), *session)
