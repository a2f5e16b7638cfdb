"""Multus: what a pod asks for, the network that its messages take, and the interface whose counters prove it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodes import make_node, make_pod
from tare.errors import InfrastructureError
from tare.kubernetes import manifests
from tare.kubernetes.manifests import PodSpec
from tare.kubernetes.pod_networks.further import ASKED, Further, attached, for_messages
from tare.kubernetes.pod_service import PodService
from tare.model import InterfaceTraffic
from tare.networks import find
from tare.node import Watch
from tare.remote.machine import Interface, Machine
from tare.run.proof import check_traffic
from tare.workloads.output import Payload

WISH = {ASKED: "hpc/macvlan-fast"}
SPEC = PodSpec(
    name="e0-n0", namespace="s", run="s", slot=0, node="worker", image="app", node_image="service", annotations=WISH
)
STATUS = [
    {
        "name": "cbr0", "interface": "eth0", "ips": ["10.244.1.7"], "mac": "5e:01:02:03:04:05", "default": True,
        "dns": {}, "gateway": ["10.244.1.1"],
    },
    {"name": "hpc/v6-only", "interface": "net1", "ips": ["fd00::7"], "mac": "5e:01:02:03:04:06", "dns": {}},
    {"name": "hpc/macvlan-fast", "interface": "net2", "ips": ["fd00::8", "192.168.50.7"], "mac": "5e:01", "dns": {}},
    {"name": "hpc/storage", "interface": "net3", "ips": ["192.168.60.7"], "mac": "5e:02", "dns": {}},
]  # fmt: skip
"""What Multus 4 writes into a pod's annotation, as its documentation shows it."""
FAST = Further(name="hpc/macvlan-fast", interface="net2", address="192.168.50.7")
STORAGE = Further(name="hpc/storage", interface="net3", address="192.168.60.7")


def pod(status: object = STATUS, name: str = "k8s.v1.cni.cncf.io/network-status") -> dict[str, Any]:
    text = status if isinstance(status, str) else json.dumps(status)
    return {"metadata": {"name": "e0-n0", "annotations": {**WISH, name: text}}, "status": {"podIP": "10.244.1.7"}}


def test_a_pod_asks_for_its_network_and_gets_those_with_an_address() -> None:
    golden = Path(__file__).parents[2] / "golden" / "kubernetes" / "pod-with-further-network.json"
    assert json.dumps(manifests.pod(SPEC), indent=2) + "\n" == golden.read_text()
    assert attached(pod()) == attached(pod(name="k8s.v1.cni.cncf.io/networks-status")) == (FAST, STORAGE)
    with pytest.raises(InfrastructureError, match="pod e0-n0 did not get the network hpc/macvlan-fast") as caught:
        for_messages(pod([STATUS[0]]), WISH, "10.0.0.0/8")
    assert "Multus" in caught.value.remedy


@pytest.mark.parametrize(
    "status", ["", "{", "{}", "[1]", "[]", '[{"default": true, "ips": ["10.0.0.1"]}]', '[{"ips": 7}]', '[{"ips": [7]}]']
)
def test_what_is_no_status_is_no_network(status: str) -> None:
    assert attached(pod(status)) == ()


@pytest.mark.parametrize(("subnet", "found"), [("10.214.0.2", FAST), ("192.168.60.0/24", STORAGE)])
def test_messages_take_the_first_network_or_that_of_the_subnet(subnet: str, found: Further) -> None:
    assert for_messages(pod(), WISH, subnet) == found
    assert for_messages(pod(), {"other": "x"}, subnet) is None, "nobody asked for a network"


def test_the_further_interface_is_the_pods_nic_and_is_watched(tmp_path: Path) -> None:
    interfaces = (
        Interface(name="eth0", address="10.244.1.7", prefix=24, mtu=1450),
        Interface(name="net2", address="192.168.50.7", prefix=24, mtu=9000),
    )
    machine = Machine(
        hostname="e0-n0", boot_id="b", architecture="x86_64", libc="", kernel="", python="", uid=0, is_root=True,
        cores=(0, 1), layout=(), interfaces=interfaces,
    )  # fmt: skip
    nothing: Any = {"number": 0, "gate": None, "pods": None, "folder": tmp_path}
    service = PodService(node=make_node(cores=(0,)), spec=SPEC, **nothing)
    inner = service._inner("n0", machine, service._address_of(pod(), "10.214.0.2"))
    (nic,) = inner.nics
    assert (nic.name, nic.address, nic.prefix, nic.mtu) == ("net2", "192.168.50.7", 24, 9000)
    assert not service.takes_cluster_network
    assert service.facts == {"further network": "hpc/macvlan-fast"}
    with find("pod-network").attach(make_pod(inner), nic) as endpoint:
        assert endpoint.watches == (Watch(pid=0, interface="net2", role="pod's interface"),)
    plain = PodService(node=make_node(), spec=replace(SPEC, annotations={}), **nothing)
    assert plain._address_of(pod(), "10.214.0.2") == "10.244.1.7"
    assert plain.takes_cluster_network


@pytest.mark.parametrize(("passed", "refusal"), [(420_000, None), (900, "the pod's interface carried 3600 bytes")])
def test_counters_of_the_further_interface_prove_that_messages_took_it(passed: int, refusal: str | None) -> None:
    payload = Payload(low_bytes=800_000, high_bytes=820_000, messages=100, known=True)
    traffic = [
        InterfaceTraffic(node=node, interface="net2", role="pod's interface", rx_bytes=passed, tx_bytes=passed,
                         rx_packets=100, tx_packets=100)
        for node in ("n0", "n1")
    ]  # fmt: skip
    found = check_traffic(traffic, payload, said_bytes=0, ranks=2)
    assert (found is None) == (refusal is None)
    assert refusal is None or (found or "").startswith(refusal)
