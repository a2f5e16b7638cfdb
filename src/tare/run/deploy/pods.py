"""Deploy an environment on the nodes of a site: the order of what their services do, and what it leaves on the head.

MPI sees each pod as a host. A node usually has one pod; with `share: none` each of its containers has its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from tare.agent.geometry import on_daemon_nodes
from tare.agent.pods import ssh_host
from tare.agent.protocol import Phase
from tare.agent.remote.at_once import on_each
from tare.clusters import Site
from tare.daemons import ssh
from tare.errors import RefusedError
from tare.model import Environment, Launching, Placement
from tare.mpi import MPIS
from tare.run.deploy.hosts import Deployed
from tare.runtimes.containers.deployment import Deployment, Files, is_inside
from tare.system.fault import reach
from tare.system.node import Wired

__all__ = ["Files", "deployed"]


@contextmanager
def deployed(
    site: Site, environment: Environment, placement: Placement, *, slot: int, nic: int, files: Files
) -> Iterator[Deployed]:
    """Keep the pods of an environment up on the first nodes of a site; `slot` is unique among environments."""
    keys = site.folder / f"ssh-{slot}" if environment.launch is Launching.SSH else None
    if keys is not None:
        files = replace(files, shown=(*files.shown, str(keys)), sshd=str(keys / ssh.EMPTY))
    if environment.launch is Launching.HOST_MPI:
        files = _with_host_mpi(files)
    order = _deployment(site, environment, placement, slot=slot, nic=nic, files=files)
    nodes = tuple(site.service(node) for node in order.nodes)
    with ExitStack() as stack:
        if keys is not None:
            stack.enter_context(ssh.prepared(keys))
        if environment.link.mtu:
            stack.enter_context(site.carries(nic, environment.link.mtu))
        up = Deployed(
            environment=environment, name=order.study, nodes=nodes, pods=(), ssh=keys,
            rank_order=order.placement.rank_order,
        )  # fmt: skip
        _leave_at_the_end(stack, up, Phase.PREPARED)
        on_each(nodes, lambda node: node.prepare(order))
        _leave_at_the_end(stack, up, Phase.SHARED)
        site.service(order.wired_nodes[0]).share(order.study)
        _leave_at_the_end(stack, up, Phase.DEPLOYED)
        made = on_each(nodes, lambda node: node.deploy(order.study))
        up = replace(up, pods=tuple(pod for pods in made for pod in pods))
        reach("pods:deployed")
        _leave_at_the_end(stack, up, Phase.JOINED)
        up = _join(up, nic)
        if keys is not None:
            ssh.introduce([ssh_host(pod, environment) for pod in up.pods], keys)
        inside = stack.enter_context(site.launching(up.name, up.pods))
        yield replace(up, launcher=_launcher(environment, files, by_cluster=inside is not None), inside=inside)


def _leave_at_the_end(stack: ExitStack, up: Deployed, phase: Phase) -> None:
    """Make a stack leave a phase on all nodes at the same time, even if entering it fails on some of them."""

    def leave(_kind: object, error: object, _trace: object) -> None:
        on_each(up.nodes, lambda node: node.leave(up.name, phase), interrupted=isinstance(error, KeyboardInterrupt))

    stack.push(leave)


def _deployment(
    site: Site, environment: Environment, placement: Placement, *, slot: int, nic: int, files: Files
) -> Deployment:
    """Return what the nodes are asked for; a bare side is not on the nodes with daemons."""
    chosen = site.daemon_nodes if on_daemon_nodes(environment) else site.nodes
    count = len(chosen[: placement.nodes])
    nodes = tuple(
        (chosen if is_inside(environment.sides, number, count) else site.nodes)[number].among(count)
        for number in range(count)
    )
    return Deployment(
        study=f"{site.name}-{slot}",
        slot=slot,
        environment=environment,
        placement=placement,
        nodes=nodes,
        nic=nic,
        hosts=2 * len(site.nodes),
        files=files,
    )


def _join(up: Deployed, nic: int) -> Deployed:
    """Make all pods reach each other; return the deployment with its final pods."""
    wired = tuple(Wired(pod=pod, nic=pod.node.nics[nic], endpoint=pod.endpoint) for pod in up.pods)
    joined = on_each(up.nodes, lambda node: node.join(up.name, wired))
    return replace(up, pods=tuple(pod for pods in joined for pod in pods))


def _launcher(environment: Environment, files: Files, *, by_cluster: bool) -> str:
    """Return the program that starts jobs, "" if it is this machine's own."""
    if by_cluster:
        return MPIS[environment.mpi].inside
    if environment.launch is Launching.HOST_MPI and files.host_mpi is not None:
        return str(files.host_mpi.launcher)
    return MPIS[environment.mpi].inside if environment.launch is Launching.SSH and environment.image else ""


def _with_host_mpi(files: Files) -> Files:
    """Return the files with this machine's MPI made visible; the caller has checked that the image can run it."""
    if files.host_mpi is None or files.rootfs is None:
        raise RefusedError("launch: host-mpi needs an image and this machine's MPI")
    return replace(files, shown=(*files.shown, *files.host_mpi.shown))
