"""Rootless Podman for real: root of a container is an ordinary user outside, and nothing of that user stays."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from integration.containers import CARRIERS, check_killed, check_network, check_several, inside, ran
from integration.live import Ended, Watch, by_environment, lab_site, live, tare
from tare.deploy.pods import deployed
from tare.images import find_recipe
from tare.images.build import ensure_image
from tare.model import Environment, Placement
from tare.node_service.order import Files
from tare.runtimes.podman_rootless import IMAGE_OWNERS, USER
from tare.summary import surroundings

pytestmark = live("cni", "mmdebstrap", "podman", "uidmap")
ACCOUNTS = tuple(Path("/etc") / name for name in ("passwd", "group", "subuid", "subgid"))
NETWORKS = ("host", "bridge")


@pytest.fixture(scope="module")
def everywhere(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ended, Watch, Path]:
    names = ["bare", *(f"podman-rootless+{network}" for network in NETWORKS)]
    placements = "[{nodes: 2, memory_per_container: 512MiB}]"
    return ran(tmp_path_factory.mktemp("rootless"), names, placements=placements)


@pytest.mark.parametrize("network", NETWORKS)
def test_a_network_completes_and_proves_where_its_traffic_went(
    network: str, everywhere: tuple[Ended, Watch, Path]
) -> None:
    assert set(NETWORKS) <= set(CARRIERS)
    check_network(f"podman-rootless+{network}", network, everywhere)


def test_ranks_are_an_ordinary_user_s_and_a_study_leaves_nothing_behind(everywhere: tuple[Ended, Watch, Path]) -> None:
    result, watch, results = everywhere
    (trial,) = by_environment(results)["podman-rootless+host"]
    rights = trial["ranks"][0]["rights"]
    assert rights["uid_map"] == f"0 1 {USER}"
    assert rights["capabilities"] == "0000000000000000"
    assert rights["setuid"] == "newuidmap, newgidmap"
    assert surroundings.devices(rights) == "the usual"
    assert "memory_bytes=536870912" in rights["limits"].split()
    assert "user" not in trial["ranks"][0]["node_namespaces"]
    assert watch.left(result.lab) == []


@pytest.mark.long  # as with rootful Podman
def test_each_rank_of_a_node_can_have_a_container_of_its_own_in_one_pod(tmp_path: Path) -> None:
    check_several("podman-rootless", tmp_path)


def test_an_application_reads_and_writes_where_its_user_is_and_files_belong_to_the_user(tmp_path: Path) -> None:
    done = tare("launch", "--runtime", "podman-rootless", "--", "sh", "-c", "id -u; cat given > made", cwd=tmp_path)
    assert done.status != 0, "there was nothing to read"
    (tmp_path / "given").write_text("words")
    (tmp_path / "given").chmod(0o600)
    done = tare("launch", "--runtime", "podman-rootless", "--", "sh", "-c", "id -u; cat given > made", cwd=tmp_path)
    assert (done.status, done.stdout) == (0, f"{USER}\n"), done.stderr
    assert (tmp_path / "made").read_text() == "words"
    assert (tmp_path / "made").stat().st_uid == os.geteuid()


@pytest.mark.long  # what marks a lab's processes is not the runtime's: test_leftovers.py
@pytest.mark.alone
def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path: Path) -> None:
    check_killed("podman-rootless", tmp_path)


def test_the_user_is_known_in_the_pod_alone_and_its_root_is_nobody_s_outside(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    environment = Environment(name="p", runtime="podman-rootless", network="bridge", image="debian-openmpi")
    image = ensure_image(find_recipe())
    shown = Path(tempfile.mkdtemp(dir="/root"))  # private on this machine and in the image
    (shown / "given").write_text("words")
    request.addfinalizer(lambda: shutil.rmtree(shown))
    files = Files(host_prefix=tmp_path, rootfs=image.rootfs, shown=(str(shown),))
    before = [path.read_bytes() for path in ACCOUNTS]
    with lab_site(nics=2) as site, deployed(site, environment, Placement(), slot=0, nic=1, files=files) as up:
        node, pod = site.nodes[0], up.sides[0].pod
        told = inside(up, "cat /proc/sys/kernel/random/boot_id; hostname; id -u; stat -c %U /etc /usr/bin/orted")
        assert told.stdout.splitlines() == [node.boot_id, "n0", str(USER), "root", "root"]
        assert inside(up, f"cat {shown}/given").stdout == "words"
        assert inside(up, f"touch {shown}/tare-was-here", check=False).status != 0
        assert inside(up, "touch /etc/tare-was-here", check=False).status != 0
        inside(up, "touch /tmp/tare-was-here")
        assert not (image.rootfs / "tmp" / "tare-was-here").exists(), "the image in the cache was written to"
        assert Path(f"/proc/{pod.pid}").stat().st_uid == USER
        mapped = Path(f"/proc/{pod.pid}/uid_map").read_text().splitlines()
        assert ",".join(" ".join(line.split()) for line in mapped) == IMAGE_OWNERS
        assert [path.read_bytes() for path in ACCOUNTS] == before
    assert [path.read_bytes() for path in ACCOUNTS] == before
