"""Charliecloud for real, on every network that needs no Docker."""

from __future__ import annotations

import signal
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
from integration.live import Ended, Watch, by_environment, lab_site, live, outcome
from tare.deploy.pods import deployed
from tare.images import find_recipe
from tare.images.build import ensure_image
from tare.model import Environment, Placement
from tare.node_service.order import Files

pytestmark = live("cni", "mmdebstrap", "charliecloud")


@pytest.fixture(scope="module")
def everywhere(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> tuple[Ended, Watch, Path]:
    return ran_everywhere("charliecloud", tmp_path_factory.mktemp("charliecloud"), request)


@pytest.mark.parametrize("network", NETWORKS)
def test_a_network_completes_and_proves_where_its_traffic_went(
    network: str, everywhere: tuple[Ended, Watch, Path]
) -> None:
    check_network(f"charliecloud+{network}", network, everywhere)


@pytest.mark.parametrize("side", SIDES)
def test_one_side_alone_can_be_in_a_container(side: str, everywhere: tuple[Ended, Watch, Path]) -> None:
    (trial,) = by_environment(everywhere[2])[f"charliecloud {side}"]
    assert outcome(trial) == "Completed", trial["outcome"]


def test_a_study_leaves_nothing_behind(everywhere: tuple[Ended, Watch, Path]) -> None:
    result, watch, _ = everywhere
    assert len(watch.namespaces) > 10, "the watch saw no namespaces"
    assert watch.left(result.lab) == []


def test_two_ranks_of_a_node_share_memory_but_no_core_in_one_container_and_in_one_each_of_a_pod(tmp_path: Path) -> None:
    check_one_node("charliecloud", tmp_path)


@pytest.mark.long  # as with Podman, whose containers are entered in the same way
def test_a_program_of_the_user_s_is_seen_where_it_is(tmp_path: Path) -> None:
    check_command("charliecloud", tmp_path, tmp_path)


@pytest.mark.parametrize("number", INTERRUPTS)
def test_a_run_that_is_interrupted_undoes_everything(number: signal.Signals, tmp_path: Path) -> None:
    check_interrupted("charliecloud", tmp_path, number)


@pytest.mark.long  # what marks a lab's processes is not the runtime's: test_leftovers.py
@pytest.mark.alone
def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path: Path) -> None:
    check_killed("charliecloud", tmp_path)


def test_a_container_is_charliecloud_s_and_shows_its_node_and_the_folders_that_it_is_given(tmp_path: Path) -> None:
    environment = Environment(name="c", runtime="charliecloud", network="host", image="debian-openmpi")
    image = ensure_image(find_recipe())
    shown = Path(__file__).parent  # below /tmp where this clone is
    files = Files(host_prefix=tmp_path, rootfs=image.rootfs, shown=(str(shown),))
    with lab_site(shown=(shown,)) as site, deployed(site, environment, Placement(), slot=0, nic=0, files=files) as up:
        node = site.nodes[0]
        told = inside(up, "cat /proc/sys/kernel/random/boot_id; hostname; echo $CH_RUNNING; command -v orted; id -u")
        assert told.stdout.splitlines() == [node.boot_id, "n0", "Weird Al Yankovic", "/usr/bin/orted", "0"]
        assert inside(up, f"cat {shown}/live.py").stdout == (shown / "live.py").read_text()
        for place in ("/", "/opt/tare", str(shown)):
            assert inside(up, f"touch {place}/tare-was-here", check=False).status != 0, place
        inside(up, "touch /tmp/tare-was-here /dev/shm/tare-was-here")
        assert Path(f"/proc/{node.pid}/root/tmp/tare-was-here").exists()
        assert Path(f"/proc/{node.pid}/root/dev/shm/tare-was-here").exists()
    assert not (image.rootfs / str(shown).lstrip("/")).exists(), "the image in the cache was written to"
