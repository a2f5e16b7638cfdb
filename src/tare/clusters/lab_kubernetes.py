"""Have a Kubernetes on the nodes of a lab for a study: the real one, with the images that the study needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from tare.agent import site_folder
from tare.clusters import kubernetes_site
from tare.clusters.base import Site
from tare.clusters.kubernetes import refuse_in_pods
from tare.clusters.kubernetes_site import KubernetesSite, Under
from tare.clusters.needs import Needs
from tare.clusters.pods import api, in_lab, lab_networks, nodes
from tare.daemons import coredns, mpi_operator
from tare.daemons.kubernetes import KubernetesDaemons
from tare.images.build import ensure_image, read_image
from tare.images.convert import ensure_file
from tare.images.recipe import service
from tare.images.registry.reference import is_reference
from tare.model import Environment, LabSpec, Launching, Placement
from tare.system.user_namespace import is_real_root

NAMESPACE = "tare-study"


def refuse(spec: LabSpec, environment: Environment, placement: Placement) -> str | None:
    """Return why an environment in a placement cannot run on a lab's Kubernetes, or None."""
    if spec.subnets > 1:
        return "a Kubernetes in a lab has its nodes in one subnet: leave subnets out"
    if is_reference(environment.image):
        return f"a Kubernetes in a lab has no registry to pull {environment.image} from: name a recipe"
    return lab_networks.refuse(environment) or refuse_in_pods(environment, placement)


def apart(environments: Sequence[Environment]) -> dict[str, str]:
    """Return by name the environments whose pod network an earlier one excludes from the lab, each with the reason."""
    reasons = lab_networks.excluded([each.runtime_class for each in environments])
    return {each.name: reasons[each.runtime_class] for each in environments if each.runtime_class in reasons}


def lacks(environment: Environment) -> str | None:
    """Return what a Kubernetes in a lab needs for an environment and this machine or user lacks, or None."""
    missing = (None if is_real_root() else "a Kubernetes in a lab needs root") or api.probe() or in_lab.probe()
    missing = missing or lab_networks.lacks(environment)
    return missing or (mpi_operator.probe() if environment.launch is Launching.MPIJOB else None)


@contextmanager
def opened(site: Site, spec: LabSpec, needs: Needs) -> Iterator[KubernetesSite]:
    """Keep a Kubernetes up on the nodes of a lab, and yield it as the site of a study."""
    name = site.name
    folder = site_folder.folder_of(name)
    with in_lab.running(site.nodes, site.folder, runtime_classes=needs.runtime_classes) as made:
        for archive in archives(needs.made):
            made.import_image(archive)
        machines = nodes.listed(made.api, "")
        under = Under(
            lab=site, networks=made.networks, names=lambda on_node: fields_of_jobs(made.kubernetes, on_node=on_node)
        )
        with (
            operated(made.kubernetes) if needs.jobs else nullcontext(),
            site_folder.kept(f"{name}-pods", name, folder, {}) as left,
            kubernetes_site.opened(
                made.api, machines, spec, needs, name=name, folder=folder, namespace=NAMESPACE, left=left, under=under
            ) as pods,
        ):
            yield pods


def archives(made: Sequence[Path]) -> tuple[Path, ...]:
    """Return Docker archives of a study's images, which are among what tare has made for it, and of the service's."""
    images = [image for path in made if (image := read_image(path.parent)) is not None and image.rootfs == path]
    return tuple(ensure_file(image, "docker-archive").path for image in (*images, ensure_image(service())))


@contextmanager
def operated(kubernetes: KubernetesDaemons) -> Iterator[None]:
    """Keep the MPI Operator running on a lab's Kubernetes, and the name server by which its launchers find workers."""
    with coredns.running(kubernetes), mpi_operator.running(kubernetes):
        yield


def fields_of_jobs(kubernetes: KubernetesDaemons, *, on_node: bool) -> Mapping[str, Any]:
    """Return the fields of pods of an MPIJob: they ask the lab's name server, by an address that they reach."""
    address = kubernetes.address if on_node else coredns.address_for_pods(kubernetes)
    return coredns.pod_fields(address, NAMESPACE)
