"""How commands on a node call each runtime: its program, the daemon of that node, and the image."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodes import make_node, make_request
from tare.containers.request import PodRequest
from tare.networks import NETWORKS, find
from tare.node.cgroups import Group
from tare.runtimes import RUNTIMES, apptainer, docker
from tare.wiring.plug import Wiring

LAB = make_node(pid=77, docker_socket="/proc/77/root/run/docker.sock")
MACHINE = make_node(pid=0, group=Group(path="", hierarchies=()), docker_socket="/var/run/docker.sock")


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker, "need", lambda name, **_: f"/usr/bin/{name}")
    monkeypatch.setattr(apptainer, "find_program", lambda: "/opt/tare/apptainer/bin/apptainer")


def request(**more: object) -> PodRequest:
    return make_request(LAB, image_tag="tare/debian:1", packed=Path("/cache/image.sif"), **more)


@pytest.mark.parametrize("name", RUNTIMES)
def test_a_runtime_has_the_programs_that_it_says_and_an_image(name: str) -> None:
    client = RUNTIMES[name].client(request())
    assert set(client.programs) == set(RUNTIMES[name].clients)
    assert client.words["image"]
    assert bool(client.holds) == (bool(client.programs) and RUNTIMES[name].needs_daemon)


def test_commands_reach_the_daemon_of_their_node_and_name_the_image_of_containers() -> None:
    client = RUNTIMES["docker"].client(request())
    assert client.variables == {"DOCKER_HOST": "unix:///run/docker.sock"}
    assert client.words == {"image": "tare/debian:1"}
    assert client.holds == ("docker", "container", "inspect", "tare-s-n0")
    of_machine = RUNTIMES["docker"].client(make_request(MACHINE, image_tag="tare/debian:1"))
    assert of_machine.variables == {"DOCKER_HOST": "unix:///var/run/docker.sock"}
    assert RUNTIMES["apptainer-sif"].client(request()).words == {"image": "/cache/image.sif"}
    client = RUNTIMES["apptainer"].client(request())
    assert client.words == {"image": "/image/rootfs"}
    assert client.programs["singularity"] == client.programs["apptainer"] == "/opt/tare/apptainer/bin/apptainer"
    assert client.variables == {"APPTAINER_CONFIGDIR": "/tmp/tare-apptainer"}


@pytest.mark.parametrize("name", NETWORKS)
def test_docker_knows_the_networks_that_it_makes(name: str) -> None:
    network = find(name)
    assert bool(network.name_in_docker("s-0")) == (network.wiring is Wiring.DOCKER)
    if network.name_in_docker("s-0"):
        assert network.name_in_docker("s-0") in network.container_options(LAB, "s-0")
