"""Which of a node's interfaces must carry the messages of pods, and which must not."""

from __future__ import annotations

from tare.counters.monitor import Unread
from tare.kubernetes.lab_networks import LAB_NETWORKS
from tare.kubernetes.pod_networks import on_node
from tare.model import InterfaceTraffic
from tare.node import NODE_BRIDGE, NODE_NIC, NODE_TUNNEL, SILENT_ROLE
from tare.run.proof import check_traffic
from tare.workloads.output import Payload

DEVICES = {name: each.devices for name, each in LAB_NETWORKS.items()}
PAYLOAD = 4_000_000


def roles(
    runtime_class: str, *, alone: bool = True, known: bool = True, tunnels: tuple[str, ...] = ()
) -> dict[str, str]:
    watches = on_node.watched("data0", tunnels, runtime_class, DEVICES if known else {}, alone=alone)
    assert {each.pid for each in watches} <= {on_node.OF_NODE}
    return {each.interface: each.role for each in watches}


def test_a_network_of_a_lab_is_proven_by_its_devices_and_by_the_silence_of_others() -> None:
    silent = dict.fromkeys(("cni0", "flannel.1", "cni-host-gw", "cilium_vxlan"), SILENT_ROLE)
    assert roles("") == {"data0": NODE_NIC, **silent, "cni0": NODE_BRIDGE, "flannel.1": NODE_TUNNEL}
    assert roles("host-gw") == {"data0": NODE_NIC, **silent, "cni-host-gw": NODE_BRIDGE}
    assert roles("cilium-vxlan") == {"data0": NODE_NIC, **silent, "cilium_vxlan": NODE_TUNNEL}
    assert roles("cilium-native") == {"data0": NODE_NIC, **silent}
    assert roles("routed") == {"data0": NODE_NIC, **silent}
    assert roles("routed", alone=False) == silent, "messages between pods of a node pass nothing of it"


def test_of_a_cluster_of_others_only_the_usual_network_has_a_known_tunnel() -> None:
    assert roles("", known=False, tunnels=("vxlan.calico",)) == {"data0": NODE_NIC, "vxlan.calico": NODE_TUNNEL}
    assert roles("", known=False, tunnels=("a", "b")) == {"data0": NODE_NIC}
    assert roles("fast", known=False, tunnels=("vxlan.calico",)) == {"data0": NODE_NIC}
    assert roles("fast", known=False, tunnels=("vxlan.calico",), alone=False) == {}


def test_what_should_be_silent_and_does_not_exist_carried_nothing_and_what_should_carry_is_missing() -> None:
    watches = on_node.watched("data0", (), "host-gw", DEVICES, alone=True)
    found = on_node.counted(watches, {"data0": (9, 1, 8, 1), "cni0": (5, 1, 4, 1), "lo": (1, 1, 1, 1)})
    silent = dict.fromkeys(("flannel.1", "cilium_vxlan"), (0,) * 4)
    assert found == {"data0": (9, 1, 8, 1), "cni0": (5, 1, 4, 1), **silent}


def judged(runtime_class: str, **carried: int) -> str | None:
    """Return what the proof says of pods whose nodes' interfaces carried so many bytes each way."""
    traffic = [
        InterfaceTraffic(
            node=node, interface=name, role=role, rx_bytes=carried.get(name.replace(".", "_").replace("-", "_"), 0),
            tx_bytes=carried.get(name.replace(".", "_").replace("-", "_"), 0), rx_packets=1, tx_packets=1,
        )
        for node in ("n0", "n1")
        for name, role in {"eth0": "pod's interface", **roles(runtime_class)}.items()
    ]  # fmt: skip
    payload = Payload(low_bytes=2 * PAYLOAD, high_bytes=2 * PAYLOAD, messages=200, known=True)
    unread: tuple[Unread, ...] = ()
    return check_traffic(traffic, payload, said_bytes=0, ranks=2, unread=unread)


def test_pods_that_take_another_network_than_their_cell_claims_are_found() -> None:
    sent = PAYLOAD + 100_000
    assert judged("host-gw", eth0=sent, data0=sent, cni_host_gw=sent) is None
    assert judged("routed", eth0=sent, data0=sent) is None
    through = judged("host-gw", eth0=sent, data0=sent, cni0=sent, flannel_1=sent) or ""
    assert "should have been silent" in through
    assert "cni-host-gw" in (judged("routed", eth0=sent, data0=sent, cni_host_gw=sent) or "")
    assert "the node's tunnel carried" in (judged("", eth0=sent, data0=sent, cni0=sent) or "")


def test_the_facts_of_pods_name_their_network() -> None:
    titles = {name: each.title for name, each in LAB_NETWORKS.items()}
    assert on_node.named("routed", titles)["pods' network"].startswith("routed (Calico's data path without Calico")
    assert on_node.named("", titles) == {"pods' network": "Flannel (VXLAN)"}
    assert on_node.named("fast", {}) == {"runtime class": "fast"}
    assert on_node.named("", {}) == {}
