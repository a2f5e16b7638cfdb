"""A network policy on a real Kubernetes: flannel enforces none, and a denied connection is seen where one is."""

from __future__ import annotations

import html
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from integration.live import lab_site, live, outcome, tare, trials, write_study
from integration.test_networks_flannel import CANNOT
from kubernetes_rights import OF_POLICY, SELECTOR
from kubernetes_rights import role as role_of
from tare.clusters.lab_site import LabSite
from tare.clusters.pods import api, in_lab
from tare.clusters.pods.api import Api, ApiError
from tare.clusters.pods.in_lab import LabKubernetes
from tare.clusters.pods.policy import manifest
from tare.daemons.kubernetes import User
from tare.images import find_recipe
from tare.images.build import ensure_image
from tare.images.convert import ensure_file
from tare.images.recipe import service
from tare.networks import flannel
from tare.system.process import run
from waiting import wait_until

pytestmark = [
    pytest.mark.long,
    *live("kubernetes", "flannel", "etcd", "cni", "docker", "iptables"),
    pytest.mark.skipif(not flannel.BRIDGE_NETFILTER.exists(), reason=f"{CANNOT}br_netfilter is not loaded"),
]

USER: Final = User(name="student")
AUTHORIZATION: Final = "authorization.k8s.io/v1"
RBAC: Final = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
POLICIES: Final = "/apis/networking.k8s.io/v1/networkpolicies"


@dataclass(frozen=True, slots=True, kw_only=True)
class Up:
    """A Kubernetes, and a user's kubeconfig with the least role."""

    site: LabSite
    kubernetes: LabKubernetes
    kubeconfig: Path

    @property
    def api(self) -> Api:
        return self.kubernetes.api


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with lab_site() as site, in_lab.running(site.nodes, site.folder, users=(USER,)) as made:
        for image in (ensure_image(find_recipe()), ensure_image(service())):
            made.import_image(ensure_file(image, "docker-archive").path)
        file = tmp_path_factory.mktemp("user") / "kubeconfig"
        here = json.loads(made.kubeconfig.read_text())
        file.write_text(json.dumps({**here, "users": [{"name": "tare-admin", "user": {"token": USER.token}}]}))
        for each in role_of("tare-student", USER.name):
            made.api.ask("POST", f"/apis/rbac.authorization.k8s.io/v1/{each['kind'].lower()}s", each)
        yield Up(site=site, kubernetes=made, kubeconfig=file)


def written(up: Up, folder: Path) -> Path:
    settings = {"kubeconfig": str(up.kubeconfig), "pull_policy": "Never", "network_policy": True}
    return write_study(
        folder, "policy", "[kubernetes+pod-network]", cluster=json.dumps({"kubernetes": settings}),
        a_a="true", placements="[2x1]", workloads="{w: {kernels: [{barrier: {iterations: 20, warmup: 5}}]}}",
    )  # fmt: skip


def namespaces(up: Up) -> list[str]:
    found = up.api.ask("GET", "/api/v1/namespaces", query=[("labelSelector", SELECTOR)])
    return [each["metadata"]["name"] for each in found["items"]]


def test_the_least_role_does_not_make_policies_and_the_message_says_so(up: Up, tmp_path: Path) -> None:
    result = tare("run", written(up, tmp_path), cwd=tmp_path)
    told = " ".join((result.stdout + result.stderr).split())
    assert result.status not in (0, 3), told
    assert "let an administrator allow this user to create networkpolicies" in told
    assert namespaces(up) == []


def test_with_one_more_rule_flannel_is_seen_to_enforce_no_policy(up: Up, tmp_path: Path) -> None:
    allow_policies(up)
    assert header(up, tmp_path).count(
        "the policy is not in force: after 15 s a pod of another namespace still connects"
    )


def test_a_denied_connection_is_seen(up: Up, tmp_path: Path) -> None:
    allow_policies(up)
    with enforced(up) as denied:
        assert "the network policy is in force: another namespace was denied" in header(up, tmp_path)
    assert len(denied) == 1


def allow_policies(up: Up) -> None:
    """Give the user the rule that the documentation has for this key."""
    role, _ = role_of("tare-student", USER.name)
    up.api.ask("PUT", f"{RBAC}/tare-student", {**role, "rules": [*role["rules"], *OF_POLICY]})
    wait_until(lambda: may(up, "networkpolicies"), "the API server learns of a role some milliseconds later")


def may(up: Up, resource: str) -> bool:
    """Tell whether the API server lets the user create something."""
    asked = {"verb": "create", "group": "networking.k8s.io", "resource": resource, "namespace": "default"}
    review = {"kind": "SelfSubjectAccessReview", "apiVersion": AUTHORIZATION, "spec": {"resourceAttributes": asked}}
    told = api.opened(str(up.kubeconfig)).ask("POST", f"/apis/{AUTHORIZATION}/selfsubjectaccessreviews", review)
    return bool(told["status"]["allowed"])


def header(up: Up, folder: Path) -> str:
    """Run the study to its end, and return the text of its report."""
    result = tare("run", written(up, folder), cwd=folder)
    assert result.status in (0, 3), result.stdout + result.stderr
    results = folder / "results" / "policy"
    assert [outcome(each) for each in trials(results)] == ["Completed"] * 2, result.stderr
    assert namespaces(up) == []
    return " ".join(html.unescape((results / "report.html").read_text()).split())


@contextmanager
def enforced(up: Up) -> Iterator[list[str]]:
    """Do what a network's agent does that enforces policies: drop packets from the pod of another namespace.

    Its address is free again once the pod is gone, and the next pod gets it.
    """
    denied: list[str] = []
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.1):
            address = outside_address(up)
            if address and not denied:
                filtered(up, "-I", address)
                denied.append(address)
            elif denied and not address:
                break
        for address in denied:
            filtered(up, "-D", address)

    agent = threading.Thread(target=look)
    agent.start()
    try:
        yield denied
    finally:
        ended.set()
        agent.join()


def outside_address(up: Up) -> str:
    """Return the address of the pod outside of a namespace that has a policy, "" if there is none."""
    with suppress(ApiError):
        for policy in up.api.ask("GET", POLICIES)["items"]:
            outside = manifest.outside_of(policy["metadata"]["namespace"])
            pod = up.api.ask("GET", f"/api/v1/namespaces/{outside}/pods/outside")
            return str(pod["status"].get("podIP", ""))
    return ""


def filtered(up: Up, what: str, address: str) -> None:
    for node in up.site.nodes:
        words = ("iptables", what, "FORWARD", "-s", address, "-j", "DROP")
        run(("nsenter", "-t", str(node.pid), "--net", *words), what=f"denying {address}")
