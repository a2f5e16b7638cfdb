"""A lab's Kubernetes: what its programs get, what a report says of it, and what its page says."""

from __future__ import annotations

import os
import re
import socket
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from ipaddress import IPv4Network
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

import kubernetes_rights
from nodes import make_node
from tare.agent.remote.conversation import Unreachable
from tare.clusters import CLUSTERS
from tare.clusters.pods import in_lab, lab_networks
from tare.clusters.pods.api import Api, ApiError
from tare.clusters.pods.cluster_description import Description, ServiceView
from tare.clusters.pods.lab_networks import LAB_NETWORKS, VXLAN, cilium, flannel, routed
from tare.clusters.pods.mpi_jobs.counts import JobCounts
from tare.clusters.pods.node import KubernetesNode
from tare.clusters.pods.pod_networks import on_node
from tare.clusters.pods.pod_networks.products import PRODUCTS
from tare.daemons import containerd, forward, kubernetes
from tare.daemons.kubernetes import User
from tare.errors import InfrastructureError, MissingTool, RefusedError
from tare.model import Environment, KubernetesSpec, LabSpec, Placement
from tare.study import parse
from tare.study.plan import composition
from tare.system.counters.values import CounterValues, Moment, merged
from tare.system.node import NODE_BRIDGE, NODE_NIC, NODE_TUNNEL, SILENT_ROLE

NODE = make_node()


def test_containerd_has_folders_for_runtime_classes_and_users_have_tokens() -> None:
    text = containerd.configuration("/run/k", "pause:1", {"": "/run/k/cni", "fast": "/run/k/cni-fast"})
    told: dict[str, Any] = tomllib.loads(text)
    cri = told["plugins"]["io.containerd.grpc.v1.cri"]
    assert (told["version"], cri["sandbox_image"], cri["cni"]["conf_dir"]) == (2, "pause:1", "/run/k/cni")
    runtimes = cri["containerd"]["runtimes"]
    assert (set(runtimes), runtimes["fast"]["cni_conf_dir"]) == ({"runc", "fast"}, "/run/k/cni-fast")
    assert cri["containerd"]["default_runtime_name"] == "runc"
    users = (User(name="a", groups=("system:masters", "x"), token="t1"), User(name="b", token="t2"))
    assert kubernetes.tokens(users) == 't1,a,a,"system:masters,x"\nt2,b,b,""\n'
    made = kubernetes.kubeconfig("10.0.0.1", "CERTIFICATE", users[1], "mine")
    assert made["clusters"][0]["cluster"]["server"] == "https://10.0.0.1:6443"
    assert made["users"] == [{"name": "b", "user": {"token": "t2"}}]
    there = in_lab.reached_at(made, 4711)["clusters"][0]["cluster"]
    assert (there["server"], there["tls-server-name"]) == ("https://127.0.0.1:4711", "kubernetes.default.svc")
    assert there["certificate-authority-data"] == made["clusters"][0]["cluster"]["certificate-authority-data"]
    assert User(name="a").token != User(name="a").token


def test_every_program_is_of_its_node_and_prefers_its_data_address_where_a_network_takes_that() -> None:
    assert f"--bind-address={NODE.control_address}" in kubernetes.api_server(NODE.control_address)
    assert {"--hostname-override=n0", f"--node-ip={NODE.control_address}"} <= set(kubernetes.kubelet(NODE))
    argv = flannel.with_kubernetes(NODE, "/run/f")
    assert argv[:2] == ("env", "NODE_NAME=n0")
    assert {"-kube-subnet-mgr", f"-iface={NODE.nics[0].name}", "-ip-masq=false"} <= set(argv)
    assert "--cloud-provider=external" in kubernetes.kubelet(NODE, addressed=True)
    assert not any("cloud" in each for each in kubernetes.kubelet(NODE))
    preferred = "--kubelet-preferred-address-types=ExternalIP,InternalIP"
    assert preferred in kubernetes.api_server(NODE.control_address)


def test_two_flannelds_of_a_node_share_nothing_and_pods_are_wired_into_the_leased_subnet() -> None:
    first, second = flannel.with_kubernetes(NODE, "/run/f"), flannel.with_etcd(NODE, "/run/g", "https://10.0.0.1:2379")
    assert {"-etcd-endpoints=https://10.0.0.1:2379", "-iptables-forward-rules=false", "-ip-masq=false"} <= set(second)
    assert not any("kube" in each for each in second if not re.match("-etcd-(ca|cert|key)file=", each))
    files = [each for argv in (first, second) for each in argv if each.startswith("-subnet-file")]
    assert files == ["-subnet-file=/run/f/subnet.env", "-subnet-file=/run/g/subnet.env"]
    (plugin,) = VXLAN.configuration(flannel.plugin("cni0", 1450), "10.244.1.0/24")["plugins"]
    assert (plugin["type"], plugin["bridge"], plugin["mtu"]) == ("bridge", "cni0", 1450)
    assert plugin["ipam"]["ranges"] == [[{"subnet": "10.244.1.0/24"}]]
    assert plugin["ipam"]["routes"] == [{"dst": "10.244.0.0/16"}]


def test_each_runtime_class_has_a_network_of_its_own_and_a_lab_has_one_cilium() -> None:
    every = lab_networks.chosen(["cilium-vxlan", "routed", "host-gw"])
    assert [each.runtime_class for each in every] == ["", "host-gw", "routed", "cilium-vxlan"]
    assert [each.runtime_class for each in lab_networks.chosen(["routed"])] == ["", "routed"]
    assert len({each.folder for each in every}) == len(every)
    names = {each.configuration({}, "10.0.0.0/24")["name"] for each in every}
    assert len(names) == len(every), "addresses in use are noted by the configuration's name"
    assert not any(IPv4Network(one.subnet).overlaps(IPv4Network(other.subnet)) for one, other in combinations(every, 2))
    devices = [name for each in every for name in each.devices]
    assert len(set(devices)) == len(devices), "what one network has is silent when another is used"
    assert all(len(name) < 16 for name in devices)
    assert in_lab.runtime_class("routed")["handler"] == "routed"
    with pytest.raises(RefusedError, match="a lab has one of cilium-native and cilium-vxlan: compare each"):
        lab_networks.chosen(["cilium-native", "cilium-vxlan"])


def test_the_plan_says_which_environment_an_earlier_one_excludes() -> None:
    classes = ("", "cilium-vxlan", "routed", "cilium-native", "cilium-vxlan")
    pods = Environment(name="e", runtime="kubernetes", network="pod-network")
    every = [replace(pods, name=f"e{number}", runtime_class=each) for number, each in enumerate(classes)]
    apart, with_one = CLUSTERS["lab"].apart, LabSpec(kubernetes=KubernetesSpec(in_lab=True))
    said = "a lab has one of cilium-vxlan and cilium-native: compare each with the others in its own study"
    assert (apart(with_one, every), apart(with_one, every[:3])) == ({"e3": said}, {})
    assert apart(LabSpec(), every) == {}, "a lab without Kubernetes has no runtime classes"


def test_cilium_connects_pods_over_the_data_network_and_changes_nothing_of_the_machine() -> None:
    one, other = make_node(), make_node(index=1)
    assert [cilium.subnet_of(each) for each in (one, other)] == ["10.247.0.0/24", "10.247.1.0/24"]
    with pytest.raises(InfrastructureError, match="none for node 257"):
        cilium.subnet_of(make_node(index=256))
    made = cilium.cilium_node(other)
    assert made["metadata"]["name"] == "n1"
    assert made["spec"]["addresses"] == [{"type": "InternalIP", "ip": other.nics[0].address}]
    assert made["spec"]["ipam"] == {"podCIDRs": ["10.247.1.0/24"]}
    argv = cilium.agent(one, "/run/c", cilium.TUNNEL.mode)
    assert argv[:4] == ("unshare", "--mount", "sh", "/run/c/cilium.sh"), "its mounts end with it"
    assert {"--routing-mode=tunnel", "--tunnel-port=8473", f"--devices={one.nics[0].name}"} <= set(argv)
    assert {"--install-iptables-rules=false", "--cni-exclusive=false", "--bpf-root=/run/c/bpf"} <= set(argv)
    assert "--routing-mode=native" in cilium.agent(one, "/run/c", cilium.NATIVE.mode)
    script = cilium.SCRIPT.read_text()
    for name in ("unprivileged_bpf_disabled", "timer_migration", "bpf_jit_enable"):
        assert name in script, "a sysctl of the whole machine, which the agent sets"
    (plugin,) = cilium.NATIVE.configuration({"type": "cilium-cni"}, "")["plugins"]
    assert plugin == {"type": "cilium-cni"}, "its agent has the addresses"


def test_routed_pods_have_no_bridge_and_a_subnet_for_each_node() -> None:
    one, other = make_node(), make_node(index=1)
    assert (routed.subnet_of(one), routed.subnet_of(other)) == ("10.246.0.0/24", "10.246.1.0/24")
    with pytest.raises(InfrastructureError, match="routed pods have 256 subnets, and none for node 257"):
        routed.subnet_of(make_node(index=256))
    (plugin,) = lab_networks.LAB_NETWORKS["routed"].configuration(routed.plugin(1500), "10.246.0.0/24")["plugins"]
    assert "bridge" not in plugin
    assert (plugin["type"], plugin["mtu"], plugin["ipMasq"]) == ("ptp", 1500, False)


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"runtime_class": "routed", "network": "pod-network"}, None),
        ({"network": "pod-network"}, None),
        ({"network": "host"}, None),
        ({"runtime_class": "gvisor", "network": "pod-network"},
         "class gvisor: it has host-gw, routed, cilium-vxlan, cilium-native"),
        ({"runtime_class": "routed", "network": "host"}, "routed is a pod network, which host replaces"),
    ],
)  # fmt: skip
def test_a_runtime_class_that_a_lab_cannot_have_is_refused(environment: dict[str, str], reason: str | None) -> None:
    found = lab_networks.refuse(Environment(name="e", runtime="kubernetes", **environment))
    assert (reason in (found or "")) if reason else found is None


def test_what_is_missing_is_named_and_a_runtime_class_is_for_pods_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(kubernetes, "program", lambda name: None if name == "kubelet" else "/bin/true")
    assert in_lab.probe() == "kubelet is not installed: run tools/networks kubernetes"
    with pytest.raises(MissingTool, match="kubelet is not installed"), in_lab.running((), tmp_path):
        pass
    named = Environment(name="e", runtime="bare", network="host", runtime_class="routed")
    reason = "containers of bare have no RuntimeClass, which pods of a Kubernetes have: leave it out"
    assert composition.refuse(named, Placement()) == reason
    pods = replace(named, runtime="kubernetes", network="pod-network", image="debian-openmpi")
    assert composition.refuse(pods, Placement()) is None


@pytest.mark.requires("root")
def test_a_port_of_this_machine_leads_to_a_server_in_a_namespace() -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def echo() -> None:
        connection, _ = listener.accept()
        with connection:
            while data := connection.recv(1 << 16):
                connection.sendall(data)

    sent, got = b"x" * 300_000, b""
    with listener, ThreadPoolExecutor(max_workers=2) as pool:
        pool.submit(echo)
        with (
            forward.forwarded(os.getpid(), "127.0.0.1", listener.getsockname()[1]) as port,
            socket.create_connection(("127.0.0.1", port)) as client,
        ):
            pool.submit(client.sendall, sent)
            while len(got) < len(sent):
                got += client.recv(1 << 16)
    assert got == sent
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port)).close()


BACKEND = {"flannel.alpha.coreos.com/backend-type": "vxlan", "flannel.alpha.coreos.com/kube-subnet-manager": "true"}
FLANNEL = {"metadata": {"name": "n0", "annotations": BACKEND}}
POD = ServiceView(node="n0", of_node=False, interface="eth0", mtu=1450)
DEVICES = {name: each.devices for name, each in LAB_NETWORKS.items()}


class Answers:
    """An API server that lets nothing be read but what it has, or that does not answer."""

    host = "https://127.0.0.1:6443"

    def __init__(self, *, gone: bool = False, **objects: Any) -> None:
        self._gone, self._objects = gone, objects

    def ask(self, _method: str, path: str, **_: Any) -> dict[str, Any]:
        name = path.rpartition("/")[2]
        if self._gone:
            raise InfrastructureError(f"no answer to {path}")
        if name not in self._objects:
            raise ApiError(f"cannot read {path}", status=403, reason="Forbidden")
        return dict(self._objects[name])


VERSION = {"gitVersion": "v1.31.4"}
SERVER = Answers(version=VERSION, nodes={"items": [FLANNEL]})


def facts(
    server: Answers, seen: list[ServiceView] | None = None, titles: dict[str, str] | None = None
) -> dict[str, Any]:
    return Description.read(cast("Api", server), "lab", (), *([titles] if titles else [])).facts(seen or [POD])


def test_the_line_of_a_report_names_the_network_as_far_as_it_can_be_read() -> None:
    found = facts(SERVER)
    assert found["machine"].startswith("Kubernetes v1.31.4; ")
    assert "pods' network: Flannel (VXLAN" in found["machine"]
    assert "eth0 MTU 1450" in found["machine"]
    assert any("backend" in each for each in found["Kubernetes"]["network told by"])
    assert "networks of runtime classes" not in found["Kubernetes"]
    found = facts(Answers(version=VERSION))
    assert "pods' network: unknown" in found["machine"]
    assert "list nodes" in found["Kubernetes"]["not readable"]
    machine = facts(Answers(gone=True))["machine"]
    assert machine.endswith("pods' network: unknown (encapsulation not known), eth0 MTU 1450")


def test_the_network_of_each_runtime_class_is_named_as_far_as_it_is_known() -> None:
    titles = {"": "Flannel (VXLAN)", "routed": "routed by hand"}
    seen = [
        ServiceView(node="n0", of_node=True, interface="data0", mtu=1500),
        ServiceView(node="n0", of_node=True, interface="data0", mtu=1500, runtime_class="gvisor"),
        POD,
        ServiceView(node="n0", of_node=False, interface="eth0", mtu=1500, runtime_class="routed"),
        ServiceView(node="n1", of_node=False, interface="eth0", mtu=1400, runtime_class="fast"),
    ]
    found = facts(SERVER, seen, titles)
    classes = found["Kubernetes"]["networks of runtime classes"]
    assert classes == {"fast": "a network that is not known, eth0 MTU 1400", "routed": "routed by hand, eth0 MTU 1500"}
    assert found["Kubernetes"]["network"]["pods"] == "eth0 MTU 1450"
    assert "; with runtime class routed: routed by hand, eth0 MTU 1500" in found["machine"]
    others = facts(SERVER, seen[3:], titles)["machine"]
    assert "Flannel" not in others, "no pod of the study is on the usual network"


def roles(
    runtime_class: str, *, alone: bool = True, known: bool = True, tunnels: tuple[str, ...] = ()
) -> dict[str, str]:
    watches = on_node.watched("data0", tunnels, runtime_class, DEVICES if known else {}, alone=alone)
    assert {each.pid for each in watches} <= {on_node.OF_NODE}
    return {each.interface: each.role for each in watches}


def test_networks_are_proven_by_devices_and_the_silence_of_others() -> None:
    silent = dict.fromkeys(("cni0", "flannel.1", "cni-host-gw", "cilium_vxlan"), SILENT_ROLE)
    assert roles("") == {"data0": NODE_NIC, **silent, "cni0": NODE_BRIDGE, "flannel.1": NODE_TUNNEL}
    assert roles("host-gw") == {"data0": NODE_NIC, **silent, "cni-host-gw": NODE_BRIDGE}
    assert roles("cilium-vxlan") == {"data0": NODE_NIC, **silent, "cilium_vxlan": NODE_TUNNEL}
    assert roles("cilium-native") == roles("routed") == {"data0": NODE_NIC, **silent}
    assert roles("routed", alone=False) == silent, "messages between pods of a node pass nothing of it"
    assert roles("", known=False, tunnels=("vxlan.calico",)) == {"data0": NODE_NIC, "vxlan.calico": NODE_TUNNEL}
    assert roles("", known=False, tunnels=("a", "b")) == {"data0": NODE_NIC}
    assert roles("fast", known=False, tunnels=("vxlan.calico",)) == {"data0": NODE_NIC}
    assert roles("fast", known=False, tunnels=("vxlan.calico",), alone=False) == {}
    watches = on_node.watched("data0", (), "host-gw", DEVICES, alone=True)
    found = on_node.counted(watches, {"data0": (9, 1, 8, 1), "cni0": (5, 1, 4, 1), "lo": (1, 1, 1, 1)})
    silent = dict.fromkeys(("flannel.1", "cilium_vxlan"), (0,) * 4)
    assert found == {"data0": (9, 1, 8, 1), "cni0": (5, 1, 4, 1), **silent}


def test_facts_name_the_network_of_pods_and_its_class() -> None:
    titles = {name: each.title for name, each in LAB_NETWORKS.items()}
    assert on_node.named("routed", titles)["pods' network"].startswith("routed (Calico's data path without Calico")
    assert on_node.named("", titles) == {"pods' network": "Flannel (VXLAN)"}
    assert (on_node.named("fast", {}), on_node.named("", {})) == ({"runtime class": "fast"}, {})


@pytest.mark.parametrize(("lab_node", "busy_s"), [(None, 200.0), (make_node(), 100.0)])
def test_cpu_times_of_a_labs_nodes_which_are_one_machine_count_once(lab_node: Any, busy_s: float) -> None:
    service = SimpleNamespace(counters=lambda *_: CounterValues(machine="pod", busy_s=100.0, steal_s=30.0))
    gate: Any = SimpleNamespace(settle=lambda: None, prepare=lambda _: None)
    nothing: Any = None
    read = []
    for name in ("alpha", "beta"):
        node = KubernetesNode(make_node(name=name, machine=name), nothing, nothing, gate, "", lab_node)
        deployment: Any = SimpleNamespace(services=[service], specs=(), passes=(), jobs=JobCounts())
        node._deployments["study"] = deployment
        read.append(node.counters("study").values())
    assert merged(read, Moment(tare_s=0.0)).busy_s == busy_s


def test_a_signal_reaches_the_pods_that_are_there_whichever_is_gone() -> None:
    asked: list[tuple[Any, ...]] = []

    def gone(*_: Any) -> int:
        raise Unreachable("the service in pod b does not run")

    def there(*words: Any) -> int:
        asked.append(words)
        return 2

    nothing: Any = None
    node = KubernetesNode(make_node(), nothing, nothing, nothing, "")
    services: Any = [SimpleNamespace(ask=each) for each in (there, gone, there)]
    node._deployments["study"] = cast("Any", SimpleNamespace(services=services))
    assert node.signal(15, ("mpirun",)) == 4
    assert asked == [("signal", 15, frozenset({"mpirun"}), "")] * 2


ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "kubernetes.md").read_text()


def block(mark: str) -> str:
    found = re.search(rf"<!-- {mark}: .*? -->\n```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None, mark
    return found[1]


def test_the_page_has_the_roles_messages_classes_and_products_of_the_sources() -> None:
    assert list(yaml.safe_load_all(block("role"))) == list(kubernetes_rights.role("tare", "you"))
    assert yaml.safe_load(block("rules")) == list(kubernetes_rights.OF_JOBS)
    assert yaml.safe_load(block("policy")) == list(kubernetes_rights.OF_POLICY)
    recognised = PAGE.partition("## Recognised networks")[2].partition("\n## ")[0].partition("|---|")[2]
    rows = re.findall(r"^\| ([\w -]+) \|", recognised, re.MULTILINE)
    assert sorted(rows) == sorted(product.name for product in PRODUCTS)
    sources = "\n".join(path.read_text() for path in (ROOT / "src" / "tare").rglob("*.py"))
    table = PAGE.partition("<!-- messages")[2]
    messages = re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)
    assert len(messages) > 10
    assert [each for each in messages if each not in sources] == []
    section = PAGE.partition("## Several pod networks")[2].partition("\n## ")[0]
    table = section.partition("<!-- runtime classes")[2]
    named = re.findall(r"^\| (none|`[\w-]+`) \|", table.partition("|---|")[2], re.MULTILINE)
    assert [each.strip("`") for each in named] == [each or "none" for each in LAB_NETWORKS]
    (study,) = re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)
    assert {each.runtime_class for each in parse(study).environments} == set(LAB_NETWORKS) - {"cilium-native"}
