"""The programs of a lab's Kubernetes get what they need: texts and command lines, without starting them."""

from __future__ import annotations

import os
import socket
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from ipaddress import IPv4Network
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from nodes import make_node
from tare.cluster import CLUSTERS
from tare.errors import InfrastructureError, MissingTool, RefusedError
from tare.kubernetes import in_lab, lab_networks
from tare.kubernetes.lab_networks import VXLAN, cilium, flannel, routed
from tare.model import Environment, KubernetesSpec, LabSpec, Placement
from tare.plan import composition
from tare.services import containerd, forward, kubernetes
from tare.services.kubernetes import User

NODE = make_node()


def test_containerd_has_a_folder_of_networks_for_each_runtime_class() -> None:
    text = containerd.configuration("/run/k", "pause:1", {"": "/run/k/cni", "fast": "/run/k/cni-fast"})
    told: dict[str, Any] = tomllib.loads(text)
    cri = told["plugins"]["io.containerd.grpc.v1.cri"]
    assert told["version"] == 2
    assert cri["sandbox_image"] == "pause:1"
    assert cri["cni"]["conf_dir"] == "/run/k/cni"
    runtimes = cri["containerd"]["runtimes"]
    assert set(runtimes) == {"runc", "fast"}
    assert runtimes["fast"]["cni_conf_dir"] == "/run/k/cni-fast"
    assert cri["containerd"]["default_runtime_name"] == "runc"


def test_users_are_told_apart_by_tokens() -> None:
    users = (User(name="a", groups=("system:masters", "x"), token="t1"), User(name="b", token="t2"))
    assert kubernetes.tokens(users) == 't1,a,a,"system:masters,x"\nt2,b,b,""\n'
    made = kubernetes.kubeconfig("10.0.0.1", "CERTIFICATE", users[1], "mine")
    assert made["clusters"][0]["cluster"]["server"] == "https://10.0.0.1:6443"
    assert made["users"] == [{"name": "b", "user": {"token": "t2"}}]
    there = in_lab.reached_at(made, 4711)["clusters"][0]["cluster"]
    assert there["server"] == "https://127.0.0.1:4711"
    assert there["tls-server-name"] == "kubernetes.default.svc"
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
    first, second = flannel.with_kubernetes(NODE, "/run/f"), flannel.with_etcd(NODE, "/run/g", "http://10.0.0.1:2379")
    assert {"-etcd-endpoints=http://10.0.0.1:2379", "-iptables-forward-rules=false", "-ip-masq=false"} <= set(second)
    assert not any("kube" in each for each in second)
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
    every = [
        Environment(name=f"e{number}", runtime="kubernetes", network="pod-network", runtime_class=each)
        for number, each in enumerate(classes)
    ]
    cluster = CLUSTERS["lab"]
    in_lab_ = LabSpec(kubernetes=KubernetesSpec(in_lab=True))
    said = "a lab has one of cilium-vxlan and cilium-native: compare each with the others in its own study"
    assert cluster.apart(in_lab_, every) == {"e3": said}
    assert cluster.apart(in_lab_, every[:3]) == {}
    assert cluster.apart(LabSpec(), every) == {}, "a lab without Kubernetes has no runtime classes"


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


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kubernetes, "program", lambda name: None if name == "kubelet" else "/bin/true")
    assert in_lab.probe() == "kubelet is not installed: run tools/networks kubernetes"
    with pytest.raises(MissingTool, match="kubelet is not installed"), in_lab.running((), tmp_path):
        pass


def test_a_runtime_class_is_for_pods_of_a_kubernetes_alone() -> None:
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
