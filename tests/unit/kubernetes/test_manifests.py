"""Pods have what a study needs and no rights beyond it; what a cluster changes in them is named."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tare.kubernetes import manifests, reasons
from tare.kubernetes.manifests import PodSpec

SPEC = PodSpec(
    name="p0", namespace="s1", run="s1", slot=2, node="worker-1", image="site/app:1", node_image="tare/node:1"
)


def pod(**changes: Any) -> dict[str, Any]:
    return manifests.pod(PodSpec(**{each: getattr(SPEC, each) for each in SPEC.__slots__} | changes))


def test_a_pod_has_no_rights_and_no_token_and_what_a_user_adds() -> None:
    made = pod()
    spec = made["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert "privileged" not in str(made)
    assert "hostPath" not in str(made)
    assert made["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "tare", "tare.invalid/run": "s1", "tare.invalid/slot": "2",
    }  # fmt: skip
    assert spec["restartPolicy"] == "Never"
    as_user = pod(user=1000)["spec"]["securityContext"]
    assert (as_user["runAsNonRoot"], as_user["runAsUser"]) == (True, 1000)
    tolerations = [{"key": "gpu", "operator": "Exists"}]
    made = pod(fields={"tolerations": tolerations, "priorityClassName": "low"}, pull_secrets=("site",))["spec"]
    assert made["tolerations"] == tolerations
    assert made["priorityClassName"] == "low"
    assert made["imagePullSecrets"] == [{"name": "site"}]


def test_requests_are_limits_and_networks_are_the_nodes_a_class_or_annotations() -> None:
    ranks, node = pod(cpus=4, memory="8Gi", resources={"rdma/hca": "1"})["spec"]["containers"]
    assert ranks["resources"]["requests"] == {"cpu": "4", "memory": "8Gi", "rdma/hca": "1"}
    assert ranks["resources"]["limits"] == ranks["resources"]["requests"]
    assert node["resources"]["limits"] == node["resources"]["requests"]
    assert "resources" not in pod()["spec"]["containers"][0]
    assert "hostNetwork" not in pod()["spec"]
    assert pod(host_network=True)["spec"]["hostNetwork"] is True
    assert pod(runtime_class="fast")["spec"]["runtimeClassName"] == "fast"
    networks = {"k8s.v1.cni.cncf.io/networks": "macvlan-fast"}
    assert pod(annotations=networks)["metadata"]["annotations"] == networks


def test_what_a_webhook_changes_is_named_and_defaults_are_not() -> None:
    asked = pod(cpus=2)
    made = copy.deepcopy(asked)
    made["spec"] |= {"dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler"}
    made["spec"]["tolerations"] = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]
    for container in made["spec"]["containers"]:
        container |= {"terminationMessagePath": "/dev/termination-log", "resources": container.get("resources", {})}
    assert reasons.differences(asked, made) == ()
    made["spec"]["containers"].insert(0, {"name": "sidecar", "image": "mesh"})
    added = "spec.containers: sidecar (mesh) was added"
    assert reasons.differences(asked, made) == (added,)
    made["spec"]["containers"][1]["resources"]["limits"]["cpu"] = "1"
    made["spec"]["shareProcessNamespace"] = False
    assert reasons.differences(asked, made) == (
        "spec.shareProcessNamespace is False, not True",
        "spec.containers[0].resources.limits.cpu is 1, not 2",
        added,
    )


def test_what_a_cluster_adds_and_ranks_would_feel_is_named() -> None:
    asked = pod(variables=("A=1",))
    made = copy.deepcopy(asked)
    made["spec"]["runtimeClassName"] = "gvisor"
    made["spec"]["securityContext"]["runAsUser"] = 1000
    made["spec"]["initContainers"] = [{"name": "mesh-init", "image": "mesh"}]
    ranks = made["spec"]["containers"][0]
    ranks["resources"] = {"limits": {"cpu": "500m"}, "requests": {"cpu": "100m"}}
    ranks["env"].append({"name": "HTTP_PROXY", "value": "http://proxy"})
    assert reasons.differences(asked, made) == (
        "spec.runtimeClassName is gvisor, which was not asked for",
        "spec.securityContext.runAsUser is 1000, which was not asked for",
        "spec.initContainers: mesh-init (mesh) was added",
        "spec.containers[0].resources.limits.cpu is 500m, which was not asked for",
        "spec.containers[0].resources.requests.cpu is 100m, which was not asked for",
        "spec.containers[0].env[HTTP_PROXY].name is HTTP_PROXY, which was not asked for",
        "spec.containers[0].env[HTTP_PROXY].value is http://proxy, which was not asked for",
    )


@pytest.mark.parametrize(
    ("asked", "made", "same"),
    [("1.5", "1500m", True), ("64000000", "64M", True), ("2Gi", "2Gi", True), ("2Gi", "2G", False), ("1", "1m", False),
     ("1E3", "1k", True), ("1Ki", "1024", True)],
)  # fmt: skip
def test_an_amount_that_the_server_writes_its_own_way_is_no_difference(asked: str, made: str, same: bool) -> None:
    wanted, found = pod(memory=asked), pod(memory=made)
    assert (reasons.differences(wanted, found) == ()) == same
    named = reasons.differences(pod(variables=(f"A={asked}",)), pod(variables=(f"A={made}",)))
    assert (named == ()) == (asked == made), "what is no amount is compared as it is written"


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"status": {"containerStatuses": [{"name": "ranks", "image": "site/app:1", "state": state}]}}


def ended(reason: str, code: int = 137) -> dict[str, Any]:
    state = {"terminated": {"reason": reason, "exitCode": code}}
    return {"metadata": {"name": "p0"}, "status": {"containerStatuses": [{"name": "ranks", "state": state}]}}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (waiting("ErrImageNeverPull"), "the node does not have the image site/app:1, and the pull policy is Never"),
        (waiting("ImagePullBackOff", "no such host."), "the image site/app:1 cannot be pulled: no such host"),
        (waiting("CreateContainerConfigError", "secret x not found"), "container ranks cannot be made: secret x not"),
        (ended("OOMKilled"), "pod p0: container ranks was killed for exceeding its memory limit"),
        (ended("Error", 2), "pod p0: container ranks has ended with status 2"),
        ({"metadata": {"name": "p0"}, "status": {"phase": "Failed", "reason": "Evicted", "message": "low on disk"}},
         "pod p0: the node has evicted the pod: low on disk"),
        ({"metadata": {"name": "p0"}, "status": {"conditions": [
            {"type": "DisruptionTarget", "status": "True", "message": "for p9"}]}},
         "pod p0: a pod of higher priority has taken its place: for p9"),
        ({"metadata": {"name": "p0", "deletionTimestamp": "now"}, "status": {"phase": "Running"}},
         "pod p0 is being removed by somebody else"),
    ],
)  # fmt: skip
def test_a_pod_that_does_not_run_has_a_sentence(found: dict[str, Any], said: str) -> None:
    trouble = reasons.waits_in_vain(found)
    assert trouble
    assert trouble[0].startswith(said)


def test_what_an_unschedulable_pod_needs_is_said() -> None:
    condition = {"type": "PodScheduled", "reason": "Unschedulable", "message": "0/2 nodes: 2 Insufficient cpu."}
    for message, said, remedy in (
        (condition["message"], "0/2 nodes: 2 Insufficient cpu", "use fewer ranks a node, or free the nodes"),
        ("node(s) had untolerated taint {node.kubernetes.io/unreachable: }", "untolerated", "a node does not answer"),
        ("node had untolerated taint {x: y}", "untolerated taint", "tolerations"),
    ):
        trouble = reasons.waits_in_vain({"status": {"conditions": [{**condition, "message": message}]}})
        assert trouble
        assert trouble[0].startswith("no node can take the pod: ")
        assert said in trouble[0]
        assert remedy in trouble[1]


def test_a_pod_that_may_still_get_ready_is_waited_for() -> None:
    creating = waiting("ContainerCreating")
    assert reasons.waits_in_vain(creating) is None
    assert not reasons.is_ready(creating)
    event = {"reason": "FailedCreatePodSandBox", "message": "no network"}
    trouble = reasons.waits_in_vain(creating, [event])
    assert trouble
    assert trouble[0] == "the node cannot start the pod: no network"
    running = {"status": {"phase": "Running", "containerStatuses": [{"ready": True, "state": {"running": {}}}]}}
    assert reasons.is_ready(running)
    assert reasons.waits_in_vain(running) is None
    hostile = waiting("ErrImagePull", "\x1b[31mred\n")
    trouble = reasons.waits_in_vain(hostile)
    assert trouble
    assert "\x1b" not in trouble[0]
