"""See whether a cluster enforces a NetworkPolicy: many networks accept one and do nothing.

It is in force only if a connection from a pod of another namespace worked before, was denied afterwards, and one from
inside worked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tare.clusters.pods.api import Api
from tare.clusters.pods.gate import status_of
from tare.clusters.pods.manifests import PodSpec
from tare.clusters.pods.pod_specs import PodDefaults, fields_of
from tare.clusters.pods.pods import Pods, ask
from tare.clusters.pods.policy.manifest import CONNECTS, CONTAINER, network_policy, outside_of, trying
from tare.clusters.pods.session import ExecSession, PodContainer
from tare.errors import InfrastructureError
from tare.system.waiting import wait_until

TAKES_S: Final = 15.0
"""How long a cluster may take until a policy is in force, or pods reach each other."""
PAUSE_S: Final = 0.5
ASKED: Final = "asked"
INSIDE: Final = "inside"
OUTSIDE: Final = "outside"


def applied(api: Api, making: PodDefaults, nodes: tuple[str, ...]) -> str:
    """Put a policy into a study's namespace, try it, and return whether it is in force, in words.

    `nodes` are the cluster's names of the study's nodes.

    The namespace `outside_of` that of the study exists. The pods that try are removed.
    """
    there = {ASKED: making.namespace, INSIDE: making.namespace, OUTSIDE: outside_of(making.namespace)}
    addresses: dict[str, str] = {}
    try:
        for name, namespace in there.items():
            node = nodes[0] if name == ASKED else nodes[-1]
            _make(api, making, name, namespace, node)
        for name, namespace in there.items():
            (pod,) = Pods(api=api, namespace=namespace).wait([name]).values()
            addresses[name] = str(pod.get("status", {}).get("podIP", ""))

        def connects(name: str) -> bool:
            place = PodContainer(namespace=there[name], pod=name, name=CONTAINER)
            return status_of(ExecSession(api, place, ("python3", "-c", CONNECTS, addresses[ASKED]))) == 0

        def put() -> None:
            path = f"/apis/networking.k8s.io/v1/namespaces/{making.namespace}/networkpolicies"
            ask(api, "POST", path, network_policy(making.namespace, making.site), what="the network policy")

        return tried(connects, put)
    finally:
        for name, namespace in there.items():
            Pods(api=api, namespace=namespace).remove([name])


def tried(connects: Callable[[str], bool], put: Callable[[], None], *, takes_s: float = TAKES_S) -> str:
    """Put a policy, and return what connections from `INSIDE` and from `OUTSIDE` say of it."""
    reached = wait_until(lambda: connects(OUTSIDE), takes_s, pause_s=PAUSE_S)
    put()
    if not reached:
        return "the network policy is not shown to be in force: no pod was reached before"
    if not wait_until(lambda: not connects(OUTSIDE), takes_s, pause_s=PAUSE_S):
        return f"the policy is not in force: after {takes_s:g} s a pod of another namespace still connects"
    if not wait_until(lambda: connects(INSIDE), takes_s, pause_s=PAUSE_S):
        raise InfrastructureError(
            "pods of the study do not reach each other under the network policy",
            remedy="leave network_policy out, and ask an administrator which policies the cluster has",
        )
    if connects(OUTSIDE):
        return "the policy is not in force: a pod of another namespace connects at times"
    return "the network policy is in force: another namespace was denied"


def _make(api: Api, making: PodDefaults, name: str, namespace: str, node: str) -> None:
    settings = making.settings
    spec = PodSpec(
        name=name, namespace=namespace, run=making.site, slot=0, node=node, image=making.node_image,
        node_image=making.node_image, pull_policy=settings.pull_policy, pull_secrets=settings.pull_secrets,
        fields=fields_of(settings),
    )  # fmt: skip
    ask(api, "POST", f"/api/v1/namespaces/{namespace}/pods", trying(spec), what=f"pod {name}")
