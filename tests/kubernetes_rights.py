"""The rights that docs/kubernetes.md asks an administrator for: the least ones with which a user can run studies."""

from __future__ import annotations

from typing import Any

from tare.clusters.pods.manifests import MANAGED_BY, MARK

SELECTOR = f"{MANAGED_BY}={MARK}"
"""Selects what tare has made."""
GROUP = "rbac.authorization.k8s.io"
RULES: tuple[dict[str, Any], ...] = (
    {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["create", "delete", "get", "list"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "delete", "get", "list"]},
    {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create", "get"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]},
)
OF_JOBS: tuple[dict[str, Any], ...] = (
    {"apiGroups": ["kubeflow.org"], "resources": ["mpijobs"], "verbs": ["create", "delete", "get"]},
    {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
)
"""What a user needs besides, to run MPIJobs."""
OF_POLICY: tuple[dict[str, Any], ...] = (
    {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": ["create"]},
)
"""What a user needs besides, for a policy."""


def role(name: str, user: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the least ClusterRole, and its binding to a user."""
    return (
        {"apiVersion": f"{GROUP}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": list(RULES)},
        {
            "apiVersion": f"{GROUP}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "subjects": [{"kind": "User", "name": user, "apiGroup": GROUP}],
            "roleRef": {"kind": "ClusterRole", "name": name, "apiGroup": GROUP},
        },
    )
