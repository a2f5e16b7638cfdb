"""Ways of launching, for real: over ssh, one daemon a host, a container a rank, this machine's MPI in a container."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from integration.live import (
    by_environment,
    compiled,
    ended,
    lab_site,
    live,
    outcome,
    pids_of,
    selected,
    start,
    tare,
    wait_for,
    write_study,
)
from integration.node_state import argv_of
from integration.studies import watched
from tare.daemons import ssh
from tare.errors import InfrastructureError
from tare.model import Environment, Launching, Placement
from tare.run.deploy.pods import deployed
from tare.runtimes.containers.deployment import Files

pytestmark = live("docker", "podman", "charliecloud", "apptainer", "cni", "mmdebstrap", "sshd")

WAYS = {
    "bare": "{launch: ssh}",
    "bare+image+bridge": "{launch: ssh, control: data}",
    "docker": "{launch: ssh}",
    "docker+overlay": "{launch: ssh, control: data}",
    "podman+macvlan": "{launch: ssh}",
    "apptainer over ssh": "{runtime: apptainer, launch: ssh}",
    "sif over ssh": "{runtime: apptainer-sif, network: bridge, launch: ssh}",
    "instance over ssh": "{runtime: apptainer-instance, network: bridge, launch: ssh, control: data}",
    "docker daemon": "{runtime: docker, launch: daemon}",
    "podman daemon": "{runtime: podman, network: bridge, launch: daemon}",
    "apptainer": "{launch: hybrid}",
    "charliecloud": "{launch: hybrid}",
    "docker with the host's MPI": "{runtime: docker, launch: host-mpi}",
    "apptainer with the host's MPI": "{runtime: apptainer, launch: host-mpi}",
}
CANNOT = "charliecloud over ssh: {runtime: charliecloud, launch: ssh}"
OFTEN = {"podman+macvlan", "sif over ssh", "podman daemon", "charliecloud", "docker with the host's MPI"}
"""Ways that other runtimes have in `make test-live`, too, or this one in the smoke tests."""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Any:
    folder = tmp_path_factory.mktemp("ways")
    wanted = {"bare", "docker", *selected(request, "name")}
    ways = [f"{name}: {way}" for name, way in WAYS.items() if name in wanted]
    result, watch = watched(write_study(folder, "ways", f"{{{', '.join([*ways, CANNOT])}}}"))
    found = {name: each[0] for name, each in by_environment(folder / "results" / "ways").items()}
    return result, found, watch.left(result.lab)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.long] * (name in OFTEN)) for name in WAYS])
def test_every_way_runs_and_ranks_are_in_containers_however_they_came_there(name: str, ran: Any) -> None:
    result, found, left = ran
    assert outcome(found[name]) == "Completed", (found[name]["outcome"], result.stderr)
    if not name.startswith("bare"):
        own = {rank["namespaces"]["mnt"] for rank in found[name]["ranks"]}
        assert len(own) == 2
        assert not own & {rank["namespaces"]["mnt"] for rank in found["bare"]["ranks"]}
    assert left == [], "sshd, key or container"


def test_a_launcher_over_ssh_is_started_in_the_first_pod_and_no_other_way(ran: Any) -> None:
    argv = ran[1]["docker"]["argv"]
    assert argv[1] == "--entry"
    assert "mpirun" in argv
    assert not any("tare-agent" in word for word in argv[argv.index("mpirun") :])
    told = "charliecloud over ssh: unavailable, a pod of charliecloud lacks the privileges to run sshd"
    assert told in " ".join(ran[0].stdout.split()), "a way that cannot work is listed with what can"


# --- what is up meanwhile -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = compiled("where", tmp_path_factory.mktemp("app"))
    return made.rename(made.parent / "app")


def daemons(lab: str) -> list[int]:
    """Return the sshds of a lab that listen, without those of sessions."""
    return [pid for pid in pids_of(lab) if "sshd: " in (line := " ".join(argv_of(pid))) and "listener" in line]


WAITS = ["tail", "-f", "/dev/null"]


@pytest.fixture
def waiting(app: Path) -> Iterator[str]:
    """Run a job over ssh that waits, and return its lab."""
    process = start("launch", "--runtime", "docker", "--network", "overlay", "--nodes", "2", "-n", "2",
                    "--launch", "ssh", "--control", "data", "--", *WAITS, cwd=app.parent)  # fmt: skip
    lab = f"l{process.pid}"
    try:
        wait_for(lambda: sum(argv_of(pid) == WAITS for pid in pids_of(lab)) >= 2, "job that waits")
        yield lab
    finally:
        os.kill(process.pid, signal.SIGTERM)
        result = ended(process)
    assert result.status in (143, 137, 1), result.stderr
    assert pids_of(lab) == set()


def test_sshd_listens_inside_pods_alone_and_lets_no_other_key_in(waiting: str, tmp_path: Path) -> None:
    (folder,) = Path("/run/tare").glob(f"{waiting}-*/ssh-0")
    assert stat.S_IMODE((folder / "user").stat().st_mode) == 0o600
    # what a listener has forked for a session is named as itself for a moment
    found = wait_for(lambda: len(seen := daemons(waiting)) == 2 and seen, "two that listen, and no other")
    assert os.readlink("/proc/self/ns/net") not in {os.readlink(f"/proc/{pid}/ns/net") for pid in found}
    assert all(ssh.listens(pid, 22) for pid in found)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "other"], check=True)

    def to_d1(config: Path, command: str) -> subprocess.CompletedProcess[str]:
        argv = ["nsenter", f"--net=/proc/{found[0]}/ns/net", "--", "ssh", "-F", str(config), "d1", command]
        return subprocess.run(argv, capture_output=True, text=True, check=False)

    ours = to_d1(folder / "config", "echo hello; env")
    assert ours.stdout.startswith("hello\n"), ours.stderr
    assert "\nPATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin\n" in ours.stdout, (
        "not the image's, and not what sshd itself gives"
    )
    foreign = (folder / "config").read_text().replace(f"IdentityFile {folder}/user", f"IdentityFile {tmp_path}/other")
    (tmp_path / "config").write_text(foreign)
    refused = to_d1(tmp_path / "config", "true")
    assert refused.returncode == 255
    assert "Permission denied" in refused.stderr


def test_a_job_over_ssh_passes_its_status_on(app: Path) -> None:
    result = tare("launch", "--runtime", "docker", "--network", "bridge", "--containers-per-node", "2", "--share",
                  "none", "-n", "2", "--launch", "ssh", "--", "./app", "7", cwd=app.parent)  # fmt: skip
    assert result.status == 7, result.stderr
    said = [f"rank {rank} of 2 on d0c{rank} in {app.parent}" for rank in range(2)]
    assert sorted(result.stdout.splitlines()) == said, result.stderr


@pytest.mark.parametrize("runtime", ["apptainer", "apptainer-instance"])
def test_a_session_of_apptainer_has_the_variables_of_its_container(runtime: str, app: Path) -> None:
    command = ("sh", "-c", 'echo "$APPTAINER_CONTAINER $(hostname) $SSH_CLIENT"')
    result = tare("launch", "--runtime", runtime, "--nodes", "2", "-n", "2", "--launch", "ssh", "--", *command,
                  cwd=app.parent)  # fmt: skip
    assert result.status == 0, result.stderr
    of_first, of_second = (
        line.split() for line in sorted(result.stdout.splitlines(), key=lambda line: line.split()[1])
    )
    assert of_first[0] == of_second[0]
    assert of_first[0].endswith("/rootfs")
    assert len(of_first) == 2, "the first rank is the launcher's own child"
    assert len(of_second) == 5, "the second came through an sshd"


# --- bad input ----------------------------------------------------------------------------------------------------


def test_a_port_that_is_taken_is_named_with_its_host_and_the_way_out() -> None:
    wanted = Environment(name="e", runtime="bare", network="host", launch=Launching.SSH, ssh_port=9200)
    listen = "import socket; s = socket.create_server(('10.213.0.1', 9200)); print('up', flush=True); input()"
    with lab_site(nodes=1) as site:
        into = ("nsenter", f"--net=/proc/{site.nodes[0].pid}/ns/net", "--")
        files = Files(host_prefix=Path("/nowhere"))
        up = deployed(site, wanted, Placement(nodes=1), slot=0, nic=0, files=files)
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen([*into, sys.executable, "-c", listen], **pipes) as other:
            try:
                assert other.stdout is not None
                assert other.stdout.readline() == "up\n"
                with (
                    ExitStack() as stack,
                    pytest.raises(InfrastructureError, match="port 9200 of n0 is in use") as caught,
                ):
                    stack.enter_context(up)
            finally:
                other.kill()
        assert caught.value.remedy == "choose another one with ssh_port"
        assert not list(site.folder.glob("ssh-*"))


# --- this machine's MPI in an image that has another --------------------------------------------------------------


def test_the_hosts_mpi_runs_in_an_image_that_has_none_of_it(tmp_path: Path) -> None:
    images = {"openmpi": "debian-mpich", "mpich": "debian-openmpi"}
    listed = [
        f"{mpi}: {{runtime: bare, mpi: {mpi}}}, "
        f"{mpi} in docker: {{runtime: docker, network: bridge, mpi: {mpi}, image: {image}, launch: host-mpi}}"
        for mpi, image in images.items()
    ]
    result = tare("run", write_study(tmp_path, "borrowed", f"{{{', '.join(listed)}}}"), cwd=tmp_path)
    found = {name: each[0] for name, each in by_environment(tmp_path / "results" / "borrowed").items()}
    for mpi in images:
        inside = found[f"{mpi} in docker"]
        assert outcome(inside) == "Completed", (inside["outcome"], result.stderr)
        assert inside["mpi_library"] == found[mpi]["mpi_library"] != ""
