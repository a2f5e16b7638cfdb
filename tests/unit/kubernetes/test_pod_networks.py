"""Pod networks are recognised from the objects of their products' manifests, with few rights, and from odd objects."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tare.kubernetes.api import ApiError
from tare.kubernetes.pod_networks import Interface, PodNetwork, Seen, recognise
from tare.kubernetes.pod_networks.look import pod_network
from tare.kubernetes.pod_networks.objects import repository_and_version, setting
from tare.kubernetes.pod_networks.recognise import PRODUCTS

CASES = Path(__file__).parents[2] / "data" / "pod_networks"
FILES = sorted(CASES.glob("*.yaml"))
OBJECTS = ("nodes", "workloads", "config_maps", "ip_pools", "pods")


def seen_of(stated: Mapping[str, Any]) -> Seen:
    objects = {key: tuple(stated.get(key, ())) for key in (*OBJECTS, "unread")}
    links = {
        key: tuple(Interface(**one) for one in stated.get(key, ())) for key in ("pod_interfaces", "node_interfaces")
    }
    return Seen(**objects, **links)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_network_is_recognised_with_all_that_its_objects_say(file: Path) -> None:
    case = yaml.safe_load(file.read_text())
    told = asdict(recognise(seen_of(case["seen"])))
    expected = {**asdict(PodNetwork()), **case["expected"]}
    assert {key: list(value) if isinstance(value, tuple) else value for key, value in told.items()} == {
        key: list(value) if isinstance(value, tuple) else value for key, value in expected.items()
    }


def test_every_product_has_a_case() -> None:
    products = {yaml.safe_load(file.read_text())["expected"]["product"] for file in FILES}
    assert products == {product.name for product in PRODUCTS} | {"Canal", "unknown"}


NAMES = st.sampled_from(
    ["metadata", "name", "namespace", "annotations", "spec", "template", "containers", "image", "env", "args", "data",
     "status", "conditions", "type", "reason", "cidr", "ipipMode", "disabled", "podIP", "net-conf.json", "Backend",
     "calico-node", "docker.io/calico/node:v3", "projectcalico.org/IPv4Address", "kube-flannel-cfg", "cilium-config",
     "flannel.alpha.coreos.com/backend-type", "antrea-config", "antrea-agent.conf", "veth_mtu", "mtu", "10.0.0.0/8"]
)  # fmt: skip
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(max_size=3), inner, max_size=4),
    max_leaves=25,
)


@given(st.fixed_dictionaries({key: st.lists(ODD, max_size=3) for key in OBJECTS}))
def test_odd_objects_never_raise(stated: dict[str, Any]) -> None:
    told = recognise(seen_of(stated))
    assert all(line.isprintable() for line in (told.product, told.version, told.encapsulation, *told.evidence))
    assert told.title


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, inner in members for found in paths_of(inner, (*path, key)))]


@given(st.sampled_from(FILES), ODD, st.data())
def test_a_real_object_with_one_odd_field_never_raises(file: Path, odd: Any, data: st.DataObject) -> None:
    stated = json.loads(json.dumps(yaml.safe_load(file.read_text())["seen"]))
    objects = {key: stated[key] for key in OBJECTS if key in stated}
    *before, last = data.draw(st.sampled_from([path for path in paths_of(objects) if len(path) > 1] or [("nodes", 0)]))
    if not objects:
        return
    inner = objects
    for key in before:
        inner = inner[key]
    inner[last] = odd  # type: ignore[index]
    assert recognise(seen_of({**stated, **objects})).title


def test_text_of_a_cluster_cannot_control_the_terminal() -> None:
    image = "docker.io/calico/node:v1\x1b[2J"
    workload = {"metadata": {"name": "calico-node", "namespace": "x\n"}, "spec": {"containers": [{"image": image}]}}
    told = recognise(Seen(workloads=(workload,)))
    assert told.product == "Calico"
    assert told.version == ""
    assert all("\x1b" not in line and "\n" not in line for line in told.evidence)


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("calico/node:v3.26.1", ("calico/node", "v3.26.1")),
        ("mirror.example:5000/calico/node", ("mirror.example:5000/calico/node", "")),
        ("mirror.example:5000/calico/node:v3@sha256:01", ("mirror.example:5000/calico/node", "v3")),
        ("calico/node@sha256:01", ("calico/node", "")),
        ("", ("", "")),
    ],
)
def test_the_version_of_an_image_is_its_tag(image: str, expected: tuple[str, str]) -> None:
    assert repository_and_version(image) == expected


def test_a_setting_is_read_where_it_is_set_and_the_title_says_what_is_not_known() -> None:
    assert setting("#mode: a\n mode: 'b' # why\nmodes: c\n", "mode") == "b"
    assert setting("mode=\nother: x", "mode") == ""
    assert PodNetwork().title == "unknown (encapsulation not known)"
    told = PodNetwork(product="Calico", version="v3", encapsulation="VXLAN", between_subnets_only=True, mtu=1450)
    assert told.title == "Calico v3 (VXLAN between subnets only, MTU 1450)"
    assert PodNetwork(product="kindnet", encapsulation="none").title == "kindnet (not encapsulated)"


class Cluster:
    """Answers as an API server does: `objects` by path, and 403 for what begins with one of `forbidden`."""

    def __init__(self, objects: Mapping[str, Any], forbidden: Sequence[str] = ()) -> None:
        self.objects = objects
        self.forbidden = tuple(forbidden)
        self.asked: list[str] = []

    def ask(self, method: str, path: str, *, query: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
        assert method == "GET"
        self.asked.append(path)
        if path.startswith(self.forbidden):
            raise ApiError("no", status=403, reason="Forbidden")
        if path not in self.objects:
            raise ApiError("not there", status=404, reason="NotFound")
        return dict(self.objects[path])


def flannel() -> dict[str, Any]:
    case = yaml.safe_load((CASES / "flannel-vxlan.yaml").read_text())["seen"]
    return {
        "/api/v1/nodes": {"items": case["nodes"]},
        "/apis/apps/v1/daemonsets": {"items": case["workloads"]},
        "/apis/apps/v1/namespaces/kube-flannel/daemonsets": {"items": case["workloads"]},
        "/api/v1/namespaces/kube-flannel/configmaps/kube-flannel-cfg": case["config_maps"][0],
    }


def test_only_what_the_likely_products_have_is_asked_for_and_what_may_not_be_read_is_named_once() -> None:
    cluster = Cluster(flannel())
    told = pod_network(cluster)  # type: ignore[arg-type]
    assert (told.product, told.between_subnets_only, told.unread) == ("Flannel", True, ())
    assert cluster.asked == list(flannel())[:2] + list(flannel())[3:]
    cluster = Cluster(flannel(), ("/apis", "/api/v1/namespaces"))
    told = pod_network(cluster)  # type: ignore[arg-type]
    assert (told.product, told.encapsulation, told.version) == ("Flannel", "VXLAN", "")
    assert "list daemonsets in kube-flannel" in told.unread
    assert "get configmaps in kube-flannel" in told.unread
    assert len(set(told.unread)) == len(told.unread)
    nothing = pod_network(Cluster({}, ("/",)))  # type: ignore[arg-type]
    assert nothing.product == "unknown"
    assert nothing.unread[0] == "list nodes"
    told = pod_network(Cluster(flannel(), ("/apis/apps/v1/daemonsets",)))  # type: ignore[arg-type]
    assert (told.product, told.version, told.unread) == ("Flannel", "v0.26.7", ())
