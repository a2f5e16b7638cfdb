"""Provide `kubernetes`: pods on the nodes of the user's Kubernetes, in a namespace that is made for the study.

A service in each pod (`tare.kubernetes`) does what is done there. The launcher of a job runs in the first pod.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tare.cluster import kubernetes_site
from tare.cluster.base import Cluster
from tare.cluster.kubernetes_site import KubernetesSite
from tare.cluster.needs import Needs
from tare.host.paths import made_run_folder
from tare.images.recipe import service
from tare.kubernetes import api, making, nodes
from tare.kubernetes.api import Api
from tare.kubernetes.describe import Description
from tare.kubernetes.gate import Gate
from tare.kubernetes.making import Making
from tare.kubernetes.node import KubernetesNode
from tare.kubernetes.nodes import KubernetesMachine
from tare.kubernetes.pods import Pods
from tare.model import Environment, KubernetesSpec, LabSpec, Launching, Placement, Sides
from tare.model.topology import NodeCores, Topology
from tare.node import Nic, Node, marked
from tare.node.cgroups import Group
from tare.node.owners import owner
from tare.node_service import site_folder


class KubernetesCluster(Cluster):
    """Use a Kubernetes. Its nodes are read by the first question about them."""

    name = "kubernetes"
    location = "On this Kubernetes"
    account = "the user of its image"
    is_real = True
    makes_pods = True

    def __init__(self) -> None:
        self._opened: dict[KubernetesSpec, tuple[Api, tuple[KubernetesMachine, ...]]] = {}

    def refuse(self, spec: LabSpec, environment: Environment, placement: Placement) -> str | None:
        if spec.link_rate_bps or spec.segmented or spec.subnets > 1:
            return "cluster kubernetes has no links to set: remove link_rate, wire and subnets, or use cluster: lab"
        if environment.launch is not Launching.EXEC:
            return f"launch: {environment.launch} is not possible in pods of a Kubernetes: use launch: exec"
        if environment.link or environment.daemon:
            return "cluster kubernetes leaves its nodes as they are: remove link and daemon, or use cluster: lab"
        if environment.sides is not Sides.BOTH:
            return "cluster kubernetes has pods on all nodes, and nothing bare beside them: use sides: both"
        if environment.binds:
            return "pods of a study see no folders of their nodes: leave binds out"
        if placement.cpu_weight:
            return "no weight can be set for pods of a Kubernetes: leave cpu_weight out"
        _, machines = self._machines(spec)
        return nodes.too_few(machines, placement.nodes, spec.kubernetes.selector)

    def lacks(self, spec: LabSpec, environment: Environment) -> str | None:
        return None  # what pods lack, they say when they are made

    def topology(self, spec: LabSpec) -> Topology:
        _, machines = self._machines(spec)
        return Topology(
            nodes=tuple(
                NodeCores(cores=_cores(each, spec), name=f"n{number}")
                for number, each in enumerate(nodes.chosen(machines, spec.nodes))
            )
        )

    @contextmanager
    def open(self, study: str, spec: LabSpec, needs: Needs) -> Iterator[KubernetesSite]:
        client, machines = self._machines(spec)
        name = site_folder.unique_name(study)
        folder = site_folder.folder_of(name)
        namespace = spec.kubernetes.namespace or f"tare-{name.lower()}"
        with ExitStack() as stack:
            stack.callback(self._forget, spec.kubernetes)
            note = made_run_folder() / f"{name}-{self.name}"
            stack.callback(shutil.rmtree, note, ignore_errors=True)
            note.mkdir(mode=0o700)
            told = {
                "lab": name, **owner(), site_folder.KEY: str(folder), site_folder.HEAD: True,
                **noted(spec.kubernetes, namespace),
            }  # fmt: skip
            (note / "owner.json").write_text(json.dumps(told))
            stack.callback(site_folder.remove, folder, of_head=True)
            stack.callback(marked.end_run, name, folder)
            site_folder.make(folder, of_head=True)
            stack.enter_context(marked.marked(name))
            stack.enter_context(
                kubernetes_site.made_namespace(client, namespace, name, {key: str(v) for key, v in owner().items()})
            )
            gate = Gate(folder)
            stack.callback(gate.close)
            made = Making(
                site=name,
                folder=folder,
                namespace=namespace,
                settings=spec.kubernetes,
                node_image=spec.kubernetes.node_image
                or making.image_of(spec.kubernetes.registry, making.SERVICE, f"tare:{service().digest[:16]}"),
            )
            pods = Pods(api=client, namespace=namespace)
            services = {
                f"n{number}": KubernetesNode(_node(number, each, spec, needs), made, pods, gate, _data(each, spec))
                for number, each in enumerate(nodes.chosen(machines, spec.nodes))
            }
            stack.enter_context(kubernetes_site.renewed(tuple(services.values())))
            listed = tuple(each.node for each in services.values())
            stated = Description.read(client, spec.kubernetes.context, nodes.chosen(machines, spec.nodes))
            yield KubernetesSite(name=name, nodes=listed, folder=folder, gate=gate, services=services, stated=stated)

    def _machines(self, spec: LabSpec) -> tuple[Api, tuple[KubernetesMachine, ...]]:
        """Return the API server and the nodes of a study, which are read once."""
        wanted = spec.kubernetes
        if wanted not in self._opened:
            client = api.opened(wanted.kubeconfig, wanted.context)
            self._opened[wanted] = (client, nodes.listed(client, wanted.selector, making.tolerated(wanted)))
        return self._opened[wanted]

    def _forget(self, wanted: KubernetesSpec) -> None:
        client, _ = self._opened.pop(wanted)
        client.close()


KUBECONFIG = "kubeconfig"
CONTEXT = "kubernetes context"
NAMESPACE = "kubernetes namespace"


def noted(wanted: KubernetesSpec, namespace: str) -> dict[str, str]:
    """Return what `tare clean` must know to remove the namespace of a run whose head was killed."""
    return {KUBECONFIG: wanted.kubeconfig, CONTEXT: wanted.context, NAMESPACE: namespace}


def _cores(machine: KubernetesMachine, spec: LabSpec) -> tuple[int, ...]:
    """Return as many cores as pods may ask for; which ones they are is known from inside of a pod."""
    return tuple(range(machine.cpus))[: spec.cores_per_node]


def _data(machine: KubernetesMachine, spec: LabSpec) -> str:
    return spec.data_subnet or machine.data_address


def _node(number: int, machine: KubernetesMachine, spec: LabSpec, needs: Needs) -> Node:
    return Node(
        name=f"n{number}",
        index=number,
        cores=_cores(machine, spec),
        control_address=machine.address,
        nics=(Nic(name="", address=machine.data_address, prefix=32),) * needs.nics,
        pid=0,
        group=Group(path="", hierarchies=()),
        boot_id=machine.boot_id,
        machine=machine.name,
    )
