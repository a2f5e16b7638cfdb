"""Pods are waited for until they run or are gone, and their networks are recognised and tried."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tare.clusters import kubernetes_site
from tare.clusters.pods import pods
from tare.clusters.pods.api import ApiError
from tare.clusters.pods.manifests import PodSpec
from tare.clusters.pods.pod_networks import ClusterObjects, RecognisedNetwork, recognise
from tare.clusters.pods.pod_networks.look import pod_network
from tare.clusters.pods.pod_networks.products import PRODUCTS
from tare.clusters.pods.pod_networks.recognise import repository_and_version
from tare.clusters.pods.pod_networks.settings import setting
from tare.clusters.pods.pods import Pods
from tare.clusters.pods.policy import check
from tare.clusters.pods.policy.check import INSIDE, OUTSIDE, tried
from tare.clusters.pods.policy.manifest import CONNECTS, LISTENS, PORT, network_policy, trying
from tare.errors import InfrastructureError
from waiting import wait_until

READY = {"status": {"phase": "Running", "containerStatuses": [{"ready": True, "state": {"running": {}}}]}}
PENDING: dict[str, Any] = {"status": {"phase": "Pending"}}
GONE = ApiError('pods "p0" not found', status=404, reason="NotFound")
SPEC = PodSpec(name="p0", namespace="s1", run="s1", slot=0, node="n0", image="app", node_image="node")


class FakeApi:
    """Answers each request from a list; the last answer is repeated."""

    def __init__(self, **answers: Sequence[Any]) -> None:
        self.answers = {method: list(each) for method, each in answers.items()}
        self.asked: list[tuple[str, str]] = []

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None, **_: Any) -> dict[str, Any]:
        self.asked.append((method, path))
        left = self.answers[method]
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return dict(body or {}) if answer is None else answer


def of(api: FakeApi) -> Pods:
    return Pods(api=api, namespace="s1")  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pods, "PAUSE_S", 0.001)
    monkeypatch.setattr(check, "PAUSE_S", 0.001)


def test_pods_are_waited_for_until_they_run_end_or_are_late(monkeypatch: pytest.MonkeyPatch) -> None:
    api = FakeApi(GET=[PENDING, READY, PENDING, READY])
    assert of(api).wait(["p0", "p1"]) == {"p0": READY, "p1": READY}
    assert {path for _, path in api.asked} == {"/api/v1/namespaces/s1/pods/p0", "/api/v1/namespaces/s1/pods/p1"}
    assert of(FakeApi(GET=[READY])).ended("p0") is None
    lost = InfrastructureError("the Kubernetes API server https://x does not answer: timed out")
    assert of(FakeApi(GET=[lost])).ended("p0") == lost.message
    assert of(FakeApi(GET=[GONE])).ended("p0") == 'pod p0: pods "p0" not found'
    monkeypatch.setattr(pods, "READY_S", 0.02)
    events = {"items": [{"reason": "Pulling", "message": "Pulling image app"}]}
    api = FakeApi(GET=[PENDING])
    monkeypatch.setattr(Pods, "events", lambda *_: tuple(events["items"]))
    with pytest.raises(InfrastructureError, match=r"pod p0 does not run after 0\.02 s: Pulling image app"):
        of(api).wait(["p0"])


def test_a_removed_pod_is_gone_and_one_that_stays_is_named_with_its_finalizers(monkeypatch: pytest.MonkeyPatch) -> None:
    api = FakeApi(DELETE=[{}], GET=[READY, READY, GONE])
    of(api).remove(["p0"])
    assert [method for method, _ in api.asked] == ["DELETE", "GET", "GET", "GET"]
    of(FakeApi(DELETE=[GONE])).remove(["p0"])
    monkeypatch.setattr(pods, "GONE_S", 0.02)
    with pytest.raises(InfrastructureError, match="the pods p0 are not removed after"):
        of(FakeApi(DELETE=[{}], GET=[READY])).remove(["p0"])
    held = {"metadata": {"name": "p0", "finalizers": ["a.invalid/x", "b.invalid/y"]}}
    with pytest.raises(InfrastructureError, match=r"s: pod p0 has the finalizer a\.invalid/x, b\.invalid/y") as caught:
        of(FakeApi(DELETE=[{}], GET=[held])).remove(["p0"])
    assert caught.value.remedy.startswith("who set a finalizer removes it")


def test_a_namespace_is_removed_and_what_keeps_one_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_site, "PAUSE_S", 0.001)
    monkeypatch.setattr(kubernetes_site, "GONE_S", 0.02)

    def remove(*answers: Any) -> FakeApi:
        api = FakeApi(DELETE=[GONE], GET=answers)
        kubernetes_site.remove_namespace(api, "s1")  # type: ignore[arg-type]
        return api

    assert remove({}, {}, GONE).asked == [(method, "/api/v1/namespaces/s1") for method in ("DELETE", *["GET"] * 3)]
    with pytest.raises(InfrastructureError, match="the namespace s1 is not removed: forbidden"):
        remove(ApiError("forbidden", status=403))
    kept = {"type": "NamespaceContentRemaining", "status": "True", "message": "x.invalid has 2 resources"}
    with pytest.raises(InfrastructureError, match=r"s1 is not gone after 0\.02 s: x\.invalid has 2 resources"):
        remove({"status": {"conditions": [kept, {**kept, "status": "False", "message": "no"}]}})
    pod = {"metadata": {"name": "p0", "finalizers": ["a.invalid/x"]}}
    with pytest.raises(
        InfrastructureError, match=r"s1 is not gone after 0\.02 s: pod p0 has the finalizer a\.invalid/x"
    ):
        remove({"items": [pod], **pod})


def test_a_pod_on_a_node_that_is_not_ready_is_not_waited_for_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pods, "NODE_S", 0.0)
    placed = {**PENDING, "spec": {"nodeName": "n1"}}
    condition = {"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting node status."}
    lost = {"metadata": {"name": "n1"}, "status": {"conditions": [condition]}}
    with pytest.raises(InfrastructureError, match="pod p0 does not run: its node n1 is not ready: Kubelet stopped"):
        of(FakeApi(GET=[placed, lost])).wait(["p0"])
    there = {"metadata": {"name": "n1"}, "status": {"conditions": [{**condition, "status": "True"}]}}
    assert of(FakeApi(GET=[placed, there, PENDING, READY])).wait(["p0"]) == {"p0": READY}
    refused = ApiError("nodes is forbidden", status=403)
    assert of(FakeApi(GET=[placed, refused, READY])).wait(["p0"]) == {"p0": READY}


@pytest.mark.parametrize(
    ("refusal", "remedy"),
    [
        (ApiError('pods is forbidden: User "x" cannot create resource "pods" in API group ""', status=403),
         "allow this user to create pods"),
        (ApiError("forbidden by a webhook", status=403), "allow this user to do it"),
        (ApiError("exceeded quota: small", status=403), "a larger quota"),
        (ApiError("maximum cpu usage per Container is 1, but limit is 2", status=403), "a LimitRange of the namespace"),
        (ApiError('pod rejected: RuntimeClass "x" not found', status=403), "see `kubectl get runtimeclasses`"),
        (ApiError("Unauthorized", status=401), "sign in again"),
        (ApiError("already exists", status=409), "tare clean"),
    ],
)  # fmt: skip
def test_a_refusal_says_what_would_help(refusal: ApiError, remedy: str) -> None:
    with pytest.raises(InfrastructureError, match="pod p0: ") as caught:
        of(FakeApi(POST=[refusal])).create(SPEC)
    assert remedy in caught.value.remedy


class Cluster:
    """A cluster in which a policy denies some connections; who is `cut` off is so always."""

    def __init__(self, *, denies: tuple[str, ...] = (), cut: tuple[str, ...] = ()) -> None:
        self.denied = cut
        self._denies = denies

    def connects(self, name: str) -> bool:
        return name not in self.denied

    def put(self) -> None:
        self.denied = (*self.denied, *self._denies)


def said(cluster: Cluster) -> str:
    return tried(cluster.connects, cluster.put, takes_s=0)


def test_a_policy_is_in_force_only_if_it_denies_what_worked_before_and_leaves_the_inside() -> None:
    assert said(Cluster(denies=(OUTSIDE,))) == "the network policy is in force: another namespace was denied"
    answers = iter((True, False, True, True))
    found = tried(lambda _name: next(answers), lambda: None, takes_s=0)
    assert found == "the policy is not in force: a pod of another namespace connects at times"
    with pytest.raises(InfrastructureError, match="do not reach each other under the network policy"):
        said(Cluster(denies=(INSIDE, OUTSIDE)))


@pytest.mark.parametrize(
    ("cluster", "sentence"),
    [
        (Cluster(), "the policy is not in force: after 0 s a pod of another namespace still connects"),
        (Cluster(cut=(OUTSIDE,)), "the network policy is not shown to be in force: no pod was reached before"),
        (Cluster(denies=(OUTSIDE,), cut=(OUTSIDE,)),
         "the network policy is not shown to be in force: no pod was reached before"),
    ],
)  # fmt: skip
def test_without_a_denied_connection_nothing_is_claimed(cluster: Cluster, sentence: str) -> None:
    assert said(cluster) == sentence


def test_the_policy_selects_all_pods_and_one_that_tries_has_no_rights() -> None:
    made = network_policy("s", "s1")
    assert (made["spec"]["podSelector"], made["spec"]["policyTypes"]) == ({}, ["Ingress", "Egress"])
    assert made["spec"]["ingress"] == [{"from": [{"podSelector": {}}]}]
    among, names = made["spec"]["egress"]
    assert (among, {each["port"] for each in names["ports"]}) == ({"to": [{"podSelector": {}}]}, {53})
    assert made["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "tare"
    made = trying(replace(SPEC, pull_policy="Never", fields={"priorityClassName": "low"}))
    (container,) = made["spec"]["containers"]
    assert (container["image"], container["imagePullPolicy"]) == ("node", "Never")
    assert made["spec"]["automountServiceAccountToken"] is False
    assert made["spec"]["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert made["spec"]["priorityClassName"] == "low"
    assert "privileged" not in str(made)


def test_the_programs_of_the_pods_tell_a_listener_from_none() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        listens, connects = (text.replace(str(PORT), str(bound.getsockname()[1])) for text in (LISTENS, CONNECTS))

        def is_reached() -> bool:
            return subprocess.run([sys.executable, "-IS", "-c", connects, "127.0.0.1"], check=False).returncode == 0

        assert not is_reached()
    with subprocess.Popen([sys.executable, "-IS", "-c", listens]) as listener:
        try:
            wait_until(is_reached)
        finally:
            listener.kill()


CASES = Path(__file__).parents[3] / "data" / "pod_networks"
FILES = sorted(CASES.glob("*.yaml"))
OBJECTS = ("nodes", "workloads", "config_maps", "ip_pools")


def seen_of(stated: Mapping[str, Any]) -> ClusterObjects:
    return ClusterObjects(**{key: tuple(stated.get(key, ())) for key in (*OBJECTS, "unread")})


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_network_is_recognised_with_all_that_its_objects_say(file: Path) -> None:
    case = yaml.safe_load(file.read_text())
    told = asdict(recognise(seen_of(case["seen"])))
    expected = {**asdict(RecognisedNetwork()), **case["expected"]}
    assert {key: list(value) if isinstance(value, tuple) else value for key, value in told.items()} == {
        key: list(value) if isinstance(value, tuple) else value for key, value in expected.items()
    }


def test_every_product_has_a_case_and_settings_and_titles_are_read() -> None:
    products = {yaml.safe_load(file.read_text())["expected"]["product"] for file in FILES}
    assert products == {product.name for product in PRODUCTS} | {"unknown"}
    assert setting("#mode: a\n mode: 'b' # why\nmodes: c\n", "mode") == "b"
    assert (setting("mode=\nother: x", "mode"), RecognisedNetwork().title) == ("", "unknown (encapsulation not known)")
    told = RecognisedNetwork(product="Calico", version="v3", encapsulation="VXLAN", between_subnets_only=True, mtu=1450)
    assert told.title == "Calico v3 (VXLAN between subnets only, MTU 1450)"
    assert RecognisedNetwork(product="kindnet", encapsulation="none").title == "kindnet (not encapsulated)"
    image = "docker.io/calico/node:v1\x1b[2J"
    workload = {"metadata": {"name": "calico-node", "namespace": "x\n"}, "spec": {"containers": [{"image": image}]}}
    told = recognise(ClusterObjects(workloads=(workload,)))
    assert (told.product, told.version) == ("Calico", "")
    assert all("\x1b" not in line and "\n" not in line for line in told.evidence)


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


class Objects:
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
    cluster = Objects(flannel())
    told = pod_network(cluster)  # type: ignore[arg-type]
    assert (told.product, told.between_subnets_only, told.unread) == ("Flannel", True, ())
    assert cluster.asked == list(flannel())[:2] + list(flannel())[3:]
    cluster = Objects(flannel(), ("/apis", "/api/v1/namespaces"))
    told = pod_network(cluster)  # type: ignore[arg-type]
    assert (told.product, told.encapsulation, told.version) == ("Flannel", "VXLAN", "")
    assert "list daemonsets in kube-flannel" in told.unread
    assert "get configmaps in kube-flannel" in told.unread
    assert len(set(told.unread)) == len(told.unread)
    nothing = pod_network(Objects({}, ("/",)))  # type: ignore[arg-type]
    assert (nothing.product, nothing.unread[0]) == ("unknown", "list nodes")
    told = pod_network(Objects(flannel(), ("/apis/apps/v1/daemonsets",)))  # type: ignore[arg-type]
    assert (told.product, told.version, told.unread) == ("Flannel", "v0.26.7", ())
