"""Run a real Kubernetes on a lab's nodes: the programs of its project, which `tools/networks kubernetes` compiles.

The first node runs the control plane (etcd, API server, scheduler, controller manager), every node a containerd and a
kubelet. They talk over the control network, so that a study's messages do not meet them on the data NICs. Everything is
below one folder in each node's own /run, and ends with the node.

The kubelet answers whoever can reach it: nobody but the lab's nodes and pods can. Users are told apart by tokens.
"""

from __future__ import annotations

import base64
import http.client
import json
import secrets
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from tare.errors import MissingTool
from tare.host.namespaces import inside_network
from tare.host.packages import install
from tare.host.process import find, run
from tare.node import Node
from tare.services import containerd, etcd
from tare.services.containerd import Containerd
from tare.services.daemons import MOST_ANSWER, Daemon, Place, command, run_daemon
from tare.services.etcd import EtcdStore

OWN: Final = Path("/opt/tare/kubernetes")
PROGRAMS: Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")
FOLDER: Final = "/run/tare-kubernetes"
PORT: Final = 6443
PODS: Final = "10.244.0.0/16"
SERVICES: Final = "10.96.0.0/16"
SANDBOX_IMAGE: Final = "localhost/tare/pause:1"
ADMINISTRATOR: Final = "tare-admin"
CONTROLLERS: Final = (
    "endpointslice-controller",
    "garbage-collector-controller", "job-controller", "namespace-controller", "node-ipam-controller",
    "node-lifecycle-controller", "pod-garbage-collector-controller", "serviceaccount-controller",
    "ttl-after-finished-controller",
)  # fmt: skip
"""What a study on pods needs; the others would watch objects that a lab does not have."""
SYSCTLS: Final[Mapping[str, str]] = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""What the kubelet sets on its machine. A lab's nodes have files of their own in their place."""
NO_ADDRESS: Final = "node.cloudprovider.kubernetes.io/uninitialized"
"""The taint of a node that waits for its addresses."""
LIMIT_S: Final = 60.0
REQUEST_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Somebody whom the API server knows by a token. The group `system:masters` may do everything."""

    name: str
    groups: tuple[str, ...] = ()
    token: str = field(default_factory=lambda: secrets.token_hex(16))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubernetes:
    """A Kubernetes on nodes of a lab. `administrator` may do everything in it; `store` is its etcd."""

    address: str
    certificate: str
    administrator: User
    api: Daemon
    store: EtcdStore
    containerds: tuple[Containerd, ...]
    kubelets: tuple[Daemon, ...]

    def kubeconfig(self, user: User | None = None, namespace: str = "") -> dict[str, Any]:
        """Return a configuration for clients: the context `lab`, as a user."""
        return kubeconfig(self.address, self.certificate, user or self.administrator, namespace)

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Make a request as the administrator; return status and answer."""
        pid = self.api.place.pid
        return _request(pid, self.address, self.certificate, self.administrator.token, method, path, body)

    def wait(self) -> None:
        """Wait until every node is ready; raise `InfrastructureError` with the end of a log if one does not get so."""
        for number, daemon in enumerate(self.kubelets):
            name = daemon.place.node.name
            daemon.wait_for(partial(self._is_ready, name), f"being ready (node {number})", limit_s=LIMIT_S)

    def wait_for_subnets(self) -> None:
        """Wait until every node has a subnet for its pods, without which flanneld would give up."""
        for daemon in self.kubelets:
            look = partial(self._has_subnet, daemon.place.node.name)
            daemon.wait_for(look, "a subnet for its pods", limit_s=LIMIT_S)

    def set_addresses(self, nodes: Sequence[Node]) -> None:
        """Make a node's address that of its first data NIC, and allow pods on it.

        The API server reaches kubelets by the external address, which is that in the control network.
        """
        for node, daemon in zip(nodes, self.kubelets, strict=True):
            daemon.wait_for(partial(self._set_addresses, node), "taking addresses", limit_s=LIMIT_S)

    def _set_addresses(self, node: Node) -> bool | None:
        path = f"/api/v1/nodes/{node.name}"
        status, told = self.ask("GET", path)
        if status != http.HTTPStatus.OK:
            return None
        told["status"]["addresses"] = [
            {"type": "ExternalIP", "address": node.control_address},
            {"type": "InternalIP", "address": node.nics[0].address},
            {"type": "Hostname", "address": node.name},
        ]
        status, told = self.ask("PUT", f"{path}/status", told)
        if status != http.HTTPStatus.OK:
            return None  # the kubelet has changed it meanwhile
        told["spec"]["taints"] = [each for each in told["spec"].get("taints", ()) if each["key"] != NO_ADDRESS]
        return True if self.ask("PUT", path, told)[0] == http.HTTPStatus.OK else None

    def _has_subnet(self, node: str) -> bool | None:
        status, answer = self.ask("GET", f"/api/v1/nodes/{node}")
        return True if status == http.HTTPStatus.OK and answer.get("spec", {}).get("podCIDR") else None

    def _is_ready(self, node: str) -> bool | None:
        status, answer = self.ask("GET", f"/api/v1/nodes/{node}")
        conditions = answer.get("status", {}).get("conditions", ()) if status == http.HTTPStatus.OK else ()
        return True if any(each["type"] == "Ready" and each["status"] == "True" for each in conditions) else None


def program(name: str) -> str | None:
    """Return the path of one of the programs, or None."""
    own = OWN / name
    return str(own) if own.exists() else find(name)


def probe() -> str | None:
    """Return what a Kubernetes needs and this machine lacks, or None."""
    for name in PROGRAMS:
        if program(name) is None:
            return f"{name} is not installed: run tools/networks kubernetes"
    for tool in ("openssl", "gcc"):
        if find(tool) is None:
            return f"{tool} is not installed: {install(tool)}"
    return containerd.probe() or etcd.probe()


@contextmanager
def running(
    nodes: Sequence[Node],
    *,
    pause_archive: Path,
    networks: Mapping[str, str],
    users: Sequence[User] = (),
    addressed: bool = False,
) -> Iterator[Kubernetes]:
    """Keep a Kubernetes running on nodes; its caller gives pods a network, and waits for the nodes.

    `pause_archive` is a Docker archive with `SANDBOX_IMAGE`, `networks` as in `containerd.running`. With `addressed`
    the caller gives the nodes their addresses (`set_addresses`), without which no pod is put on them.
    """
    if reason := probe():
        raise MissingTool(f"Kubernetes cannot be started: {reason}")
    places = [Place(node=node, pid=node.pid, folder=FOLDER) for node in nodes]
    administrator = User(name=ADMINISTRATOR, groups=("system:masters",))
    with ExitStack() as stack:
        containerds = [
            stack.enter_context(containerd.running(place, sandbox_image=SANDBOX_IMAGE, networks=networks))
            for place in places
        ]
        first = places[0]
        store = stack.enter_context(etcd.running(first, nodes[0].control_address))
        _write_keys(first, (administrator, *users))
        store.wait()
        api = stack.enter_context(run_daemon(first, "kube-apiserver", api_server(nodes[0].control_address)))
        certificate = api.wait_for(lambda: _certificate(first, nodes[0].control_address), "an answer", limit_s=LIMIT_S)
        made = kubeconfig(nodes[0].control_address, certificate, administrator)
        for place in places:
            place.path("kubeconfig").write_text(json.dumps(made))
        for name, argv in (("kube-controller-manager", controller_manager()), ("kube-scheduler", scheduler())):
            stack.enter_context(run_daemon(first, name, argv))
        for each in containerds:
            each.wait()
            each.import_image(pause_archive)
        kubelets = []
        for place in places:
            _cover_sysctls(place)
            place.path("kubelet.json").write_text(json.dumps(kubelet_configuration()))
            kubelets.append(stack.enter_context(run_daemon(place, "kubelet", kubelet(place.node, addressed=addressed))))
        yield Kubernetes(
            address=nodes[0].control_address,
            certificate=certificate,
            administrator=administrator,
            api=api,
            store=store,
            containerds=tuple(containerds),
            kubelets=tuple(kubelets),
        )


def api_server(address: str) -> tuple[str, ...]:
    """Return the argv of the API server, which makes its own certificate."""
    return (
        program("kube-apiserver") or "", f"--etcd-servers={etcd.url_of(address)}",
        f"--bind-address={address}", f"--advertise-address={address}", f"--secure-port={PORT}",
        f"--cert-dir={FOLDER}/apiserver", f"--token-auth-file={FOLDER}/tokens.csv", "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={FOLDER}/accounts.key",
        f"--service-account-signing-key-file={FOLDER}/accounts.key", f"--service-cluster-ip-range={SERVICES}",
        "--kubelet-preferred-address-types=ExternalIP,InternalIP", "--allow-privileged=true",
        "--enable-priority-and-fairness=false",
    )  # fmt: skip


def controller_manager() -> tuple[str, ...]:
    """Return the argv of the controller manager, which gives each node a subnet for its pods."""
    return (
        program("kube-controller-manager") or "", f"--kubeconfig={FOLDER}/kubeconfig", "--leader-elect=false",
        f"--controllers={','.join(CONTROLLERS)}", "--allocate-node-cidrs=true", f"--cluster-cidr={PODS}",
        f"--service-account-private-key-file={FOLDER}/accounts.key", f"--cert-dir={FOLDER}/controllers",
        "--bind-address=127.0.0.1",
    )  # fmt: skip


def scheduler() -> tuple[str, ...]:
    """Return the argv of the scheduler."""
    return (
        program("kube-scheduler") or "", f"--kubeconfig={FOLDER}/kubeconfig", "--leader-elect=false",
        f"--cert-dir={FOLDER}/scheduler", "--bind-address=127.0.0.1",
    )  # fmt: skip


def kubelet(node: Node, *, addressed: bool = False) -> tuple[str, ...]:
    """Return the argv of a node's kubelet; one that is `addressed` leaves its node's addresses to others."""
    return (
        program("kubelet") or "", f"--config={FOLDER}/kubelet.json", f"--kubeconfig={FOLDER}/kubeconfig",
        f"--root-dir={FOLDER}/kubelet", f"--cert-dir={FOLDER}/kubelet-certificates",
        f"--hostname-override={node.name}", f"--node-ip={node.control_address}",
        *(("--cloud-provider=external",) if addressed else ()),
    )  # fmt: skip


def kubelet_configuration() -> dict[str, Any]:
    """Return the configuration of every kubelet: cgroups below the node's own, and nothing removed or evicted."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "containerRuntimeEndpoint": f"unix://{FOLDER}/containerd.sock",
        "podLogsDir": f"{FOLDER}/logs",
        "resolvConf": "",
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        "evictionHard": {"memory.available": "10Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "imageMinimumGCAge": "24h",
        "featureGates": {"KubeletInUserNamespace": True},  # it may not raise its limits
        "makeIPTablesUtilChains": False,
        "maxPods": 110,
        "registryPullQPS": 0,
        "kubeAPIQPS": 100,
        "kubeAPIBurst": 200,
    }


def kubeconfig(address: str, certificate: str, user: User, namespace: str = "") -> dict[str, Any]:
    """Return a configuration for clients with one context, `lab`; JSON is YAML."""
    data = base64.b64encode(certificate.encode()).decode()
    context = {"cluster": "lab", "user": user.name, **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "lab", "cluster": {"server": f"https://{address}:{PORT}", "certificate-authority-data": data}}
        ],
        "users": [{"name": user.name, "user": {"token": user.token}}],
        "contexts": [{"name": "lab", "context": context}],
        "current-context": "lab",
    }


def tokens(users: Sequence[User]) -> str:
    """Return the text of the API server's file of tokens: token, user, UID, groups."""
    return "".join(f'{user.token},{user.name},{user.name},"{",".join(user.groups)}"\n' for user in users)


def _write_keys(place: Place, users: Sequence[User]) -> None:
    """Write the tokens, and the key by which service accounts are signed."""
    place.path("tokens.csv").write_text(tokens(users))
    made = run(("openssl", "genrsa", "2048"), what="making a key for service accounts").stdout
    place.path("accounts.key").write_text(made)


def _cover_sysctls(place: Place) -> None:
    """Put a file of the node's own in the place of each sysctl that the kubelet sets."""
    for name, value in SYSCTLS.items():
        own = f"sysctl-{name.replace('/', '-')}"
        place.path(own).write_text(value)
        argv = ("mount", "--bind", f"{place.folder}/{own}", f"/proc/sys/{name}")
        run(command(place, place.node.group.leaf, argv), what=f"covering {name} on {place.node.name}")


def _certificate(place: Place, address: str) -> str | None:
    """Return the certificate of the API server once it answers, with that of who signed it; None before."""
    try:
        certificate = place.path("apiserver/apiserver.crt").read_text()
        status, _ = _request(place.pid, address, certificate, "", "GET", "/readyz")
    except (OSError, ValueError, http.client.HTTPException):
        return None
    return certificate if status in (http.HTTPStatus.OK, http.HTTPStatus.UNAUTHORIZED) else None


def _request(
    pid: int, address: str, certificate: str, token: str, method: str, path: str, body: Mapping[str, Any] | None = None
) -> tuple[int, dict[str, Any]]:
    """Make one request to an API server from a process's network namespace; return status and answer."""
    context = ssl.create_default_context(cadata=certificate)
    with inside_network(pid):  # a socket stays in the namespace in which it was created
        connection = http.client.HTTPSConnection(address, PORT, timeout=REQUEST_S, context=context)
        connection.connect()
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    try:
        connection.request(method, path, body=None if body is None else json.dumps(body), headers=headers)
        answer = connection.getresponse()
        text = answer.read(MOST_ANSWER).decode(errors="replace")
    finally:
        connection.close()
    try:
        told = json.loads(text)
    except ValueError:
        told = {"message": text}
    return answer.status, told if isinstance(told, dict) else {"items": told}
