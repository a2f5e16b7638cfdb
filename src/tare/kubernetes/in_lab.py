"""Have a real Kubernetes on the nodes of a lab, with flannel as the network of its pods.

flanneld is the real one and takes each node's subnet from the API server (`kube-subnet-mgr`). Its CNI plug-in is not to
be had; pods are wired by CNI's bridge plug-in, with the subnet and MTU that flanneld writes, as that plug-in delegates.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tare.errors import MissingTool
from tare.host.paths import cache_folder
from tare.host.process import run
from tare.images.cache import locked, silent, write_atomically
from tare.images.inside import archive
from tare.kubernetes import api
from tare.networks import flannel
from tare.node import Node
from tare.services import kubernetes
from tare.services.daemons import Daemon, Place, run_daemon
from tare.services.forward import LOOPBACK, forwarded
from tare.services.kubernetes import FOLDER, Kubernetes, User
from tare.wiring.plug import CNI_VERSION

SOURCE: Final = Path(__file__).with_name("pause.c")
NETWORKS: Final = f"{FOLDER}/cni"
SUBNET_FILE: Final = "subnet.env"
SERVER_NAME: Final = "kubernetes.default.svc"
"""A name in the API server's certificate, whatever the address is by which it is reached."""
LIMIT_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LabKubernetes:
    """A Kubernetes that is up; `kubeconfig` is a file by which this machine reaches it."""

    kubernetes: Kubernetes
    kubeconfig: Path
    api: api.Api
    daemons: tuple[Daemon, ...]

    def import_image(self, archive_: Path) -> None:
        """Import a Docker archive on every node: a lab has no registry."""
        for each in self.kubernetes.containerds:
            each.import_image(archive_)


def probe() -> str | None:
    """Return what a Kubernetes in a lab needs and this machine lacks, or None."""
    return kubernetes.probe() or flannel.probe_programs("vxlan")


@contextmanager
def running(
    nodes: Sequence[Node], folder: Path, *, backend: str = "vxlan", users: Sequence[User] = ()
) -> Iterator[LabKubernetes]:
    """Keep a Kubernetes running on a lab's nodes, all of them ready; `folder` is the run's, for the kubeconfig.

    `users` are further users; the administrator's is the kubeconfig.
    """
    if reason := probe():
        raise MissingTool(f"Kubernetes cannot be started: {reason}")
    with ExitStack() as stack:
        made = stack.enter_context(
            kubernetes.running(nodes, pause_archive=pause_archive(), networks={"": NETWORKS}, users=users)
        )
        made.wait_for_subnets()
        daemons = tuple(stack.enter_context(_flanneld(node, backend)) for node in nodes)
        for daemon in daemons:
            _write_network(daemon)
        made.wait()
        port = stack.enter_context(forwarded(nodes[0].pid, made.address, kubernetes.PORT))
        file = folder / "kubeconfig"
        file.touch(mode=0o600)
        file.write_text(json.dumps(reached_at(made.kubeconfig(), port)))
        client = api.opened(str(file))
        stack.callback(client.close)
        yield LabKubernetes(kubernetes=made, kubeconfig=file, api=client, daemons=daemons)


def pause_archive() -> Path:
    """Return a Docker archive with the image of pods' first container; compile its program first if it is missing."""
    source = SOURCE.read_bytes()
    place = cache_folder() / "kubernetes" / archive.sha256_of(SOURCE)[:32]
    if not (place / "pause.tar").exists():
        with locked(place, what="the image of pods' first container", progress=silent):
            if not (place / "pause.tar").exists():
                with write_atomically(place) as work:
                    _make_pause(source, work)
    return place / "pause.tar"


def _make_pause(source: bytes, work: Path) -> None:
    (work / "pause.c").write_bytes(source)
    options = ("-static", "-Os", "-s", "-Wall", "-Wextra", "-Werror")
    run(("gcc", *options, "-o", str(work / "pause"), str(work / "pause.c")), what="compiling the pause program")
    with tarfile.open(work / "layer.tar", "w", format=tarfile.GNU_FORMAT) as layer:
        member = tarfile.TarInfo("pause")
        member.mode, member.size = 0o755, (work / "pause").stat().st_size
        with (work / "pause").open("rb") as program:
            layer.addfile(member, program)
    configuration = archive.config(archive.sha256_of(work / "layer.tar"), (), {"tare": "pause"})
    configuration["config"] = {"Entrypoint": ["/pause"]}
    archive.write_docker_archive(work / "pause.tar", work / "layer.tar", configuration, kubernetes.SANDBOX_IMAGE)


def reached_at(configuration: dict[str, Any], port: int) -> dict[str, Any]:
    """Return a client's configuration for a server that is reached at a port of this machine."""
    (cluster,) = configuration["clusters"]
    there = {"server": f"https://{LOOPBACK}:{port}", "tls-server-name": SERVER_NAME}
    return {**configuration, "clusters": [{**cluster, "cluster": {**cluster["cluster"], **there}}]}


@contextmanager
def _flanneld(node: Node, backend: str) -> Iterator[Daemon]:
    """Keep a flanneld running on a node, between the nodes' first data NICs."""
    place = Place(node=node, pid=node.pid, folder=f"{FOLDER}/flannel")
    place.path().mkdir(parents=True, exist_ok=True)
    network = {"Network": kubernetes.PODS, "Backend": {"Type": backend}}
    place.path("network.json").write_text(json.dumps(network))
    with run_daemon(place, "flanneld", flanneld(node, place.folder)) as daemon:
        yield daemon


def flanneld(node: Node, folder: str) -> tuple[str, ...]:
    """Return the argv of a node's flanneld; pods see each other's own addresses (no masquerade)."""
    return (
        "env", f"NODE_NAME={node.name}", flannel.flanneld() or "", "-kube-subnet-mgr",
        f"-kubeconfig-file={FOLDER}/kubeconfig", f"-net-config-path={folder}/network.json",
        f"-iface={node.nics[0].name}", f"-subnet-file={folder}/{SUBNET_FILE}", "-ip-masq=false",
        f"-iptables-resync={flannel.RESYNC_S}", "-healthz-port=0",
    )  # fmt: skip


def _write_network(daemon: Daemon) -> None:
    """Write the configuration of the node's pod network, once flanneld has told its subnet."""
    place = daemon.place
    lease = daemon.wait_for(lambda: _lease(place), "a subnet", limit_s=LIMIT_S)
    folder = Path(f"/proc/{place.pid}/root{NETWORKS}")
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / ".tare"
    unfinished.write_text(json.dumps(network(lease)))
    unfinished.rename(folder / "10-flannel.conflist")


def network(lease: flannel.Lease) -> dict[str, Any]:
    """Return the configuration of a node's pod network: what flannel's CNI plug-in delegates to the bridge plug-in."""
    ranges = [[{"subnet": str(lease.gateway.network)}]]
    return {
        "cniVersion": CNI_VERSION,
        "name": "cbr0",
        "plugins": [
            {
                "type": "bridge",
                "bridge": flannel.BRIDGE,
                "isGateway": True,
                "ipMasq": False,
                "hairpinMode": True,
                "mtu": lease.mtu,
                "ipam": {"type": "host-local", "ranges": ranges, "routes": [{"dst": kubernetes.PODS}]},
            }
        ],
    }


def _lease(place: Place) -> flannel.Lease | None:
    try:
        return flannel.read_lease(place.path(SUBNET_FILE).read_text())
    except OSError:
        return None
