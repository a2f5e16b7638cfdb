"""A user's own image by name: only pods have one, no other machine needs it, and what it lacks is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nodes import make_node
from tare.cluster import lab_kubernetes
from tare.errors import InfrastructureError
from tare.feasibility.preflight import misfit
from tare.images import RECIPES
from tare.images.registry.reference import is_reference
from tare.kubernetes import making
from tare.kubernetes.manifests import PodSpec
from tare.kubernetes.pod_service import PodService, digest_of
from tare.model import Cell, Environment, LabSpec, Placement, Role
from tare.node_service.order import Files
from tare.plan import composition
from tare.study import load

DIGEST = "sha256:" + "0123456789abcdef" * 4
NAME = "registry.example/me/app:1"
OWN = Environment(name="own", runtime="kubernetes", network="pod-network", image=NAME)


@pytest.mark.parametrize(
    "name",
    [NAME, f"registry.example:5000/app@{DIGEST}", "localhost/app", "[::1]:5000/a/b", f"app@{DIGEST}", f"a:1@{DIGEST}"],
)
def test_a_name_with_a_registry_or_a_digest_is_a_reference(name: str) -> None:
    assert is_reference(name)


@pytest.mark.parametrize(
    "name",
    ["", "app", "app:1", "me/app", "/srv/app.sif", "./app", "../a.b/c", "registry.example/", "registry.example/Me",
     "registry.example/a:", "app@sha256:12", f"@{DIGEST}", "registry.example/a b", *RECIPES],
)  # fmt: skip
def test_other_names_are_none(name: str) -> None:
    assert not is_reference(name)


def test_only_pods_of_a_cluster_have_such_an_image_by_the_name_as_it_stands() -> None:
    assert composition.refuse(OWN, Placement()) is None
    docker = Environment(name="d", runtime="docker", network="bridge", image=NAME)
    assert composition.refuse(docker, Placement()) == (
        f"{NAME} is pulled by the nodes of a cluster alone: name a recipe, or the path of an image"
    )
    reason = lab_kubernetes.refuse(LabSpec(), OWN, Placement())
    assert reason == f"a Kubernetes in a lab has no registry to pull {NAME} from: name a recipe"
    assert making.image_of("registry.example/other", NAME, "tare:ignored") == NAME


class Answers:
    """A gate through which every command ends with a status."""

    def __init__(self, status: int) -> None:
        self.status = status

    def start(self, _pod: str, _argv: Any) -> Answers:
        return self

    def pump(self, _beside: None, _take: Any) -> int:
        return self.status

    def close(self) -> None:
        pass


def service(status: int, folder: Path) -> PodService:
    spec = PodSpec(name="e0-n0", namespace="s", run="s", slot=0, node="w", image=NAME, node_image="service")
    gate: Any = Answers(status)
    return PodService(node=make_node(), number=0, spec=spec, gate=gate, pods=None, folder=folder)  # type: ignore[arg-type]


def test_an_image_without_tares_programs_is_told_what_it_needs(tmp_path: Path) -> None:
    service(0, tmp_path)._find_programs(NAME)
    with pytest.raises(InfrastructureError, match=f"the image {NAME} has no /opt/tare/lib/libtare_wall.so") as caught:
        service(1, tmp_path)._find_programs(NAME)
    assert "COPY --from=IMAGE /opt/tare /opt/tare" in caught.value.remedy


def test_the_digest_that_ran_is_recorded() -> None:
    statuses = [
        {"name": "node", "imageID": "s@sha256:1"},
        {"name": "ranks", "imageID": f"registry.example/me/app@{DIGEST}"},
    ]
    assert digest_of({"status": {"containerStatuses": statuses}}) == f"registry.example/me/app@{DIGEST}"
    assert digest_of({}) == ""


def test_a_study_names_it_and_the_head_has_no_file_of_it(tmp_path: Path) -> None:
    study = tmp_path / "own.yaml"
    study.write_text(
        f"name: own\ncluster: {{kubernetes: {{}}}}\na_a: true\nplacements: [2x1]\n"
        f"environments: {{own: {{runtime: kubernetes, network: pod-network, image: '{NAME}'}}}}\n"
        "workloads: {app: {command: [/bin/true]}}\n"
    )
    read = load(study)
    assert read.environments[0].image == NAME
    cell = Cell(
        key="k", group="g", role=Role.BASELINE, workload=read.workloads[0], environment=read.environments[0],
        placement=Placement(),
    )  # fmt: skip
    assert misfit(cell, Files(host_prefix=tmp_path, image_tag=NAME)) is None, "/bin/true of this machine says nothing"
