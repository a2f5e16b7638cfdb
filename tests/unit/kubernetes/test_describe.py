"""What a report says of a Kubernetes: its version, its nodes, and which network its pods have."""

from __future__ import annotations

from typing import Any, cast

from tare.errors import InfrastructureError
from tare.kubernetes.api import Api, ApiError
from tare.kubernetes.describe import Description, Seen

FLANNEL = {
    "metadata": {
        "name": "n0",
        "annotations": {
            "flannel.alpha.coreos.com/backend-type": "vxlan",
            "flannel.alpha.coreos.com/kube-subnet-manager": "true",
        },
    }
}
POD = Seen(node="n0", of_node=False, interface="eth0", mtu=1450)


class Answers:
    """An API server that lets nothing be read but what it has."""

    host = "https://127.0.0.1:6443"

    def __init__(self, **objects: Any) -> None:
        self._objects = objects

    def ask(self, _method: str, path: str, **_: Any) -> dict[str, Any]:
        name = path.rpartition("/")[2]
        if name not in self._objects:
            raise ApiError(f"cannot read {path}", status=403, reason="Forbidden")
        return dict(self._objects[name])


class Gone(Answers):
    def ask(self, _method: str, path: str, **_: Any) -> dict[str, Any]:
        raise InfrastructureError(f"no answer to {path}")


def facts(server: Answers) -> dict[str, Any]:
    return Description.read(cast("Api", server), "lab", ()).facts([POD])


def test_the_line_of_a_report_names_the_network_that_the_objects_tell_of() -> None:
    found = facts(Answers(version={"gitVersion": "v1.31.4"}, nodes={"items": [FLANNEL]}))
    assert found["machine"].startswith("Kubernetes v1.31.4; ")
    assert "pods' network: Flannel (VXLAN" in found["machine"]
    assert "eth0 MTU 1450" in found["machine"]
    assert any("backend" in each for each in found["Kubernetes"]["network told by"])


def test_what_may_not_be_read_is_named_and_the_network_is_unknown() -> None:
    found = facts(Answers(version={"gitVersion": "v1.31.4"}))
    assert "pods' network: unknown" in found["machine"]
    assert "list nodes" in found["Kubernetes"]["not readable"]


def test_a_server_that_does_not_answer_leaves_what_was_seen_in_the_pods() -> None:
    found = facts(Gone())
    assert found["machine"].endswith("pods' network: unknown (encapsulation not known), eth0 MTU 1450")


def test_the_network_of_each_runtime_class_is_named_as_far_as_it_is_known() -> None:
    titles = {"": "Flannel (VXLAN)", "routed": "routed by hand"}
    seen = [
        Seen(node="n0", of_node=True, interface="data0", mtu=1500),
        Seen(node="n0", of_node=True, interface="data0", mtu=1500, runtime_class="gvisor"),
        POD,
        Seen(node="n0", of_node=False, interface="eth0", mtu=1500, runtime_class="routed"),
        Seen(node="n1", of_node=False, interface="eth0", mtu=1400, runtime_class="fast"),
    ]
    server = Answers(version={"gitVersion": "v1.31.4"}, nodes={"items": [FLANNEL]})
    found = Description.read(cast("Api", server), "lab", (), titles).facts(seen)
    classes = found["Kubernetes"]["networks of runtime classes"]
    assert classes == {"fast": "a network that is not known, eth0 MTU 1400", "routed": "routed by hand, eth0 MTU 1500"}
    assert found["Kubernetes"]["network"]["pods"] == "eth0 MTU 1450"
    assert "; with runtime class routed: routed by hand, eth0 MTU 1500" in found["machine"]
    others = Description.read(cast("Api", server), "lab", (), titles).facts(seen[3:])["machine"]
    assert "Flannel" not in others, "no pod of the study is on the usual network"
    assert "networks of runtime classes" not in facts(server)["Kubernetes"]
