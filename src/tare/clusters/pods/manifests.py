"""Describe the objects that a study makes: a namespace, pods, and what limits them. Pure.

A pod has two containers: `ranks` from the study's image, which is left as it is, and `node`, the service that looks at
the pod from inside. There are several of ranks where the placement says so. All share the pod's network, processes and
shared memory. Where the ranks ask for cores or memory, requests equal limits in all, so that where the kubelet's CPU
manager is static the ranks get cores of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tare.runtimes.kubernetes import CONTAINER, FIRST, numbered

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MARK: Final = "tare"
RUN: Final = "tare.invalid/run"
SLOT: Final = "tare.invalid/slot"
RANKS: Final = CONTAINER
NODE: Final = "node"
ENDS_S: Final = 0
STAY: Final = "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"
"""What a container does until commands are started in it, and between them."""
TEMPORARY: Final = "64Mi"
NODE_CPU: Final = "500m"
"""Less would not slow ranks down less: the service works between launches, and is throttled as the others wait."""
NODE_MEMORY: Final = "256Mi"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSpec:
    """A pod of a study on the Kubernetes node `node`. All containers share /tmp, where the run's folder is.

    `image` is the ranks', `node_image` the service's. `containers` is the number of those for ranks, and `cpus` and
    `memory` are what each of them has (0 and "": as it is).
    `host_network` is the node's own network, `runtime_class` a class of the cluster ("": the usual one), `annotations`
    what the user adds, as further networks. `shared_memory` is the size of /dev/shm ("": half of the node's memory).
    `fields` are further fields of the pod's `spec`, such as tolerations.
    """

    name: str
    namespace: str
    run: str
    slot: int
    node: str
    image: str
    node_image: str
    host_network: bool = False
    runtime_class: str = ""
    cpus: float = 0
    memory: str = ""
    shared_memory: str = ""
    pull_policy: str = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    resources: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)
    containers: int = 1

    @property
    def of_ranks(self) -> tuple[str, ...]:
        """Return the names of the containers for ranks."""
        return tuple(numbered(RANKS, number) for number in range(self.containers))


def namespace(name: str, run: str, owner: Mapping[str, str]) -> dict[str, Any]:
    """Return the namespace of a study; `owner` tells `tare clean` whose it is."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": name,
            "labels": {**marked(run), "pod-security.kubernetes.io/warn": "baseline"},
            "annotations": {f"tare.invalid/{key}": value for key, value in owner.items()},
        },
    }


def pod(spec: PodSpec, containers: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Return a pod, with other containers than those of ranks and of the service if some are given."""
    own = (*(of_ranks(spec, number) for number in range(spec.containers)), _of_service(spec))
    stated: dict[str, Any] = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": ENDS_S,
        "shareProcessNamespace": True,
        "nodeSelector": {"kubernetes.io/hostname": spec.node},
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": list(containers or own),
        "volumes": [_in_memory("shm", spec.shared_memory), _in_memory("tmp", TEMPORARY)],
    }
    if spec.host_network:
        stated |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    if spec.runtime_class:
        stated["runtimeClassName"] = spec.runtime_class
    if spec.pull_secrets:
        stated["imagePullSecrets"] = [{"name": name} for name in spec.pull_secrets]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": spec.name,
            "namespace": spec.namespace,
            "labels": {**marked(spec.run), SLOT: str(spec.slot)},
            **({"annotations": dict(spec.annotations)} if spec.annotations else {}),
        },
        "spec": {**stated, **spec.fields},
    }


def marked(run: str) -> dict[str, str]:
    """Return the labels of everything that a run makes."""
    return {MANAGED_BY: MARK, RUN: run}


def of_ranks(spec: PodSpec, number: int = 0) -> dict[str, Any]:
    """Return a container for ranks."""
    wanted = {
        **({"cpu": f"{spec.cpus:g}"} if spec.cpus else {}),
        **({"memory": spec.memory} if spec.memory else {}),
        **spec.resources,
    }
    return {
        "name": numbered(RANKS, number),
        "image": spec.image,
        "imagePullPolicy": spec.pull_policy,
        "command": ["/bin/sh", "-c", STAY, numbered(FIRST, number)],
        **({"env": [variable(text) for text in spec.variables]} if spec.variables else {}),
        **limited(wanted),
        "volumeMounts": [_mounted("shm", "/dev/shm"), _mounted("tmp", "/tmp")],
    }


def _of_service(spec: PodSpec) -> dict[str, Any]:
    return {
        "name": NODE,
        "image": spec.node_image,
        "imagePullPolicy": spec.pull_policy,
        "command": ["/bin/sh", "-c", STAY],
        **limited({"cpu": NODE_CPU, "memory": NODE_MEMORY} if spec.cpus or spec.memory else {}),
        "volumeMounts": [_mounted("shm", "/dev/shm"), _mounted("tmp", "/tmp")],
    }


def limited(wanted: Mapping[str, str]) -> dict[str, Any]:
    """Return the field of a container that gets so much and no more; no field if it may take what is there."""
    return {"resources": {"requests": dict(wanted), "limits": dict(wanted)}} if wanted else {}


def variable(text: str) -> dict[str, str]:
    """Return a variable of a container from `NAME=VALUE`."""
    name, _, value = text.partition("=")
    return {"name": name, "value": value}


def _in_memory(name: str, size: str) -> dict[str, Any]:
    """Return a volume in memory; "" is the cluster's own limit."""
    return {"name": name, "emptyDir": {"medium": "Memory", **({"sizeLimit": size} if size else {})}}


def _mounted(name: str, path: str) -> dict[str, str]:
    return {"name": name, "mountPath": path}
