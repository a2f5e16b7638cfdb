"""Have a Kubernetes on the nodes of a lab for a study: the real one, with the images that the study needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tare.cluster import kubernetes_site
from tare.cluster.base import Site
from tare.cluster.kubernetes import refuse_in_pods
from tare.cluster.kubernetes_site import KubernetesSite
from tare.cluster.needs import Needs
from tare.host.user_namespace import is_real_root
from tare.images.build import ensure_image, read_image
from tare.images.convert import ensure_file
from tare.images.recipe import service
from tare.images.registry.reference import is_reference
from tare.kubernetes import api, in_lab, nodes
from tare.model import Environment, LabSpec, Placement
from tare.node_service import site_folder

NAMESPACE = "tare-study"


def refuse(spec: LabSpec, environment: Environment, placement: Placement) -> str | None:
    """Return why an environment in a placement cannot run on a lab's Kubernetes, or None."""
    if spec.subnets > 1:
        return "a Kubernetes in a lab has its nodes in one subnet: leave subnets out"
    if is_reference(environment.image):
        return f"a Kubernetes in a lab has no registry to pull {environment.image} from: name a recipe"
    return refuse_in_pods(environment, placement)


def lacks() -> str | None:
    """Return what a Kubernetes in a lab needs and this machine or user lacks, or None."""
    return (None if is_real_root() else "a Kubernetes in a lab needs root") or api.probe() or in_lab.probe()


@contextmanager
def opened(site: Site, spec: LabSpec, needs: Needs) -> Iterator[KubernetesSite]:
    """Keep a Kubernetes up on the nodes of a lab, and yield it as the site of a study."""
    name = site.name
    folder = site_folder.folder_of(name)
    with in_lab.running(site.nodes, site.folder) as made:
        for archive in archives(needs.made):
            made.import_image(archive)
        machines = nodes.listed(made.api, "")
        with (
            kubernetes_site.own_folder(f"{name}-pods", name, folder, {}) as left,
            kubernetes_site.opened(
                made.api, machines, spec, needs, name=name, folder=folder, namespace=NAMESPACE, left=left, under=site
            ) as pods,
        ):
            yield pods


def archives(made: Sequence[Path]) -> tuple[Path, ...]:
    """Return Docker archives of a study's images, which are among what tare has made for it, and of the service's."""
    images = [image for path in made if (image := read_image(path.parent)) is not None and image.rootfs == path]
    return tuple(ensure_file(image, "docker-archive").path for image in (*images, ensure_image(service())))
