"""A hostile program in an ordinary pod of a lab's Kubernetes: on its node's network, and on the pod network."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from integration.live import lab_site, live
from integration.test_networks_flannel import CANNOT
from tare.clusters.lab_site import LabSite
from tare.clusters.pods import in_lab, manifests
from tare.clusters.pods.api import ApiError
from tare.clusters.pods.gate import ExecServer
from tare.clusters.pods.in_lab import LabKubernetes
from tare.clusters.pods.manifests import PodSpec
from tare.clusters.pods.pods import Pods
from tare.clusters.pods.session import ExecPool, PodContainer
from tare.daemons import kubernetes
from tare.images.build import ensure_image
from tare.images.convert import ensure_file, image_tag
from tare.images.recipe import service
from tare.networks import flannel
from tare.system.process import Result, run
from waiting import wait_until

pytestmark = [
    *live("kubernetes", "flannel", "etcd", "cni", "docker", "iptables"),
    pytest.mark.skipif(not flannel.BRIDGE_NETFILTER.exists(), reason=f"{CANNOT}br_netfilter is not loaded"),
]

NAMESPACE: Final = "tare-hostile"
ATTEMPTS: Final = Path(__file__).with_name("hostile_pod.py")
WENT_IN: Final = re.compile(r"[123]\d\d ")
MARK: Final = Path("/var/tare-hostile-was-here")
STREAMS: Final = re.compile(r"127\.0\.0\.1 \d{5}")
"""containerd's server of streams: a path that is valid once, for a minute, is all that it answers."""


def evil(**spec: Any) -> dict[str, Any]:
    """Return a pod that would write a file as root of the machine."""
    container: dict[str, Any] = {
        "name": "c", "image": "IMAGE", "imagePullPolicy": "Never",
        "command": ["/bin/sh", "-c", f"id > /host{MARK}; sleep 1000"],
        "volumeMounts": [{"name": "h", "mountPath": "/host"}],
    }  # fmt: skip
    rights = {"hostPID": True, "hostNetwork": True, "volumes": [{"name": "h", "hostPath": {"path": "/"}}]}
    container |= {"securityContext": {"privileged": True}}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "evil", "namespace": "default"},
        "spec": {"nodeName": "n0", "containers": [container], **rights, **spec},
    }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Up:
    """What the tests of this file share: a lab with a pod on each network of each node, none of which has a right."""

    site: LabSite
    kubernetes: LabKubernetes
    gate: ExecServer
    stranger: str

    def tries(self, pod: str, victim: str) -> dict[str, Any]:
        """Let a pod try everything; return what it got."""
        addresses = [node.control_address for node in self.site.nodes] + ["10.244.0.1", "10.244.1.1"]
        told = {"addresses": addresses, "victim": f"{NAMESPACE}/{victim}", "evil": evil(), "stranger": self.stranger}
        ended = self.run(pod, "python3", "-", json.dumps(told), stdin=ATTEMPTS.read_text())
        assert ended.status == 0, ended.stderr
        found: dict[str, Any] = json.loads(ended.stdout)
        return found

    def run(self, pod: str, *argv: str, stdin: str = "") -> Result:
        return run((*self.gate.argv(pod), *argv), stdin=stdin, check=False, timeout_s=300)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    image = ensure_image(service())
    stranger = tmp_path_factory.mktemp("stranger")
    argv = (
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "9",
        "-subj", f"/O=system:masters/CN={kubernetes.ADMINISTRATOR}",
        "-keyout", f"{stranger}/key", "-out", f"{stranger}/crt",
    )  # fmt: skip
    run(argv)
    with lab_site() as site, in_lab.running(site.nodes, site.folder) as made:
        made.import_image(ensure_file(image, "docker-archive").path)
        made.api.ask("POST", "/api/v1/namespaces", manifests.namespace(NAMESPACE, "test", {}))
        pods, gate = Pods(api=made.api, namespace=NAMESPACE), ExecServer(site.folder)
        names = {f"{kind}-{node.name}": node.name for kind in ("host", "pod") for node in site.nodes}
        for name, node in names.items():
            spec = PodSpec(
                name=name, namespace=NAMESPACE, run="test", slot=0, node=node, image=image_tag(image),
                node_image=image_tag(image), pull_policy="Never", host_network=name.startswith("host"),
            )  # fmt: skip
            assert pods.create(spec) == ()
        pods.wait(list(names))
        for name in names:
            gate.add(name, ExecPool(made.api, PodContainer(namespace=NAMESPACE, pod=name, name=manifests.RANKS)))
        try:
            both = "".join((stranger / name).read_text() for name in ("crt", "key"))
            yield Up(site=site, kubernetes=made, gate=gate, stranger=both)
        finally:
            for name in names:
                gate.remove(name)
            gate.close()


@pytest.mark.parametrize(("pod", "victim"), [("host-n0", "pod-n1"), ("host-n1", "pod-n0"), ("pod-n1", "host-n0")])
def test_a_program_in_a_pod_gets_nothing_from_the_lab_it_is_in(up: Up, pod: str, victim: str) -> None:
    found = up.tries(pod, victim)
    assert {what: said for what, said in found["attempts"].items() if WENT_IN.match(said)} == {}
    first, second = (node.control_address for node in up.site.nodes)
    servers = {f"{first} {port}" for port in (2379, 2380, 6443, 10250)} | {f"{second} 10250"}
    assert set(found["reached"]) == (servers if pod.startswith("host") else set()), "what is tried is there, or not"
    assert not any("UNREACHABLE" in said for said in found["attempts"].values())
    own = {"host-n0": first, "host-n1": second}.get(pod)
    stated = sorted(each for each in servers if each.split()[0] == own)
    assert sorted(each for each in found["listening"] if not STREAMS.fullmatch(each)) == stated
    assert not MARK.exists()
    listed = up.kubernetes.api.ask("GET", "/api/v1/pods")["items"]
    assert {each["metadata"]["namespace"] for each in listed} == {NAMESPACE}


NO_RIGHTS: Final = {"hostPID": False, "volumes": [], "containers": [{"name": "c", "image": "i"}]}
RIGHTS: Final[dict[str, dict[str, Any]]] = {
    "privileged": {"containers": [{"name": "c", "image": "i", "securityContext": {"privileged": True}}]},
    "hostPath": {"volumes": [{"name": "h", "hostPath": {"path": "/"}}]},
    "hostPID": {"hostPID": True},
    "hostIPC": {"hostIPC": True},
    "capabilities": {
        "initContainers": [{"name": "d", "image": "i", "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}]
    },
}


@pytest.mark.parametrize("right", RIGHTS)
def test_a_pod_with_rights_over_its_node_is_refused_even_to_the_administrator(up: Up, right: str) -> None:
    path = "/api/v1/namespaces/default/pods"

    def refused(spec: dict[str, Any]) -> str:
        try:
            up.kubernetes.api.ask("POST", path, evil(**spec), query=[("dryRun", "All")])
        except ApiError as error:
            return str(error)
        return ""

    wait_until(lambda: refused({**NO_RIGHTS, **RIGHTS["hostPID"]}), "the policy in force")
    assert refused(NO_RIGHTS) == "", "it is the right that is refused"
    assert ("no pod of a lab has" in (said := refused({**NO_RIGHTS, **RIGHTS[right]}))) or "disallowed" in said


def test_keys_are_root_s_alone_and_in_no_argument(up: Up) -> None:
    for each in up.kubernetes.kubernetes.kubelets:
        folder = each.place.path()
        assert folder.stat().st_mode & 0o077 == 0
        assert (folder / "tls.key").stat().st_mode & 0o177 == 0
    token = up.kubernetes.kubernetes.administrator.token
    for pid in up.site.lab.group.pids():
        said = Path(f"/proc/{pid}/cmdline").read_text() if Path(f"/proc/{pid}").exists() else ""
        assert token not in said
