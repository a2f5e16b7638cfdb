"""Have a real Kubernetes on the nodes of a lab, with flannel's VXLAN as its pod network, and others beside it."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from tare.clusters.pods import admission, api, lab_networks
from tare.clusters.pods.lab_networks.model import LabNetwork
from tare.daemons import kubernetes
from tare.daemons.daemons import Daemon
from tare.daemons.forward import LOOPBACK, forwarded
from tare.daemons.kubernetes import KubernetesDaemons, User
from tare.errors import MissingTool
from tare.images.cache import ensure, silent
from tare.images.inside import archive
from tare.networks import flannel
from tare.networks.wiring.plug import probe_cni
from tare.system.node import Node
from tare.system.paths import cache_folder
from tare.system.process import run
from tare.system.safe_files import check_only_root_changes

SOURCE: Final = Path(__file__).with_name("pause.c")
RUNTIME_CLASSES: Final = "/apis/node.k8s.io/v1/runtimeclasses"
IMPORTED_AT_ONCE: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LabKubernetes:
    """A Kubernetes that is up; `kubeconfig` is a file by which this machine reaches it, `networks` are its pods'."""

    kubernetes: KubernetesDaemons
    kubeconfig: Path
    api: api.Api
    daemons: tuple[Daemon, ...]
    networks: tuple[LabNetwork, ...]

    def import_image(self, archive_: Path) -> None:
        """Import a Docker archive on every node, on some of them at the same time: a lab has no registry."""
        with ThreadPoolExecutor(max_workers=IMPORTED_AT_ONCE) as pool:
            list(pool.map(lambda each: each.import_image(archive_), self.kubernetes.containerds))


def probe() -> str | None:
    """Return what a Kubernetes in a lab needs and this machine lacks, or None."""
    return kubernetes.probe() or flannel.probe_programs("vxlan") or probe_cni("bridge", "ptp", "host-local")


@contextmanager
def running(
    nodes: Sequence[Node], folder: Path, *, runtime_classes: Collection[str] = (), users: Sequence[User] = ()
) -> Iterator[LabKubernetes]:
    """Keep a Kubernetes running on a lab's nodes, all of them ready; `folder` is the run's, for the kubeconfig.

    `runtime_classes` are those of `lab_networks.LAB_NETWORKS` that pods may have. `users` are further users; the
    administrator's is the kubeconfig.
    """
    if reason := probe():
        raise MissingTool(f"Kubernetes cannot be started: {reason}")
    networks = lab_networks.chosen(runtime_classes)
    folders = {each.runtime_class: each.folder for each in networks}
    with ExitStack() as stack:
        made = stack.enter_context(
            kubernetes.running(
                nodes,
                pause_archive=pause_archive(),
                networks=folders,
                users=users,
                addressed=any(each.alone for each in networks),
            )
        )
        daemons = [daemon for each in networks for daemon in stack.enter_context(each.running(nodes, made))]
        made.wait()
        port = stack.enter_context(forwarded(nodes[0].pid, made.address, kubernetes.PORT))
        file = folder / "kubeconfig"
        file.touch(mode=0o600)
        file.write_text(json.dumps(reached_at(made.kubeconfig(), port)))
        client = api.opened(str(file))
        stack.callback(client.close)
        made.create(admission.POLICIES, admission.policy())
        made.create(admission.BINDINGS, admission.binding())
        for each in networks:
            if each.runtime_class:
                client.ask("POST", RUNTIME_CLASSES, runtime_class(each.runtime_class))
        yield LabKubernetes(kubernetes=made, kubeconfig=file, api=client, daemons=tuple(daemons), networks=networks)


def runtime_class(name: str) -> dict[str, Any]:
    """Return the object by which pods are given to containerd's handler of the same name."""
    return {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": name}


def pause_archive() -> Path:
    """Return a Docker archive with the image of pods' first container; compile its program first if it is missing."""
    source = SOURCE.read_bytes()
    place = cache_folder() / "kubernetes" / archive.sha256_of(SOURCE)[:32]
    check_only_root_changes(place, "cache")
    made, what = place / "pause.tar", "the image of pods' first container"
    return ensure(
        place, lambda: made if made.exists() else None, partial(_make_pause, source), what=what, progress=silent
    )


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
    there = {"server": f"https://{LOOPBACK}:{port}", "tls-server-name": kubernetes.SERVER_NAME}
    return {**configuration, "clusters": [{**cluster, "cluster": {**cluster["cluster"], **there}}]}
