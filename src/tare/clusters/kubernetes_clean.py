"""Remove the namespaces of runs on a Kubernetes whose head was killed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tare.clusters.kubernetes_site import NAMESPACES, remove_namespace
from tare.clusters.pods import api, manifests
from tare.clusters.pods.api import Api
from tare.clusters.pods.pods import found
from tare.clusters.pods.policy.manifest import outside_of
from tare.errors import TareError
from tare.model import KubernetesSpec

KUBECONFIG: Final = "kubeconfig"
CONTEXT: Final = "kubernetes context"
NAMESPACE: Final = "kubernetes namespace"
"""The keys of a head's note that name its namespace, and how it is reached."""


def noted(wanted: KubernetesSpec, namespace: str) -> dict[str, str]:
    """Return what must be known to remove the namespace of a run whose head was killed."""
    return {KUBECONFIG: wanted.kubeconfig, CONTEXT: wanted.context, NAMESPACE: namespace}


def namespace_of(note: Mapping[str, Any]) -> str:
    """Return the namespace that a note names, "" if it names none."""
    named = note.get(NAMESPACE)
    return named if isinstance(named, str) else ""


def kept(note: Mapping[str, Any]) -> dict[str, str]:
    """Return what a note says of its namespace."""
    return {key: str(note.get(key, "")) for key in (KUBECONFIG, CONTEXT, NAMESPACE)}


def remove(note: Mapping[str, Any]) -> tuple[str, ...]:
    """Remove the namespaces of a note that are that run's; return what was removed. Raises `TareError`."""
    name, run, file = namespace_of(note), str(note.get("lab")), str(note.get(KUBECONFIG, ""))
    if file and not Path(file).exists():
        raise TareError(f"{file}, by which it was reached, is gone")
    client = api.opened(file, str(note.get(CONTEXT, "")))
    try:
        removed = tuple(each for each in (name, outside_of(name)) if is_of_run(client, each, run))
        for each in removed:
            remove_namespace(client, each)
    finally:
        client.close()
    return tuple(f"namespace {each}" for each in removed)


def is_of_run(client: Api, name: str, run: str) -> bool:
    """Return whether a namespace exists and has tare's mark and the run's."""
    namespace = found(client, f"{NAMESPACES}/{name}") or {}
    labels = namespace.get("metadata", {}).get("labels", {})
    return bool(labels.get(manifests.MANAGED_BY) == manifests.MARK and labels.get(manifests.RUN) == run)
