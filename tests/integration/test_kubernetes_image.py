"""A user's own image by its name in a registry, on a real Kubernetes: the head never has it."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from integration.live import Ended, lab_site, live, outcome, tare, trials, write_study
from integration.test_networks_flannel import CANNOT
from tare.clusters.pods import in_lab
from tare.images import find_recipe
from tare.images.build import ensure_image
from tare.images.convert import ensure_file, image_tag
from tare.images.recipe import service
from tare.networks import flannel
from tare.system.process import run

pytestmark = [
    pytest.mark.long,
    *live("kubernetes", "flannel", "etcd", "cni", "docker", "iptables"),
    pytest.mark.skipif(not flannel.BRIDGE_NETFILTER.exists(), reason=f"{CANNOT}br_netfilter is not loaded"),
]

OWN: Final = "registry.invalid/me/app:1"
WITHOUT: Final = "registry.invalid/me/without:1"
"""An image with a shell, and without tare's programs."""
ABSENT: Final = "registry.invalid/me/absent:1"


PROGRAM: Final = "/usr/local/bin/of-user"
SOURCE: Final = """#include <mpi.h>
int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Finalize();
}
"""
"""A program that is in the image alone."""


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep a Kubernetes whose nodes have images by the names of a registry, as if they had pulled them."""
    folder = tmp_path_factory.mktemp("own")
    own = with_program(ensure_file(ensure_image(find_recipe()), "docker-archive").path, folder)
    image = ensure_image(service())
    with lab_site() as site, in_lab.running(site.nodes, site.folder) as made:
        made.import_image(ensure_file(image, "docker-archive").path)
        for node in made.kubernetes.containerds:
            (here,) = (each for each in node.images() if each.endswith(image_tag(image)))
            node._ctr("images", "tag", here, WITHOUT)
            place = node.daemon.place  # nodes have a /tmp of their own
            shutil.copy(own, place.path(own.name))
            node.import_image(Path(place.folder) / own.name)
            place.path(own.name).unlink()
        yield made.kubeconfig


def with_program(archive: Path, folder: Path) -> Path:
    """Return a copy of a Docker archive with another layer, in which there is the program, and with the user's name."""
    (folder / "program.c").write_text(SOURCE)
    run(("mpicc.openmpi", "-o", str(folder / "program"), str(folder / "program.c")))
    with tarfile.open(folder / "layer.tar", "w") as layer:
        layer.add(folder / "program", arcname=PROGRAM.lstrip("/"))
    added = hashlib.sha256((folder / "layer.tar").read_bytes()).hexdigest()
    with tarfile.open(archive) as old, tarfile.open(folder / "own.tar", "w") as new:
        (entry,) = json.load(old.extractfile("manifest.json") or io.BytesIO())
        config = json.load(old.extractfile(entry["Config"]) or io.BytesIO())
        config["rootfs"]["diff_ids"].append(f"sha256:{added}")
        for name in entry["Layers"]:
            new.addfile(old.getmember(name), old.extractfile(name))
        new.add(folder / "layer.tar", arcname=f"{added}.tar")
        content = json.dumps(config).encode()
        stated = {
            "Config": f"{hashlib.sha256(content).hexdigest()}.json",
            "RepoTags": [OWN],
            "Layers": [*entry["Layers"], f"{added}.tar"],
        }
        for name, data in ((stated["Config"], content), ("manifest.json", json.dumps([stated]).encode())):
            member = tarfile.TarInfo(str(name))
            member.size = len(data)
            new.addfile(member, io.BytesIO(data))
    return folder / "own.tar"


def ran(kubeconfig: Path, folder: Path, image: str, command: str = "[/bin/true]") -> Ended:
    study = write_study(
        folder, "own", f"{{own: {{runtime: kubernetes, network: pod-network, image: '{image}'}}}}",
        cluster=json.dumps({"kubernetes": {"kubeconfig": str(kubeconfig), "pull_policy": "Never"}}),
        a_a="true", placements="[2x1]", workloads=f"{{app: {{command: {command}, time_limit: 60s}}}}",
    )  # fmt: skip
    return tare("run", study, cwd=folder)


def test_a_program_of_the_user_runs_in_the_users_image(kubeconfig: Path, tmp_path: Path) -> None:
    result = ran(kubeconfig, tmp_path, OWN, f"[{PROGRAM}]")
    assert result.status in (0, 3), result.stdout + result.stderr
    found = trials(tmp_path / "results" / "own")
    assert [outcome(each) for each in found] == ["Completed"] * 2, found
    assert all("sha256:" in each["facts"]["image"] for each in found)


@pytest.mark.parametrize(
    ("image", "said"),
    [
        (WITHOUT, f"the image {WITHOUT} has no /opt/tare/lib/libtare_wall.so, by which tare measures its programs"),
        (ABSENT, f"the node does not have the image {ABSENT}, and the pull policy is Never"),
    ],
)
def test_what_an_image_lacks_is_one_sentence(kubeconfig: Path, tmp_path: Path, image: str, said: str) -> None:
    result = ran(kubeconfig, tmp_path, image)
    told = " ".join((result.stdout + result.stderr).split())
    assert result.status not in (0, 3), told
    assert said in told
    assert "Traceback" not in told
