"""Services of a launch: sshd with a key of its own, daemons that are waited for, Docker's images."""

from __future__ import annotations

import json
import os
import shutil
import socket
import socketserver
import stat
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace

import pytest

from nodes import make_node, make_pod
from tare.daemons import certificate, ssh
from tare.daemons.daemons import AGENT, TAIL_CHARACTERS, Daemon, Place, command
from tare.daemons.docker_api import keep_newest_images
from tare.errors import InfrastructureError
from tare.model import Control, Environment, Launching, Placement, Share, Sides
from tare.runtimes import RUNTIMES
from tare.study.plan import composition
from tare.system.node import Node, Pod
from tare.system.node.cgroups import Group, Hierarchy

NODE = make_node()


def pod(name: str, *, own_network: bool) -> Pod:
    return make_pod(NODE, name=name, runtime="docker", pid=os.getpid(), own_network=own_network)


def host(name: str, address: str = "10.0.0.1", port: int = 22) -> ssh.SshHost:
    return ssh.SshHost(name=name, address=address, port=port, pod=pod(name, own_network=True))


def settings(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.strip():
            key, value = line.split(maxsplit=1)
            found.setdefault(key, []).append(value)
    return found


def test_a_daemon_takes_only_this_launch_s_key_and_a_session_the_image_s_environment() -> None:
    said = settings(ssh.daemon_config(host("d0", "10.215.3.100"), Path("/keys"), {}))
    assert said["ListenAddress"] == ["10.215.3.100:22"]
    assert (said["AuthorizedKeysFile"], said["HostKey"]) == (["/keys/user.pub"], ["/keys/host"])
    for refused in ("PasswordAuthentication", "KbdInteractiveAuthentication", "AllowTcpForwarding", "X11Forwarding"):
        assert said[refused] == ["no"]
    given = {"PATH": "/opt/mpi/bin:/usr/bin", "HOME": "/nowhere", "HOSTNAME": "x", "A": "two words", "B": 'a "quote"'}
    (line,) = settings(ssh.daemon_config(host("d0"), Path("/keys"), given))["SetEnv"]
    assert line == '"A=two words" "PATH=/opt/mpi/bin:/usr/bin"'
    assert "SetEnv" not in ssh.daemon_config(host("d0"), Path("/keys"), {})
    assert ssh.known_hosts([host("d0"), host("d1")], "ssh-ed25519 KEY tare\n") == (
        "d0 ssh-ed25519 KEY\nd1 ssh-ed25519 KEY\n"
    )


def test_the_client_finds_each_host_by_its_alias_and_trusts_the_pinned_key_alone() -> None:
    text = ssh.client_config([host("d0", "10.0.0.1", 9100), host("d1", "10.0.0.2", 9101)], Path("/keys"))
    shown = subprocess.run(
        ["ssh", "-G", "-F", "/dev/stdin", "d1"], input=text, capture_output=True, text=True, check=True
    )
    said = settings(shown.stdout)
    assert (said["hostname"], said["port"], said["hostkeyalias"]) == (["10.0.0.2"], ["9101"], ["d1"])
    assert (said["stricthostkeychecking"], said["userknownhostsfile"]) == (["true"], ["/keys/known_hosts"])
    assert (said["identitiesonly"], said["batchmode"]) == (["yes"], ["yes"])


def test_keys_are_new_in_each_launch_private_and_gone_after_it(tmp_path: Path) -> None:
    seen = []
    for _ in range(2):
        with ssh.prepared(tmp_path / "ssh-0"):
            for name in ("user", "host"):
                assert stat.S_IMODE((tmp_path / "ssh-0" / name).stat().st_mode) == 0o600
            assert os.access(tmp_path / "ssh-0" / ssh.AGENT_NAME, os.X_OK)
            seen.append((tmp_path / "ssh-0" / "user.pub").read_text())
        assert not (tmp_path / "ssh-0").exists()
    assert seen[0] != seen[1]


def test_ports_are_the_papers_and_those_after_it_where_launches_share_an_address(tmp_path: Path) -> None:
    folders = [tmp_path / f"ssh-{slot}" for slot in range(3)]
    found = []
    for folder in folders:
        folder.mkdir()
        port = ssh.port_of(pod("p", own_network=False), "10.213.0.1", folder)
        (folder / "sshd-n0").write_text(ssh.daemon_config(host("n0", "10.213.0.1", port), folder, {}))
        found.append(port)
    assert found == [9100, 9101, 9102]
    assert ssh.port_of(pod("p", own_network=True), "10.215.0.100", folders[0]) == 22
    assert ssh.port_of(pod("p", own_network=False), "10.213.0.2", folders[0], 2222) == 2222
    shutil.rmtree(folders[0])
    assert ssh.port_of(pod("p", own_network=False), "10.213.0.1", folders[1]) == 9100


def test_a_port_on_which_something_listens_is_seen_and_a_free_one_is_not() -> None:
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::")):
        with socket.socket(family) as server:
            server.bind((address, 0))
            port = server.getsockname()[1]
            assert not ssh.listens(os.getpid(), port), "bound, and not listening yet"
            server.listen()
            assert ssh.listens(os.getpid(), port)


def refusal(runtime: str, way: str, placement: Placement | None = None, network: str = "host", **more: object) -> str:
    image = "debian-openmpi" if RUNTIMES[runtime].needs_image else ""
    wanted = Environment(name="e", runtime=runtime, network=network, image=image, launch=Launching(way), **more)  # type: ignore[arg-type]
    return composition.refuse(wanted, placement or Placement()) or ""


TWO_EACH = Placement(ranks_per_node=2, containers_per_node=2)
OWN_PODS = Placement(ranks_per_node=2, containers_per_node=2, share=Share.NONE)


@pytest.mark.parametrize("runtime", ["bare", "docker", "podman", "apptainer", "apptainer-sif", "apptainer-instance"])
def test_ssh_goes_where_an_sshd_has_the_rights_it_gives_up(runtime: str) -> None:
    assert refusal(runtime, "ssh") == ""
    assert refusal(runtime, "ssh", network="bridge", control=Control.DATA) == ""


@pytest.mark.parametrize(
    ("runtime", "way", "placement", "more", "said"),
    [
        ("apptainer-sif-squashfuse", "ssh", None, {}, "lacks the privileges to run sshd: use launch: hybrid"),
        ("charliecloud", "ssh", None, {}, "lacks the privileges to run sshd"),
        ("docker", "ssh", TWO_EACH, {}, "ssh reaches a pod and not the containers in it: use share: none"),
        ("docker", "ssh", None, {"sides": Sides.SENDER}, "one side only is launched with exec, not with ssh"),
        ("docker", "hybrid", None, {}, "which enter them: use launch: daemon"),
        ("bare", "daemon", None, {}, "launch: daemon needs containers, which bare does not make"),
        ("bare", "host-mpi", None, {}, "launch: host-mpi needs containers"),
        ("docker", "host-mpi", TWO_EACH, {}, "launch: host-mpi runs the daemon in the pod's only container"),
        ("docker", "exec", None, {"control": Control.DATA}, "control: data needs launch: ssh"),
        ("docker", "daemon", None, {"ssh_port": 9100}, "ssh_port has no effect with launch: daemon"),
        ("docker", "daemon", OWN_PODS, {"network": "bridge"}, "use share: pod"),
    ],
)
def test_what_cannot_be_launched_is_refused_with_what_can(
    runtime: str, way: str, placement: Placement | None, more: dict[str, object], said: str
) -> None:
    assert said in refusal(runtime, way, placement, **more)  # type: ignore[arg-type]


def place_in(folder: Path) -> Place:
    group = Group(path="lab/n1", hierarchies=(Hierarchy(mountpoint=Path("/cg"), version=2),))
    return Place(node=make_node(1, group=group), pid=os.getpid(), folder=str(folder))


def daemon(folder: Path, status: int | None) -> Daemon:
    """Return a daemon that runs, or has ended with a status."""
    return Daemon(name="thing", place=place_in(folder), process=SimpleNamespace(poll=lambda: status))  # type: ignore[arg-type]


@pytest.mark.parametrize(("status", "looks"), [(None, (None, None, "here")), (0, ("here",))])
def test_what_a_daemon_brings_is_returned(status: int | None, looks: tuple[str | None, ...], tmp_path: Path) -> None:
    seen = iter(looks)
    assert daemon(tmp_path, status).wait_for(lambda: next(seen), "an answer", limit_s=600) == "here"


def test_a_daemon_that_ended_or_does_nothing_is_told(tmp_path: Path) -> None:
    (tmp_path / "thing.log").write_text("x" * 5000 + "no such device\n")
    with pytest.raises(InfrastructureError, match=r"thing on n1 exited without an answer: x+no such device$") as told:
        daemon(tmp_path, 1).wait_for(lambda: None, "an answer", limit_s=600)
    assert len(told.value.message) < TAIL_CHARACTERS + 100
    (tmp_path / "thing.log").unlink()
    with pytest.raises(InfrastructureError, match=r"still runs without a subnet after 0.05 s: no output"):
        daemon(tmp_path, None).wait_for(lambda: None, "a subnet", limit_s=0.05)


def test_a_daemon_is_started_in_its_cgroup_and_in_all_namespaces_of_its_place(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    argv = command(place, place.node.group.below("thing"), ("/x/thing", "--now"))
    entry = json.loads(argv[argv.index("--entry") + 1])
    assert entry == {"cgroups": ["/cg/tare/lab/n1/thing"], "argv": ["nsenter", "-t", str(os.getpid()), "--all", "--"]}
    assert str(AGENT) in argv
    assert argv[-3:] == ("--", "/x/thing", "--now")


class Images(socketserver.ThreadingUnixStreamServer):
    """A daemon that has images, by the time of their import."""

    created: dict[str, int]


class Handler(BaseHTTPRequestHandler):
    """List and remove images."""

    server: Images

    def do_GET(self) -> None:
        self._answer([{"Id": name, "Created": created} for name, created in self.server.created.items()])

    def do_DELETE(self) -> None:
        del self.server.created[self.path.removeprefix("/images/").removesuffix("?force=true")]
        self._answer([])

    def address_string(self) -> str:
        return "a client"

    def log_message(self, *arguments: object) -> None:
        """Write nothing."""

    def _answer(self, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def dockerd(tmp_path: Path) -> Iterator[Images]:
    with Images(str(tmp_path / "docker.sock"), Handler) as server:
        server.created = {"sha256:old": 10, "sha256:newest": 40, "sha256:new": 30, "sha256:older": 5}
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def node_of(server: Images) -> Node:
    return replace(make_node(0), docker_socket=str(server.server_address))


@pytest.mark.parametrize(
    ("count", "stay"),
    [(2, {"sha256:newest", "sha256:new"}), (4, {"sha256:old", "sha256:newest", "sha256:new", "sha256:older"})],
)
def test_the_images_that_were_imported_last_stay(dockerd: Images, count: int, stay: set[str]) -> None:
    keep_newest_images(node_of(dockerd), count)
    assert set(dockerd.created) == stay


def test_keys_of_daemons_are_the_caller_s_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate, "run", lambda argv, what: (tmp_path / "a" / certificate.CERTIFICATE).touch())
    certificate.make(tmp_path / "a", "/CN=x", ("10.213.0.1",))
    certificate.copy(tmp_path / "a", tmp_path / "b")
    for folder in (tmp_path / "a", tmp_path / "b"):
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / certificate.KEY)]
        assert modes == [0o700, 0o600]
