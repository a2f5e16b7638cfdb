"""Podman for real, on every network that needs no Docker."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path

import pytest

from integration.containers import (
    INTERRUPTS,
    NETWORKS,
    SIDES,
    check_command,
    check_interrupted,
    check_killed,
    check_network,
    check_one_node,
    inside,
    ran_everywhere,
)
from integration.live import Ended, Watch, by_environment, lab_site, live, outcome, wait_for
from tare.deploy.pods import deployed
from tare.images import find_recipe
from tare.images.build import ensure_image
from tare.model import Environment, Placement
from tare.node import Node
from tare.node_service.order import Files

pytestmark = live("cni", "mmdebstrap", "podman")
PODMAN_S_OWN = (
    "/var/lib/containers", "/run/containers", "/run/libpod", "/run/crun", "/run/tare-podman", "/dev/shm/libpod_lock",
)  # fmt: skip


def monitors(node: Node) -> list[int]:
    """Return the processes by which Podman watches what it started on a node."""
    found = []
    for pid in node.group.pids():
        with suppress(OSError):  # it has just ended
            found += [pid] if Path(f"/proc/{pid}/comm").read_text().strip() == "conmon" else []
    return found


@pytest.fixture(scope="module")
def everywhere(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> tuple[Ended, Watch, Path]:
    return ran_everywhere("podman", tmp_path_factory.mktemp("podman"), request)


@pytest.mark.parametrize("network", NETWORKS)
def test_a_network_completes_and_proves_where_its_traffic_went(
    network: str, everywhere: tuple[Ended, Watch, Path]
) -> None:
    check_network(f"podman+{network}", network, everywhere)


@pytest.mark.parametrize("side", SIDES)
def test_one_side_alone_can_be_in_a_container(side: str, everywhere: tuple[Ended, Watch, Path]) -> None:
    (trial,) = by_environment(everywhere[2])[f"podman {side}"]
    assert outcome(trial) == "Completed", trial["outcome"]


def test_a_study_leaves_nothing_behind(everywhere: tuple[Ended, Watch, Path]) -> None:
    result, watch, _ = everywhere
    assert len(watch.namespaces) > 20, "the watch saw no namespaces"
    assert watch.left(result.lab) == []


def test_two_ranks_of_a_node_share_memory_but_no_core_in_one_container_and_in_one_each_of_a_pod(tmp_path: Path) -> None:
    check_one_node("podman", tmp_path)


def test_a_program_of_the_user_s_is_seen_where_it_is(tmp_path: Path) -> None:
    check_command("podman", tmp_path, tmp_path)


@pytest.mark.parametrize("number", INTERRUPTS)
def test_a_run_that_is_interrupted_undoes_everything(number: signal.Signals, tmp_path: Path) -> None:
    check_interrupted("podman", tmp_path, number)


@pytest.mark.long  # what marks a lab's processes is not the runtime's: test_leftovers.py
@pytest.mark.alone
def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path: Path) -> None:
    check_killed("podman", tmp_path)


def test_a_container_is_like_docker_s_and_keeps_nothing_on_this_machine(tmp_path: Path) -> None:
    environment = Environment(name="p", runtime="podman", network="bridge", image="debian-openmpi")
    image = ensure_image(find_recipe())
    shown = Path(__file__).parent
    files = Files(host_prefix=tmp_path, rootfs=image.rootfs, shown=(str(shown),))
    before = [path for path in PODMAN_S_OWN if Path(path).exists()]
    with (
        lab_site(nics=2, shown=(shown,)) as site,
        deployed(site, environment, Placement(), slot=0, nic=1, files=files) as up,
    ):
        node, pod = site.nodes[0], up.sides[0].pod
        told = inside(up, "cat /proc/sys/kernel/random/boot_id; hostname; command -v orted; cat /proc/1/comm; id -u")
        assert told.stdout.splitlines() == [node.boot_id, "n0", "/usr/bin/orted", "podman-init", "0"]
        assert inside(up, "df -k /dev/shm | tail -n 1").stdout.split()[:2] == ["shm", "1048576"]
        assert inside(up, "nproc").stdout.split() == [str(len(node.cores))]
        assert inside(up, f"cat {shown}/live.py").stdout == (shown / "live.py").read_text()
        assert inside(up, f"touch {shown}/tare-was-here", check=False).status != 0
        assert inside(up, "mount -t tmpfs x /mnt", check=False).status != 0, "the container is privileged"
        inside(up, "touch /tare-was-here")
        assert not (image.rootfs / "tare-was-here").exists(), "the image in the cache was written to"
        assert pod.pid in pod.group.pids()
        assert pod.keepers == frozenset(pod.group.pids())
        assert pod.group.path.startswith(f"{node.group.path}/")
        # the monitor of podman exec ends a moment after the command
        wait_for(lambda: len(monitors(node)) == 1, "end of the other monitors", 10)
        assert [path for path in PODMAN_S_OWN if Path(path).exists()] == before
