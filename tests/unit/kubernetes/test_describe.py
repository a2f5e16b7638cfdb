"""What a report says of a Kubernetes and its pods' network, which interfaces prove it, and whose CPU times count."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from nodes import make_node
from tare.counters.monitor import CounterValues, Moment, merged
from tare.errors import InfrastructureError
from tare.kubernetes.api import Api, ApiError
from tare.kubernetes.describe import Description, Seen
from tare.kubernetes.lab_networks import LAB_NETWORKS
from tare.kubernetes.mpi_jobs.counts import JobCounts
from tare.kubernetes.node import KubernetesNode
from tare.kubernetes.pod_networks import on_node
from tare.model import InterfaceTraffic
from tare.node import NODE_BRIDGE, NODE_NIC, NODE_TUNNEL, SILENT_ROLE
from tare.run.proof import check_traffic
from tare.workloads.output import Payload

BACKEND = {"flannel.alpha.coreos.com/backend-type": "vxlan", "flannel.alpha.coreos.com/kube-subnet-manager": "true"}
FLANNEL = {"metadata": {"name": "n0", "annotations": BACKEND}}
POD = Seen(node="n0", of_node=False, interface="eth0", mtu=1450)
DEVICES = {name: each.devices for name, each in LAB_NETWORKS.items()}
PAYLOAD = 4_000_000


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


def facts(server: Answers, seen: list[Seen] | None = None, titles: dict[str, str] | None = None) -> dict[str, Any]:
    return Description.read(cast("Api", server), "lab", (), *([titles] if titles else [])).facts(seen or [POD])


def test_the_line_of_a_report_names_the_network_that_the_objects_tell_of() -> None:
    found = facts(SERVER)
    assert found["machine"].startswith("Kubernetes v1.31.4; ")
    assert "pods' network: Flannel (VXLAN" in found["machine"]
    assert "eth0 MTU 1450" in found["machine"]
    assert any("backend" in each for each in found["Kubernetes"]["network told by"])
    assert "networks of runtime classes" not in found["Kubernetes"]


def test_what_may_not_be_read_is_named_and_what_was_seen_in_the_pods_stays() -> None:
    found = facts(Answers(version=VERSION))
    assert "pods' network: unknown" in found["machine"]
    assert "list nodes" in found["Kubernetes"]["not readable"]
    machine = facts(Answers(gone=True))["machine"]
    assert machine.endswith("pods' network: unknown (encapsulation not known), eth0 MTU 1450")


def test_the_network_of_each_runtime_class_is_named_as_far_as_it_is_known() -> None:
    titles = {"": "Flannel (VXLAN)", "routed": "routed by hand"}
    seen = [
        Seen(node="n0", of_node=True, interface="data0", mtu=1500),
        Seen(node="n0", of_node=True, interface="data0", mtu=1500, runtime_class="gvisor"),
        POD,
        Seen(node="n0", of_node=False, interface="eth0", mtu=1500, runtime_class="routed"),
        Seen(node="n1", of_node=False, interface="eth0", mtu=1400, runtime_class="fast"),
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


def test_a_network_of_a_lab_is_proven_by_its_devices_and_by_the_silence_of_others() -> None:
    silent = dict.fromkeys(("cni0", "flannel.1", "cni-host-gw", "cilium_vxlan"), SILENT_ROLE)
    assert roles("") == {"data0": NODE_NIC, **silent, "cni0": NODE_BRIDGE, "flannel.1": NODE_TUNNEL}
    assert roles("host-gw") == {"data0": NODE_NIC, **silent, "cni-host-gw": NODE_BRIDGE}
    assert roles("cilium-vxlan") == {"data0": NODE_NIC, **silent, "cilium_vxlan": NODE_TUNNEL}
    assert roles("cilium-native") == roles("routed") == {"data0": NODE_NIC, **silent}
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


def judged(runtime_class: str, **carried: int) -> str:
    """Return what the proof says of pods whose nodes' interfaces carried so many bytes each way."""
    passed = {
        name: carried.get(name.replace(".", "_").replace("-", "_"), 0) for name in ("eth0", *roles(runtime_class))
    }
    traffic = [
        InterfaceTraffic(
            node=node, interface=name, role={"eth0": "pod's interface", **roles(runtime_class)}[name],
            rx_bytes=count, tx_bytes=count, rx_packets=1, tx_packets=1,
        )
        for node in ("n0", "n1")
        for name, count in passed.items()
    ]  # fmt: skip
    payload = Payload(low_bytes=2 * PAYLOAD, high_bytes=2 * PAYLOAD, messages=200, known=True)
    return check_traffic(traffic, payload, said_bytes=0, ranks=2, unread=()) or ""


def test_pods_that_take_another_network_than_their_cell_claims_are_found() -> None:
    sent = PAYLOAD + 100_000
    assert judged("host-gw", eth0=sent, data0=sent, cni_host_gw=sent) == judged("routed", eth0=sent, data0=sent) == ""
    assert "should have been silent" in judged("host-gw", eth0=sent, data0=sent, cni0=sent, flannel_1=sent)
    assert "cni-host-gw" in judged("routed", eth0=sent, data0=sent, cni_host_gw=sent)
    assert "the node's tunnel carried" in judged("", eth0=sent, data0=sent, cni0=sent)


def test_the_facts_of_pods_name_their_network() -> None:
    titles = {name: each.title for name, each in LAB_NETWORKS.items()}
    assert on_node.named("routed", titles)["pods' network"].startswith("routed (Calico's data path without Calico")
    assert on_node.named("", titles) == {"pods' network": "Flannel (VXLAN)"}
    assert on_node.named("fast", {}) == {"runtime class": "fast"}
    assert on_node.named("", {}) == {}


@pytest.mark.parametrize(("lab_node", "busy_s"), [(None, 200.0), (make_node(), 100.0)])
def test_cpu_times_of_a_labs_nodes_which_are_one_machine_count_once(lab_node: Any, busy_s: float) -> None:
    service = SimpleNamespace(counters=lambda *_: CounterValues(machine="pod", busy_s=100.0, steal_s=30.0))
    gate, nothing, read = (
        cast("Any", SimpleNamespace(settle=lambda: None, prepare=lambda _: None)),
        cast("Any", None),
        [],
    )
    for name in ("alpha", "beta"):
        node = KubernetesNode(make_node(name=name, machine=name), nothing, nothing, gate, "", lab_node)
        deployment: Any = SimpleNamespace(services=[service], specs=(), passes=(), jobs=JobCounts())
        node._deployments["study"] = deployment
        read.append(node.counters("study"))
    assert merged(read, Moment(tare_s=0.0)).busy_s == busy_s
