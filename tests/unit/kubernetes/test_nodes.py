"""Which nodes of a Kubernetes a study can use, what its pods ask for, and what can be told of the network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nodes import make_node
from tare.kubernetes import describe, making, manifests, nodes
from tare.kubernetes.describe import Seen
from tare.kubernetes.making import Making
from tare.model import Environment, KubernetesSpec, Placement, Share
from tare.node_service.order import Files, Order
from tare.remote.machine import Interface

READY = {"type": "Ready", "status": "True"}
FLANNEL = {"flannel.alpha.coreos.com/public-ip": "10.214.0.1", "flannel.alpha.coreos.com/backend-type": "vxlan"}


def node(
    name: str = "n0", *, cpu: str = "4", spec: Any = None, ready: bool = True, **annotations: str
) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "annotations": annotations},
        "spec": spec or {},
        "status": {
            "allocatable": {"cpu": cpu},
            "addresses": [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": "10.213.0.1"}],
            "conditions": [READY] if ready else [],
            "nodeInfo": {"bootID": "b", "kubeletVersion": "v1", "kernelVersion": "6.1"},
        },
    }


def test_a_node_says_its_cores_its_addresses_and_its_boot() -> None:
    plain = nodes.read(node(cpu="3900m"))
    assert (plain.cpus, plain.address, plain.data_address, plain.boot_id) == (3, "10.213.0.1", "10.213.0.1", "b")
    assert nodes.read(node(**FLANNEL)).data_address == "10.214.0.1"
    assert nodes.read(node(**{"projectcalico.org/IPv4Address": "10.9.0.4/24"})).data_address == "10.9.0.4"
    tainted = node(spec={"taints": [{"key": "gpu", "effect": "NoSchedule"}]})
    settings = KubernetesSpec(pod='{"tolerations": [{"operator": "Exists"}]}')
    assert nodes.read(tainted, making.tolerated(settings)).unusable == ""


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (node(), ""),
        (node(ready=False), "is not ready"),
        (node(spec={"unschedulable": True}), "is cordoned"),
        (node(spec={"taints": [{"key": "gpu", "effect": "NoSchedule"}]}), "has the taint gpu (name it in tolerations)"),
        (node(spec={"taints": [{"key": "known", "effect": "NoExecute"}]}), ""),
        (node(spec={"taints": [{"key": "soft", "effect": "PreferNoSchedule"}]}), ""),
    ],
)
def test_a_node_that_no_pod_can_be_on_says_why(made: dict[str, Any], why: str) -> None:
    assert nodes.read(made, {"known"}).unusable == why
    told = nodes.too_few([nodes.read(made, {"known"})], 1, "a=b")
    assert (told is None) == (not why)
    assert told is None or told.endswith(f"with the labels a=b that pods can use, and 1 are needed: n0 {why}")


def order(environment: Environment, placement: Placement) -> Order:
    files, nodes = Files(host_prefix=Path("/x"), image_tag="tare:0123456789abcdef"), (make_node(),)
    return Order(
        study="s-3", slot=3, environment=environment, placement=placement, nodes=nodes, nic=0, hosts=4, files=files
    )


def pods(settings: KubernetesSpec, placement: Placement, **more: Any) -> tuple[manifests.PodSpec, ...]:
    environment = Environment(name="e", runtime="kubernetes", network="pod-network", image="debian-openmpi", **more)
    made = Making(site="s", folder=Path("/tmp/tare-s"), namespace="n", settings=settings, node_image="service")
    return made.pods(order(environment, placement), "n0", "worker-7")


def test_a_pod_is_made_as_the_study_says() -> None:
    settings = KubernetesSpec(
        registry="r.example/me", pull_policy="Always", pull_secrets=("key",), resources=("rdma/hca=1",),
        annotations=("k8s.v1.cni.cncf.io/networks=roce",), pod='{"priorityClassName": "high"}',
    )  # fmt: skip
    (spec,) = pods(settings, Placement(ranks_per_node=2), env=("A=b",))
    pod = manifests.pod(spec)
    ranks, service = pod["spec"]["containers"]
    assert (pod["metadata"]["name"], pod["spec"]["nodeSelector"]) == ("e3-n0", {"kubernetes.io/hostname": "worker-7"})
    assert pod["metadata"]["annotations"] == {"k8s.v1.cni.cncf.io/networks": "roce"}
    assert pod["spec"]["priorityClassName"] == "high"
    assert pod["spec"]["imagePullSecrets"] == [{"name": "key"}]
    assert (ranks["image"], ranks["imagePullPolicy"]) == ("r.example/me/tare/debian-openmpi:0123456789abcdef", "Always")
    assert ranks["resources"] == {"requests": {"rdma/hca": "1"}, "limits": {"rdma/hca": "1"}}
    assert ranks["env"] == [{"name": "A", "value": "b"}]
    assert "resources" not in service, "the pod asks for no cores"
    assert "hostNetwork" not in pod["spec"]
    assert "runtimeClassName" not in pod["spec"]
    (spec,) = pods(KubernetesSpec(), Placement(), runtime_class="host-gw")
    assert manifests.pod(spec)["spec"]["runtimeClassName"] == "host-gw"


def test_exclusive_pods_ask_for_the_whole_cores_of_their_ranks_and_for_no_more() -> None:
    shared = Placement(ranks_per_node=4, containers_per_node=2, share=Share.NONE, threads_per_rank=2)
    both = pods(KubernetesSpec(exclusive=True), shared)
    assert [spec.name for spec in both] == ["e3-n0c0", "e3-n0c1"]
    for spec in both:
        ranks, service = manifests.pod(spec)["spec"]["containers"]
        assert ranks["resources"]["requests"] == ranks["resources"]["limits"] == {"cpu": "4"}
        assert service["resources"]["requests"] == service["resources"]["limits"]
    (limited,) = pods(KubernetesSpec(), Placement(memory_per_container=1 << 30, cpus_per_container=0.5))
    wanted = {"cpu": "0.5", "memory": str(1 << 30)}
    assert manifests.pod(limited)["spec"]["containers"][0]["resources"] == {"requests": wanted, "limits": wanted}


def test_addresses_and_interfaces_tell_the_network() -> None:
    assert str(making.common_network(["10.244.0.5", "10.244.1.7"])) == "10.244.0.0/23"
    assert str(making.common_network(["10.244.0.5", "10.244.0.6"])) == "10.244.0.4/30"
    assert str(making.common_network(["10.244.0.5"])) == "10.244.0.4/30"
    assert str(making.common_network(["192.168.9.1", "10.0.0.1"])) == "0.0.0.0/0"
    pod = Seen(node="n0", of_node=False, interface="eth0", mtu=1450)
    tunnel = Interface(name="flannel.1", address="10.244.0.0", prefix=32, mtu=1450, kind="vxlan")
    host = Seen(node="n0", of_node=True, interface="data0", mtu=1500, others=(tunnel,))
    told = describe.network_of((pod, host))
    assert list(told.values()) == ["eth0 MTU 1450", "over data0 MTU 1500", "through flannel.1 (vxlan)"]
    plain = describe.network_of((Seen(node="n0", of_node=True, interface="eth0", mtu=9000),))
    assert list(plain.values()) == ["over eth0 MTU 9000", "without a tunnel on the nodes"]
