"""Hold what a study has in a Kubernetes: its namespace, its nodes, and how launchers in its pods start daemons."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

from tare.agent.protocol import NodeService
from tare.agent.remote.timing import RENEWED_S, scaled
from tare.clusters.base import Allocated, Site, SiteDefaults
from tare.clusters.needs import Needs
from tare.clusters.pods import manifests, nodes, objects, pod_specs
from tare.clusters.pods.api import Api, ApiError
from tare.clusters.pods.cluster_description import Description
from tare.clusters.pods.gate import ExecServer
from tare.clusters.pods.lab_networks.model import LabNetwork
from tare.clusters.pods.mpi_jobs.run import MpiJobs
from tare.clusters.pods.mpi_jobs.site import JobsOfSite, Names, no_names
from tare.clusters.pods.node import MOST_AT_ONCE, KubernetesNode
from tare.clusters.pods.nodes import KubernetesMachine
from tare.clusters.pods.pod_service import key_of
from tare.clusters.pods.pod_specs import PodDefaults
from tare.clusters.pods.pods import Pods, found
from tare.clusters.pods.policy import check
from tare.clusters.pods.policy.manifest import outside_of
from tare.clusters.pods.relay import ExecRelay, rank_of
from tare.errors import InfrastructureError, RefusedError, TareError
from tare.images import SERVICE, recipe
from tare.model import KubernetesSpec, LabSpec, Launching
from tare.mpi.launch import Entry
from tare.mpi.launch.agent import RSH_OPTIONS_WITH_VALUE
from tare.mpi.launch.job import Inside
from tare.runtimes.kubernetes import CONTAINER, numbered
from tare.system.node import Nic, Node, Pod, marked_processes
from tare.system.node.cgroups import NO_GROUP
from tare.system.node.owners import owner
from tare.system.waiting import wait_until

GONE_S: Final = scaled(90.0)
PAUSE_S: Final = 0.2
NAMESPACES: Final = "/api/v1/namespaces"
NUMBERS: Final = count()
"""Of the launches of this process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Under:
    """What tare has made itself below a study's pods: the lab, the pods' networks, how an MPIJob's pods find others."""

    lab: Site | None = None
    networks: Sequence[LabNetwork] = ()
    names: Names = no_names


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesSite(SiteDefaults):
    """A namespace of a Kubernetes, and the nodes that the study uses; `under` is the lab on whose nodes it runs."""

    name: str
    nodes: tuple[Node, ...]
    folder: Path
    gate: ExecServer
    services: Mapping[str, KubernetesNode]
    head: tuple[str, ...] = ()
    allocation: Allocated | None = None
    daemon_nodes: tuple[Node, ...] = ()
    stated: Description = field(default_factory=Description)
    control_subnet: str = ""
    control_interface: str = ""
    under: Site | None = None
    jobs: JobsOfSite | None = None

    def service(self, node: Node) -> NodeService:
        return self.services[node.name]

    @contextmanager
    def launching(self, study: str, pods: Sequence[Pod]) -> Iterator[Inside]:
        first = pods[0]
        node = self.services[first.node.name]
        if self.jobs is not None and node.order(study).environment.launch is Launching.MPIJOB:
            with self.jobs.launching(self.gate, self.services, study, pods) as inside:
                yield inside
            return
        names = {pod.host or pod.node.name: pod.name for pod in pods}
        told = ("env", f"{marked_processes.RUN}={self.name}", f"{marked_processes.LAUNCH}={self.folder}/{study}")

        def start(pod: str, words: list[str]) -> tuple[str, list[str]]:
            if found := rank_of(words):
                number, begins = found
                return key_of(pod, numbered(CONTAINER, number)), begins
            host, command = read_request(words)
            return names[host], [*told, "/bin/sh", "-c", command]

        folder, relays = (
            f"{self.folder}/launch{next(NUMBERS)}",
            list[ExecRelay](),
        )  # the last one's relay may still be ending

        def listen(pod: str) -> None:
            relays.append(ExecRelay(self.gate, pod, folder, partial(start, pod)))

        try:
            with ThreadPoolExecutor(max_workers=MOST_AT_ONCE) as pool:
                asking = (pod.name for pod in pods if pod is pods[0] or pod.containers)
                list(pool.map(listen, asking))
            entry = Entry(argv=self.gate.argv(first.name), carry=True, keeps=("TMPDIR",))
            yield Inside(entry=entry, agent=f"{folder}/agent", folder=str(self.folder), rank=f"{folder}/rank")
        finally:
            for relay in relays:
                relay.close()

    def described(self) -> Mapping[str, Any]:
        seen = [each for service in self.services.values() for each in service.seen()]
        return self.stated.facts(seen)

    def drop_caches(self) -> None:
        raise RefusedError("the file caches of a Kubernetes's nodes cannot be dropped: leave cold caches out")

    def listen(self) -> socket.socket | None:
        return None  # pods need not reach the head

    def adopt(self, pid: int) -> None:
        if self.under is not None:
            self.under.adopt(pid)

    def pids(self) -> set[int]:
        return marked_processes.pids_of_run(self.name, self.folder) if self.under is None else self.under.pids()

    def usage_s(self) -> float:
        return 0.0 if self.under is None else self.under.usage_s()

    def settle(self) -> None:
        self.gate.settle()

    def check_held(self) -> None:
        if self.under is not None:
            self.under.check_held()


def read_request(words: Sequence[str]) -> tuple[str, str]:
    """Return the host and the command of a launcher's request, as for rsh: `[options] HOST COMMAND`."""
    rest = list(words)
    while rest and rest[0].startswith("-"):
        rest = rest[2:] if rest[0] in RSH_OPTIONS_WITH_VALUE else rest[1:]
    return rest[0], " ".join(rest[1:])


@contextmanager
def opened(
    client: Api,
    machines: Sequence[KubernetesMachine],
    spec: LabSpec,
    needs: Needs,
    *,
    name: str,
    folder: Path,
    namespace: str,
    left: list[str],
    under: Under | None = None,
) -> Iterator[KubernetesSite]:
    """Keep a namespace for a study, and yield the nodes with it as a site; `folder` exists already."""
    settings, used = spec.kubernetes, nodes.chosen(machines, spec.nodes)
    with ExitStack() as stack:
        told = {key: str(value) for key, value in owner().items()}
        stack.enter_context(made_namespace(client, namespace, name, told, left))
        gate = ExecServer(folder)
        stack.callback(gate.close)
        below = under or Under()
        titles = {each.runtime_class: each.title for each in below.networks}
        made = PodDefaults(
            site=name, folder=folder, namespace=namespace, settings=settings, node_image=service_image(settings),
            devices={each.runtime_class: each.devices for each in below.networks}, titles=titles,
        )  # fmt: skip
        stated = Description.read(client, settings.context, used, titles)
        if settings.network_policy:
            with made_namespace(client, outside_of(namespace), name, told, left):
                policy = check.applied(client, made, tuple(each.name for each in used))
            stated = replace(stated, policy=policy)
        pods = Pods(api=client, namespace=namespace)
        in_lab = {each.name: each for each in below.lab.nodes} if below.lab is not None else {}
        services = {
            f"n{number}": KubernetesNode(
                _node(number, each, spec, needs),
                made,
                pods,
                gate,
                spec.data_subnet or each.data_address,
                in_lab.get(each.name),
            )
            for number, each in enumerate(used)
        }
        stack.enter_context(renewed(tuple(services.values())))
        yield KubernetesSite(
            name=name,
            nodes=tuple(each.node for each in services.values()),
            folder=folder,
            gate=gate,
            services=services,
            stated=stated,
            under=below.lab,
            jobs=JobsOfSite(jobs=MpiJobs(client, namespace), longest_s=needs.longest_s, names=below.names),
        )


def service_image(settings: KubernetesSpec) -> str:
    """Return the name of the image of tare's service container."""
    own = pod_specs.image_of(settings.registry, SERVICE, f"tare:{recipe.service().digest[:16]}")
    return settings.node_image or own


def cores_of(machine: KubernetesMachine, spec: LabSpec) -> tuple[int, ...]:
    """Return as many cores as pods may ask for; which ones they are is known from inside of a pod."""
    return tuple(range(machine.cpus))[: spec.cores_per_node]


def _node(number: int, machine: KubernetesMachine, spec: LabSpec, needs: Needs) -> Node:
    return Node(
        name=f"n{number}",
        index=number,
        cores=cores_of(machine, spec),
        control_address=machine.address,
        nics=(Nic(name="", address=machine.data_address, prefix=32),) * needs.nics,
        pid=0,
        group=NO_GROUP,
        boot_id=machine.boot_id,
        machine=machine.name,
    )


@contextmanager
def renewed(services: Sequence[KubernetesNode]) -> Iterator[None]:
    """Renew the leases of services while the block runs; end the services afterwards."""
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(RENEWED_S):
            for service in services:
                service.renew()

    thread = threading.Thread(target=renew, name="leases", daemon=True)
    thread.start()
    try:
        with ExitStack() as stack:
            for service in services:
                stack.callback(service.close)
            yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def made_namespace(api: Api, name: str, run: str, owner: Mapping[str, str], left: list[str]) -> Iterator[None]:
    """Keep a namespace with tare's mark; remove it with all that is in it. Why that fails is added to `left`."""
    try:
        api.ask("POST", NAMESPACES, manifests.namespace(name, run, owner))
    except ApiError as error:
        if error.status == 409:
            raise InfrastructureError(
                f"the namespace {name} exists already, and tare uses only what it makes itself",
                remedy="name another one, or leave the key `namespace` out; `tare clean` removes those of killed runs",
            ) from error
        raise InfrastructureError(
            f"the namespace {name} cannot be made: {error.message}",
            remedy="let an administrator bind the role of docs/kubernetes.md to this user",
        ) from error
    try:
        yield
    finally:
        try:
            remove_namespace(api, name)
        except TareError as error:
            left.append(error.message)


def remove_namespace(api: Api, name: str) -> None:
    """Remove a namespace, and wait until it is gone; raise `InfrastructureError` with what keeps it."""
    with suppress(ApiError):
        api.ask("DELETE", f"{NAMESPACES}/{name}")
    try:
        if wait_until(lambda: found(api, f"{NAMESPACES}/{name}") is None, GONE_S, pause_s=PAUSE_S):
            return
        left = found(api, f"{NAMESPACES}/{name}") or {}
    except ApiError as error:
        raise InfrastructureError(f"the namespace {name} is not removed: {error.message}") from error
    why = "; ".join(
        str(each.get("message"))
        for each in objects.members(objects.at(left, "status", "conditions"))
        if each.get("status") == "True"
    )
    pods = Pods(api=api, namespace=name)
    why = pods.held(pods.listed()) or why
    raise InfrastructureError(
        f"the namespace {name} is not gone after {GONE_S:g} s" + (f": {why}" if why else ""),
        remedy="`tare clean` tries again; `kubectl get pods -A` shows pods that are stuck",
    )
