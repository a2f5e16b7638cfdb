"""How commands call a runtime, and what Docker and Charliecloud do with them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from nodes import make_node, make_request
from tare.errors import CommandFailed, InfrastructureError, RefusedError
from tare.networks import NETWORKS, find
from tare.networks.wiring.plug import Wiring
from tare.runtimes import RUNTIMES, apptainer, charliecloud, docker
from tare.runtimes.charliecloud import PREPARE, SHOW, Charliecloud, ch_run
from tare.runtimes.containers.request import PodRequest
from tare.system.node.cgroups import Group

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


LATE = (
    "docker run --detach on n0 failed (status 125): docker: Error response from daemon: attaching to network failed, "
    "make sure your network options are correct and check manager logs: context deadline exceeded"
)


class Daemon:
    """Fails to start containers as often as there are messages."""

    def __init__(self, *messages: str) -> None:
        self.left = list(messages)
        self.did: list[str] = []

    def run_docker(self, _node: object, *arguments: str, **_: object) -> None:
        self.did.append(arguments[0])
        if self.left:
            raise CommandFailed(self.left.pop(0), status=125)

    def remove(self, _node: object, name: str) -> None:
        self.did.append(f"remove {name}")


def started(monkeypatch: pytest.MonkeyPatch, *messages: str) -> tuple[Daemon, str]:
    """Return what the daemon was asked, and the error of making a pod."""
    daemon = Daemon(*messages)
    monkeypatch.setattr(docker.daemon, "run_docker", daemon.run_docker)
    monkeypatch.setattr(docker, "_remove", daemon.remove)

    def no_container(*_: object) -> int:
        raise InfrastructureError("it runs")

    monkeypatch.setattr(docker.daemon, "container_pid", no_container)
    request = make_request(make_node(pid=77))
    with pytest.raises(InfrastructureError) as error, RUNTIMES["docker"].pod(request):
        pass
    return daemon, error.value.message


def test_a_container_that_was_attached_too_late_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for late in (LATE, "docker: Could not attach to network x: context deadline exceeded"):
        daemon, message = started(monkeypatch, late)
        assert (message, daemon.did) == ("it runs", ["run", "remove tare-s-n0", "run", "remove tare-s-n0"])
    daemon, message = started(monkeypatch, *[LATE] * docker.TRIES)
    assert (message, daemon.did.count("run")) == (LATE, docker.TRIES)
    daemon, message = started(monkeypatch, "no such image")
    assert (message, daemon.did) == ("no such image", ["run", "remove tare-s-n0"])


def test_ch_run_is_told_apart_and_a_pod_with_a_hostname_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    argv = ch_run("/usr/bin/ch-run")
    assert argv[:3] == ("env", "USER=root", "/usr/bin/ch-run")
    assert "--set-env=PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin" in argv
    assert argv[-2:] == ("/run/tare-charliecloud/root", "--")
    assert "--cd=/" in argv
    assert "--cd=/home/u" in ch_run("/usr/bin/ch-run", cwd="/home/u")
    assert not {"--write", "-w", "--unsafe"} & set(argv)
    request = make_request(make_node(), wiring=Wiring.NODE, rootfs=None, host="n0c1")
    with pytest.raises(RefusedError, match="hostname"), Charliecloud().pod(request):
        pass
    monkeypatch.setattr(charliecloud, "find", lambda program: None)
    assert Charliecloud().probe() == "ch-run is not installed: apt-get install charliecloud-runtime"


@pytest.mark.parametrize("script", [PREPARE, SHOW])
def test_what_is_run_by_the_shell_is_a_sound_script(script: str) -> None:
    assert subprocess.run(["/bin/sh", "-n", "-c", script], check=False, capture_output=True).stderr == b""
    if shutil.which("shellcheck"):
        told = subprocess.run(
            ["shellcheck", "--shell=sh", "-"], input=script, text=True, capture_output=True, check=False
        )
        assert told.stdout == ""


@pytest.mark.parametrize(("limit", "usable"), [("0\n", False), ("15000\n", True), (None, True)])
def test_a_machine_without_user_namespaces_is_told_apart(
    limit: str | None, usable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(charliecloud, "find", lambda program: f"/usr/bin/{program}")
    monkeypatch.setattr(charliecloud, "LIMIT", tmp_path / "max_user_namespaces")
    if limit is not None:
        (tmp_path / "max_user_namespaces").write_text(limit)
    reason = Charliecloud().probe()
    assert (reason is None) is usable
    assert usable or "max_user_namespaces" in str(reason)
