"""Run Docker daemons on the lab's nodes: one dockerd a node, in the node's namespaces and cgroup, joined in a Swarm.

A daemon's last images are kept between studies in a cache folder, because importing a root file system takes seconds.
Containers, networks and the Swarm's state are not kept.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from tare.daemons import certificate, docker_api, etcd
from tare.daemons.daemons import Place, command
from tare.errors import InfrastructureError, MissingTool, RefusedError
from tare.system.node import Node
from tare.system.node.owners import NOTE, boot_id, read_note, this_boot
from tare.system.packages import install
from tare.system.paths import cache_folder, state_identity
from tare.system.process import Popen, Result, beside, find, need, run, start
from tare.system.safe_files import check_only_root_changes
from tare.system.user_namespace import is_real_root

SYSTEM_SOCKET: Final = "/var/run/docker.sock"
"""Where the daemon of the system listens."""
NODE_SOCKET: Final = "/run/docker.sock"
"""Where a lab's daemon listens, as its node sees it."""
START_LIMIT_S: Final = 120.0
DOCKER_BRIDGE: Final = "10.216.0.1/24"
TRANSIENT: Final = ("containers", "network", "swarm", "volumes", "plugins", "runtimes", "tmp", "trust")
KEPT_IMAGES: Final = 5
"""How many images a daemon keeps for later studies: one for each MPI. A study may import more."""
STAYS: Final = "stays-"
FIRST_PROCESS: Final = ("inspect", "--format", "{{.State.Pid}}")
"""Asks for the number of a container's first process, as the daemon or the node sees it; 0: it does not run."""
STORE: Final = "/run/tare-etcd"
"""The folder, on every node, of the store and of the certificate by which daemons reach it."""
ADVERTISED_PORT: Final = 2376
"""Port of the address that a daemon advertises to the others through a store; nothing listens there."""


def probe() -> str | None:
    """Return why Docker is not available here, or None."""
    if not is_real_root():
        return "a Docker daemon in a node needs root"
    if find("dockerd") is None:
        return f"dockerd is not installed: {install('docker.io')}"
    if find("docker") is None:
        return f"the docker client is not installed: {install('docker.io')}"
    return None


def probe_machine(socket: str = SYSTEM_SOCKET) -> str | None:
    """Return why this user cannot use the daemon of this machine, or None."""
    if find("docker") is None:
        return f"the docker client is not installed: {install('docker.io')}"
    if not Path(socket).exists():
        return f"no Docker daemon listens on {socket}: have an administrator start it (systemctl start docker)"
    if not os.access(socket, os.R_OK | os.W_OK):
        return (
            f"this user may not use {socket}: have an administrator add it to the group docker, which gives it root's "
            "rights on this machine, or use podman-rootless"
        )
    return None


def run_docker(
    node: Node, *arguments: str, check: bool = True, timeout_s: float = 60.0, stdin: str | None = None
) -> Result:
    """Run the docker client against a node's daemon."""
    what = f"docker {' '.join(arguments[:2])} on {node.name}"
    return run(client(node, *arguments), check=check, timeout_s=timeout_s, what=what, stdin=stdin)


def client(node: Node, *arguments: str) -> tuple[str, ...]:
    """Return the argv of a client of a node's daemon."""
    return (need("docker", package="docker.io"), "-H", f"unix://{node.docker_socket}", *arguments)


@contextmanager
def daemons(
    nodes: Sequence[Node], *, log_folder: Path, swarm: bool, store: bool = False, options: tuple[str, ...] = ()
) -> Iterator[tuple[Node, ...]]:
    """Keep a daemon running on every node, in a Swarm or with a store; yield the nodes with their sockets."""
    if swarm and store:
        raise RefusedError("Docker daemons with a key-value store cannot join a Swarm")
    if reason := probe():
        raise MissingTool(f"Docker cannot be used: {reason}")
    with ExitStack() as stack:
        roots = [stack.enter_context(_root_folder(node.index)) for node in nodes]
        url = stack.enter_context(_store(nodes)) if store else ""
        started = [
            stack.enter_context(_daemon(node, root, log_folder, (*cluster_options(url, node), *options)))
            for node, root in zip(nodes, roots, strict=True)
        ]
        ready = tuple(_wait_until_ready(*pair, log_folder) for pair in zip(nodes, started, strict=True))
        for node in ready:
            docker_api.keep_newest_images(node, KEPT_IMAGES)
        if swarm:
            _join_swarm(ready)
        yield ready


def start_staying(lab: str, nodes: Sequence[Node], *, log_folder: Path) -> tuple[Node, ...]:
    """Start daemons that outlive this command, joined in a Swarm; killing their cgroup stops them."""
    if reason := probe():
        raise MissingTool(f"Docker cannot be used: {reason}")
    started = []
    for node in nodes:
        root = data_folder() / f"{STAYS}{lab}-{node.name}"
        if _is_of_another_tare(root):
            raise InfrastructureError(
                f"{root} belongs to a lab {lab} of another tare, in a container or outside of this one",
                remedy="choose another name with --name",
            )
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir()
        (root / NOTE).write_text(json.dumps({"boot_id": boot_id(), "state": state_identity()}))
        started.append(start(_command(node, root), log=_log(log_folder, node)))
    ready = tuple(_wait_until_ready(*pair, log_folder) for pair in zip(nodes, started, strict=True))
    _join_swarm(ready)
    return ready


def data_folder() -> Path:
    """Return the folder of all data folders, and create it if missing; nodes with a daemon must see it."""
    folder = cache_folder() / "docker"
    check_only_root_changes(folder, "cache")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def remove_staying(lab: str) -> None:
    """Remove the data folders of a lab's daemons, which belong to it alone; containers may share the cache."""
    for folder in (cache_folder() / "docker").glob(f"{STAYS}{lab}-*"):
        if not _is_of_another_tare(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_of_another_tare(root: Path) -> bool:
    note = read_note(root / NOTE)
    return this_boot(note) and str(note.get("state", state_identity())) != state_identity()


def import_image(node: Node, tar: Path, tag: str) -> None:
    """Import a root file system into a node's daemon if that does not have it."""
    if not docker_api.image_present(node, tag):
        label = ("--change", "LABEL tare=image") if node.is_machine else ()
        changes = (*label, "--change", "ENV PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
        run_docker(node, "import", *changes, str(tar), tag, timeout_s=300)


def container_pid(node: Node, container: str) -> int:
    """Return the number of a container's first process on this machine."""
    return told_pid(node, container, run_docker(node, *FIRST_PROCESS, container).stdout)


def told_pid(node: Node, container: str, told: str) -> int:
    """Return the same from what a client has told of a container (`FIRST_PROCESS`)."""
    inside = int(told)
    if inside == 0:
        raise InfrastructureError(f"the container {container} on {node.name} is not running")
    return outer_pid(node, inside)


def outer_pid(node: Node, inside: int) -> int:
    """Translate a process number of a node's pid namespace into this machine's."""
    if node.is_machine:
        return inside
    if os.readlink(f"/proc/{node.pid}/ns/pid") == os.readlink("/proc/self/ns/pid"):
        return inside
    status = Path(f"/proc/{node.pid}/root/proc/{inside}/ns/mnt")
    wanted = os.stat(status)
    for pid in node.group.pids():
        if _inner_pid(pid) == inside:
            try:
                if os.stat(f"/proc/{pid}/ns/mnt").st_ino == wanted.st_ino:
                    return pid
            except FileNotFoundError:
                continue
    raise InfrastructureError(f"process {inside} of {node.name} is gone")


def _inner_pid(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    numbers = text.partition("NSpid:")[2].partition("\n")[0].split()
    return int(numbers[1]) if len(numbers) > 1 else 0


@contextmanager
def _root_folder(index: int) -> Iterator[Path]:
    """Lend a cached data folder that no other lab uses."""
    for slot in range(64):
        root = data_folder() / f"n{index}-{slot}"
        root.mkdir(exist_ok=True)
        with (root.parent / f"{root.name}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            _forget(root)
            try:
                yield root
            finally:
                _forget(root)
            return
    raise InfrastructureError(
        "64 labs use Docker's cached data folders", remedy="end some of them; `tare clean` removes those of killed runs"
    )


def _forget(root: Path) -> None:
    """Remove everything but the images that a former daemon left in its folder."""
    for name in TRANSIENT:
        shutil.rmtree(root / name, ignore_errors=True)


@contextmanager
def _daemon(node: Node, root: Path, log_folder: Path, options: tuple[str, ...]) -> Iterator[Popen[str]]:
    try:
        with beside(_command(node, root, options), log=_log(log_folder, node), grace_s=0.1) as process:
            yield process
    finally:
        _stop_everything(node)


def _log(folder: Path, node: Node) -> Path:
    return folder / f"dockerd-{node.name}.log"


def _command(node: Node, root: Path, options: tuple[str, ...] = ()) -> tuple[str, ...]:
    # No cgroup parent is named: the node's cgroup namespace makes the node's group the root of Docker's groups.
    config = root / "daemon.json"
    config.write_text("{}")
    return command(Place(node=node, pid=node.pid, folder=""), node.group.leaf, (
        need("dockerd", package="docker.io"),
        "--config-file", str(config), "--data-root", str(root), "--exec-root", "/run/docker",
        "--pidfile", "/run/docker.pid", "--host", f"unix://{NODE_SOCKET}", "--storage-driver", "overlay2",
        "--log-level", "warn", "--userland-proxy=false", "--label", "tare=lab", "--bip", DOCKER_BRIDGE, *options,
    ))  # fmt: skip


@contextmanager
def _store(nodes: Sequence[Node]) -> Iterator[str]:
    """Keep an etcd on the first node for all daemons; yield its location."""
    first, *others = (Place(node=node, pid=node.pid, folder=STORE) for node in nodes)
    certificate.make(first.path(), "/CN=tare", [first.node.control_address])
    for other in others:
        certificate.copy(first.path(), other.path())
    with etcd.running(first, first.node.control_address, version_2=True) as store:
        store.wait()
        yield store.url


def cluster_options(url: str, node: Node) -> tuple[str, ...]:
    """Return the options for a daemon that keeps overlays in a store; "": none.

    The daemon is reached over the data NIC.
    """
    if not url:
        return ()
    keys = [(name.replace("cafile", "cacertfile"), file) for name, file in certificate.FILES.items()]
    return (
        "--cluster-store", f"etcd://{url.removeprefix('https://')}",
        *(word for name, file in keys for word in ("--cluster-store-opt", f"kv.{name}={STORE}/{file}")),
        "--cluster-advertise", f"{node.nics[0].name}:{ADVERTISED_PORT}",
    )  # fmt: skip


def _stop_everything(node: Node) -> None:
    """Kill the daemon, its containers and helpers, but keep the node."""
    if Path(f"/proc/{node.pid}").exists():
        node.group.kill(spare={node.pid})


def _wait_until_ready(node: Node, daemon: Popen[str], log_folder: Path) -> Node:
    ready = replace(node, docker_socket=f"/proc/{node.pid}/root{NODE_SOCKET}")
    until = time.monotonic() + START_LIMIT_S
    while not Path(ready.docker_socket).exists() or not docker_api.daemon(ready).answers("/version"):
        if daemon.poll() is not None or time.monotonic() > until:
            how = f"is not ready after {START_LIMIT_S:g} s" if daemon.poll() is None else "exited while starting"
            tail = _tail(_log(log_folder, node))
            raise InfrastructureError(
                f"dockerd on {node.name} {how}: {tail}",
                remedy="leave the docker environments out of the study, or make `dockerd` start on this machine",
            )
        time.sleep(0.02)
    return ready


def _tail(path: Path) -> str:
    return path.read_text(errors="replace")[-600:].strip() if path.exists() else "no log"


def begin_swarm(manager: Node) -> str:
    """Make a node the manager of a new Swarm; return the token with which others join."""
    run_docker(
        manager, "swarm", "init", "--advertise-addr", manager.control_address,
        "--data-path-addr", manager.nics[0].address, "--listen-addr", f"{manager.control_address}:2377",
    )  # fmt: skip
    return run_docker(manager, "swarm", "join-token", "-q", "worker").stdout.strip()


def join_swarm(node: Node, manager_address: str, token: str) -> None:
    """Make a node join the Swarm of a manager."""
    run_docker(
        node, "swarm", "join", "--token", token, "--advertise-addr", node.control_address,
        "--data-path-addr", node.nics[0].address, f"{manager_address}:2377",
    )  # fmt: skip


def _join_swarm(nodes: Sequence[Node]) -> None:
    token = begin_swarm(nodes[0])
    for node in nodes[1:]:
        join_swarm(node, nodes[0].control_address, token)
