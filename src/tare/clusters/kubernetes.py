"""Provide `kubernetes`: pods on the nodes of the user's Kubernetes, in a namespace that is made for the study.

A service in each pod (`tare.clusters.pods`) does what is done there. The launcher of a job runs in the first pod.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tare.agent import site_folder
from tare.clusters import kubernetes_clean, kubernetes_site
from tare.clusters.base import Cluster
from tare.clusters.kubernetes_site import KubernetesSite, cores_of
from tare.clusters.needs import Needs
from tare.clusters.pods import api, nodes, pod_specs
from tare.clusters.pods.api import Api
from tare.clusters.pods.mpi_jobs.run import missing
from tare.clusters.pods.nodes import KubernetesMachine
from tare.model import Environment, KubernetesSpec, LabSpec, Launching, Placement, Sides
from tare.model.topology import NodeCores, Topology
from tare.system.node import marked_processes


def refuse_in_pods(environment: Environment, placement: Placement) -> str | None:
    """Return why pods of a Kubernetes cannot be an environment in a placement, or None."""
    if environment.launch is Launching.MPIJOB and (placement.cpus_per_container or placement.memory_per_container):
        return "no limits can be set for the workers of an MPIJob: leave them out, or use launch: exec"
    if environment.link or environment.daemon:
        return "a Kubernetes leaves its nodes as they are: remove link and daemon, or use cluster: lab"
    if environment.sides is not Sides.BOTH:
        return "a Kubernetes runs pods on all nodes, so no side can be bare: use sides: both"
    if environment.binds:
        return "pods of a study see no folders of their nodes: leave binds out"
    if environment.image.startswith("/"):
        return "a Kubernetes pulls images by name, and not from a path: name a recipe, or one of a registry"
    if placement.cpu_weight:
        return "no weight can be set for pods of a Kubernetes: leave cpu_weight out"
    return None


class KubernetesCluster(Cluster):
    """Use a Kubernetes. Its nodes are read by the first question about them."""

    name = "kubernetes"
    location = "On this Kubernetes"
    account = "the user of its image"
    is_real = True

    def __init__(self) -> None:
        self._opened: dict[KubernetesSpec, tuple[Api, tuple[KubernetesMachine, ...]]] = {}

    def makes_pods(self, spec: LabSpec) -> bool:
        return True

    def refuse(self, spec: LabSpec, environment: Environment, placement: Placement) -> str | None:
        if spec.link_rate_bps or spec.segmented or spec.subnets > 1:
            return "cluster kubernetes has no links to set: remove link_rate, wire and subnets, or use cluster: lab"
        wanted = spec.kubernetes
        if environment.launch is Launching.MPIJOB and (wanted.exclusive or wanted.resources):
            return "the workers of an MPIJob ask for nothing: leave exclusive and resources out, or use launch: exec"
        if reason := refuse_in_pods(environment, placement):
            return reason
        _, machines = self._machines(spec)
        return nodes.too_few(machines, placement.nodes, spec.kubernetes.selector)

    def lacks(self, spec: LabSpec, environment: Environment) -> str | None:
        if environment.launch is not Launching.MPIJOB:
            return None  # what pods lack, they say when they are made
        client, _ = self._machines(spec)
        return missing(client)

    def topology(self, spec: LabSpec) -> Topology:
        _, machines = self._machines(spec)
        return Topology(
            nodes=tuple(
                NodeCores(cores=cores_of(each, spec), name=f"n{number}")
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
            told = kubernetes_clean.noted(spec.kubernetes, namespace)
            left = stack.enter_context(site_folder.kept(f"{name}-{self.name}", name, folder, told))
            stack.enter_context(marked_processes.marked(name))
            site = kubernetes_site.opened(
                client, machines, spec, needs, name=name, folder=folder, namespace=namespace, left=left
            )
            yield stack.enter_context(site)

    def _machines(self, spec: LabSpec) -> tuple[Api, tuple[KubernetesMachine, ...]]:
        """Return the API server and the nodes of a study, which are read once."""
        wanted = spec.kubernetes
        if wanted not in self._opened:
            client = api.opened(wanted.kubeconfig, wanted.context)
            self._opened[wanted] = (client, nodes.listed(client, wanted.selector, pod_specs.tolerated(wanted)))
        return self._opened[wanted]

    def _forget(self, wanted: KubernetesSpec) -> None:
        client, _ = self._opened.pop(wanted)
        client.close()
