"""Read the nodes of a Kubernetes, and choose those of a study. Only `listed` makes a request."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tare.clusters.pods.api import Api
from tare.clusters.pods.pods import ask
from tare.clusters.pods.reasons import is_lost
from tare.model.text import counted

PATH: Final = "/api/v1/nodes"
PUBLIC: Final = ("flannel.alpha.coreos.com/public-ip", "projectcalico.org/IPv4Address")
"""Annotations with the address by which the pods' network reaches a node, where it is another than Kubernetes's own."""
KEEPS_OUT: Final = ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesMachine:
    """A node of a Kubernetes as its object describes it.

    `cpus` are those that pods may ask for. `address` is the node's own, `data_address` the one that its pods' network
    uses. `unusable` is why no pod of a study can be on it, "" if one can.
    """

    name: str
    cpus: int
    address: str
    data_address: str
    boot_id: str
    unusable: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


def listed(api: Api, selector: str, tolerated: Collection[str] = ()) -> tuple[KubernetesMachine, ...]:
    """Return the nodes with the labels of a selector, in order of their names; raise `TareError` if that is refused."""
    query = f"?labelSelector={selector}" if selector else ""
    found = ask(api, "GET", f"{PATH}{query}", what="the cluster's nodes")
    return tuple(sorted((read(each, tolerated) for each in found.get("items", ())), key=lambda each: _order(each.name)))


def read(node: Mapping[str, Any], tolerated: Collection[str] = ()) -> KubernetesMachine:
    """Return what a node's object says; `tolerated` are the keys of taints that a study's pods tolerate."""
    meta, status = node.get("metadata", {}), node.get("status", {})
    annotations = dict(meta.get("annotations") or {})
    addresses = {each.get("type"): str(each.get("address", "")) for each in status.get("addresses", ())}
    own = addresses.get("InternalIP", "")
    told = status.get("nodeInfo", {})
    public = next((annotations[name].partition("/")[0] for name in PUBLIC if annotations.get(name)), "")
    names = {"kubelet": "kubeletVersion", "container runtime": "containerRuntimeVersion", "kernel": "kernelVersion",
             "os": "osImage", "architecture": "architecture"}  # fmt: skip
    return KubernetesMachine(
        name=str(meta.get("name", "")),
        cpus=int(cpus_of(str(status.get("allocatable", {}).get("cpu", "0")))),
        address=own,
        data_address=public or own,
        boot_id=str(told.get("bootID", "")),
        unusable=_unusable(node, tolerated),
        facts={name: str(told[key]) for name, key in names.items() if told.get(key)},
        annotations=annotations,
    )


def cpus_of(quantity: str) -> float:
    """Return a number of CPUs as Kubernetes writes it: `4`, `3500m`."""
    return float(quantity[:-1]) / 1000 if quantity.endswith("m") else float(quantity or 0)


def chosen(machines: Sequence[KubernetesMachine], count: int) -> tuple[KubernetesMachine, ...]:
    """Return the first nodes that can be used, at most so many."""
    return tuple(each for each in machines if not each.unusable)[:count]


def too_few(machines: Sequence[KubernetesMachine], wanted: int, selector: str) -> str | None:
    """Return why so many nodes cannot be had, or None."""
    usable = len(chosen(machines, wanted))
    if usable >= wanted:
        return None
    with_labels = f" with the labels {selector}" if selector else ""
    said = f"this Kubernetes has {counted(usable, 'node')}{with_labels} that pods can use, and {wanted} are needed"
    out = [f"{each.name} {each.unusable}" for each in machines if each.unusable]
    return f"{said}: {'; '.join(out[:3])}" if out else said


def _unusable(node: Mapping[str, Any], tolerated: Collection[str]) -> str:
    spec = node.get("spec", {})
    if is_lost(node):
        return "is not ready"
    if spec.get("unschedulable"):
        return "is cordoned"
    for taint in spec.get("taints") or ():
        if taint.get("effect") in KEEPS_OUT and taint.get("key") not in tolerated and "" not in tolerated:
            return f"has the taint {taint.get('key')} (name it in tolerations)"
    return ""


def _order(name: str) -> tuple[tuple[str, int], ...]:
    """Return the key by which n2 comes before n10."""
    return tuple((text, int(number or 0)) for text, number in re.findall(r"(\D*)(\d*)", name))
