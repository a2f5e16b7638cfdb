"""Run a real Kubernetes on a lab's nodes: the programs of its project, which `tools/networks kubernetes` compiles.

The first node runs the control plane (etcd, API server, scheduler, controller manager), every node a containerd and a
kubelet. They talk over the control network, so that a study's messages do not meet them on the data NICs. Everything is
below one folder in each node's own /run, and ends with the node.

Pods on their node's network reach all of it. So etcd, API server and kubelets answer only who has the lab's certificate
(`tare.daemons.certificate`) or a user's token, and nothing else listens.
"""

from __future__ import annotations

import base64
import json
import secrets
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from tare.daemons import certificate, containerd, etcd
from tare.daemons.certificate import CERTIFICATE, KEY
from tare.daemons.containerd import Containerd
from tare.daemons.daemons import Daemon, Place, cover, run_daemon
from tare.daemons.etcd import EtcdStore
from tare.daemons.http_client import HttpClient, inside
from tare.errors import InfrastructureError, MissingTool, RequestFailed
from tare.system.node import Node
from tare.system.packages import install, script
from tare.system.process import find, run

OWN: Final = Path("/opt/tare/kubernetes")
PROGRAMS: Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")
FOLDER: Final = "/run/tare-kubernetes"
PORT: Final = 6443
PODS: Final = "10.244.0.0/16"
SERVICES: Final = "10.96.0.0/16"
SANDBOX_IMAGE: Final = "localhost/tare/pause:1"
ADMINISTRATOR: Final = "tare-admin"
MASTERS: Final = "system:masters"
"""The group whose members may do everything."""
SERVER_NAME: Final = "kubernetes.default.svc"
"""A name in the API server's certificate, whatever the address is by which it is reached."""
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
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LIMIT_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Somebody whom the API server knows by a token. The group `MASTERS` may do everything."""

    name: str
    groups: tuple[str, ...] = ()
    token: str = field(default_factory=lambda: secrets.token_hex(16))


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesDaemons:
    """A Kubernetes on nodes of a lab. `server` is asked as the `administrator`, who may do everything in it.

    `store` is its etcd.
    """

    address: str
    certificate: str
    administrator: User
    server: HttpClient
    api: Daemon
    store: EtcdStore
    containerds: tuple[Containerd, ...]
    kubelets: tuple[Daemon, ...]

    def kubeconfig(self, user: User | None = None, namespace: str = "") -> dict[str, Any]:
        """Return a configuration for clients: the context `lab`, as a user."""
        return kubeconfig(self.address, self.certificate, user or self.administrator, namespace)

    def create(self, path: str, body: Mapping[str, Any]) -> None:
        """Create an object unless it is there; a kind that was just defined is served after a moment."""
        self.api.wait_for(partial(self._created, path, body), f"serving {path}", limit_s=LIMIT_S)

    def _created(self, path: str, body: Mapping[str, Any]) -> bool | None:
        try:
            self.server.ask("POST", path, body)
        except RequestFailed as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            if error.status != HTTPStatus.CONFLICT:
                raise
        return True

    def define(self, file: Path) -> None:
        """Apply the definition of a kind of objects, as its project's module has it."""
        self.create(DEFINITIONS, read_definition(file))

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
        path, told = f"/api/v1/nodes/{node.name}", self._node(node.name)
        if not told:
            return None
        told["status"]["addresses"] = [
            {"type": "ExternalIP", "address": node.control_address},
            {"type": "InternalIP", "address": node.nics[0].address},
            {"type": "Hostname", "address": node.name},
        ]
        try:
            told = self.server.ask("PUT", f"{path}/status", told)
            told["spec"]["taints"] = [each for each in told["spec"].get("taints", ()) if each["key"] != NO_ADDRESS]
            self.server.ask("PUT", path, told)
        except RequestFailed as error:
            if not error.status:
                raise
            return None  # the kubelet has changed it meanwhile
        return True

    def _node(self, name: str) -> dict[str, Any]:
        """Return a node's object; {} if there is none yet."""
        try:
            found: dict[str, Any] = self.server.ask("GET", f"/api/v1/nodes/{name}")
        except RequestFailed as error:
            if not error.status:
                raise
            return {}
        return found

    def _has_subnet(self, node: str) -> bool | None:
        return True if self._node(node).get("spec", {}).get("podCIDR") else None

    def _is_ready(self, node: str) -> bool | None:
        conditions = self._node(node).get("status", {}).get("conditions", ())
        return True if any(each["type"] == "Ready" and each["status"] == "True" for each in conditions) else None


def read_definition(file: Path) -> dict[str, Any]:
    """Return the definition of a kind of objects in a file that `tools/networks` has brought."""
    import yaml  # nodes do not have it, and this package is among what they get

    made = yaml.load(file.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    if not isinstance(made, dict):
        raise InfrastructureError(f"{file} is damaged", remedy=f"remove its folder, and run {script('tools/networks')}")
    return made


def program(name: str) -> str | None:
    """Return the path of one of the programs, or None."""
    own = OWN / name
    return str(own) if own.exists() else find(name)


def probe() -> str | None:
    """Return what a Kubernetes needs and this machine lacks, or None."""
    for name in PROGRAMS:
        if program(name) is None:
            return f"{name} is not installed: run {script('tools/networks kubernetes')}"
    if find("gcc") is None:
        return f"gcc is not installed: {install('gcc')}"
    return containerd.probe() or etcd.probe()


@contextmanager
def running(
    nodes: Sequence[Node],
    *,
    pause_archive: Path,
    networks: Mapping[str, str],
    users: Sequence[User] = (),
    addressed: bool = False,
) -> Iterator[KubernetesDaemons]:
    """Keep a Kubernetes running on nodes; its caller gives pods a network, and waits for the nodes.

    `pause_archive` is a Docker archive with `SANDBOX_IMAGE`, `networks` as in `containerd.running`. With `addressed`
    the caller gives the nodes their addresses (`set_addresses`), without which no pod is put on them.
    """
    if reason := probe():
        raise MissingTool(f"Kubernetes cannot be started: {reason}")
    places = [Place(node=node, pid=node.pid, folder=FOLDER) for node in nodes]
    administrator = User(name=ADMINISTRATOR, groups=(MASTERS,))
    _write_keys(places, (administrator, *users))
    address, known = nodes[0].control_address, places[0].path(CERTIFICATE).read_text()
    with ExitStack() as stack:
        containerds = [
            stack.enter_context(containerd.running(place, sandbox_image=SANDBOX_IMAGE, networks=networks))
            for place in places
        ]
        first = places[0]
        store = stack.enter_context(etcd.running(first, address))
        made = kubeconfig(address, known, administrator)
        for place in places:
            place.path("kubeconfig").write_text(json.dumps(made))
        store.wait()
        api = stack.enter_context(run_daemon(first, "kube-apiserver", api_server(address)))
        connected = inside(first.pid, (address, PORT), ssl.create_default_context(cadata=known))
        server = HttpClient(name="the lab's API server", connected=connected, token=administrator.token)
        api.wait_for(lambda: server.answers("/readyz") or None, "an answer", limit_s=LIMIT_S)
        for name, argv in (("kube-controller-manager", controller_manager()), ("kube-scheduler", scheduler())):
            stack.enter_context(run_daemon(first, name, argv))
        for each in containerds:
            each.wait()
            each.import_image(pause_archive)
        kubelets = []
        for place in places:
            _cover_sysctls(place)
            place.path("kubelet.json").write_text(json.dumps(kubelet_configuration(place.node)))
            kubelets.append(stack.enter_context(run_daemon(place, "kubelet", kubelet(place.node, addressed=addressed))))
        yield KubernetesDaemons(
            address=address,
            certificate=known,
            administrator=administrator,
            server=server,
            api=api,
            store=store,
            containerds=tuple(containerds),
            kubelets=tuple(kubelets),
        )


def api_server(address: str) -> tuple[str, ...]:
    """Return the argv of the API server. It knows users by their tokens, and the kubelets by the lab's certificate."""
    known, key = f"{FOLDER}/{CERTIFICATE}", f"{FOLDER}/{KEY}"
    return (
        program("kube-apiserver") or "", f"--etcd-servers={etcd.url_of(address)}",
        *(f"--etcd-{name}={FOLDER}/{file}" for name, file in certificate.FILES.items()),
        f"--bind-address={address}", f"--advertise-address={address}", f"--secure-port={PORT}",
        f"--tls-cert-file={known}", f"--tls-private-key-file={key}", f"--kubelet-certificate-authority={known}",
        f"--kubelet-client-certificate={known}", f"--kubelet-client-key={key}",
        "--anonymous-auth=false", "--allow-privileged=false", "--profiling=false",
        f"--token-auth-file={FOLDER}/tokens.csv", "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={FOLDER}/accounts.key",
        f"--service-account-signing-key-file={FOLDER}/accounts.key", f"--service-cluster-ip-range={SERVICES}",
        "--kubelet-preferred-address-types=ExternalIP,InternalIP", "--enable-priority-and-fairness=false",
    )  # fmt: skip


def controller_manager() -> tuple[str, ...]:
    """Return the argv of the controller manager, which gives each node a subnet for its pods. It listens nowhere."""
    return (
        program("kube-controller-manager") or "", f"--kubeconfig={FOLDER}/kubeconfig", "--leader-elect=false",
        f"--controllers={','.join(CONTROLLERS)}", "--allocate-node-cidrs=true", f"--cluster-cidr={PODS}",
        f"--service-account-private-key-file={FOLDER}/accounts.key", "--secure-port=0",
    )  # fmt: skip


def scheduler() -> tuple[str, ...]:
    """Return the argv of the scheduler. It listens nowhere."""
    return (
        program("kube-scheduler") or "", f"--kubeconfig={FOLDER}/kubeconfig", "--leader-elect=false", "--secure-port=0",
    )  # fmt: skip


def kubelet(node: Node, *, addressed: bool = False) -> tuple[str, ...]:
    """Return the argv of a node's kubelet; one that is `addressed` leaves its node's addresses to others."""
    return (
        program("kubelet") or "", f"--config={FOLDER}/kubelet.json", f"--kubeconfig={FOLDER}/kubeconfig",
        f"--root-dir={FOLDER}/kubelet",
        f"--hostname-override={node.name}", f"--node-ip={node.control_address}",
        *(("--cloud-provider=external",) if addressed else ()),
    )  # fmt: skip


def kubelet_configuration(node: Node) -> dict[str, Any]:
    """Return the configuration of a node's kubelet: cgroups below the node's own, and nothing removed or evicted.

    It answers the API server alone, by the lab's certificate, and asks that server what the certificate's group may.
    """
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": f"{FOLDER}/{CERTIFICATE}"},
        },
        "authorization": {"mode": "Webhook"},
        "address": node.control_address,
        "tlsCertFile": f"{FOLDER}/{CERTIFICATE}",
        "tlsPrivateKeyFile": f"{FOLDER}/{KEY}",
        "readOnlyPort": 0,
        "healthzPort": 0,
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


def _write_keys(places: Sequence[Place], users: Sequence[User]) -> None:
    """Write the lab's certificate on all nodes, and on the first the tokens and the key of service accounts."""
    first, *others = (place.path() for place in places)
    addresses = [place.node.control_address for place in places]
    certificate.make(first, f"/O={MASTERS}/CN={ADMINISTRATOR}", addresses, (SERVER_NAME,))
    for other in others:
        certificate.copy(first, other)
    (first / "tokens.csv").write_text(tokens(users))
    argv = ("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout")
    (first / "accounts.key").write_text(run(argv, what="making a key for service accounts").stdout)


def _cover_sysctls(place: Place) -> None:
    """Put a file of the node's own in the place of each sysctl that the kubelet sets."""
    for name, value in SYSCTLS.items():
        own = f"sysctl-{name.replace('/', '-')}"
        place.path(own).write_text(value)
        cover(place, own, f"/proc/sys/{name}")
