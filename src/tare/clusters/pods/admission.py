"""Keep pods of a lab's Kubernetes off their nodes: no pod is admitted with a right over more than itself. Pure.

The API server refuses privileged pods by itself (`--allow-privileged=false`). This policy refuses the other ways.
"""

from __future__ import annotations

from typing import Any, Final

NAME: Final = "tare-no-rights-over-nodes"
POLICIES: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
VOLUMES: Final = tuple(f"has(each.{kind})" for kind in ("emptyDir", "configMap", "secret", "projected", "downwardAPI"))
REFUSED: Final = {
    "the node's processes or IPC": "!object.spec.?hostPID.orValue(false) && !object.spec.?hostIPC.orValue(false)",
    "a volume of its node": f"object.spec.?volumes.orValue([]).all(each, {' || '.join(VOLUMES)})",
    "further capabilities": (
        "variables.containers.all(each, each.?securityContext.?capabilities.?add.orValue([]).size() == 0)"
    ),
}
"""What a pod may not have, each with the CEL expression that is true of a pod without it."""


def policy() -> dict[str, Any]:
    """Return the ValidatingAdmissionPolicy, which needs `binding` to be in force."""
    kinds = ("containers", "initContainers", "ephemeralContainers")
    every = " + ".join(f"object.spec.?{kind}.orValue([])" for kind in kinds)
    pods = {
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
        "resources": ["pods", "pods/ephemeralcontainers"],
    }  # fmt: skip
    return {
        **_named("ValidatingAdmissionPolicy"),
        "spec": {
            "matchConstraints": {"resourceRules": [pods]},
            "variables": [{"name": "containers", "expression": every}],
            "validations": [
                {"expression": holds, "message": f"no pod of a lab has {what}"} for what, holds in REFUSED.items()
            ],
        },
    }


def binding() -> dict[str, Any]:
    """Return the binding of the policy to all namespaces."""
    return {
        **_named("ValidatingAdmissionPolicyBinding"), "spec": {"policyName": NAME, "validationActions": ["Deny"]},
    }  # fmt: skip


def _named(kind: str) -> dict[str, Any]:
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": NAME}}
