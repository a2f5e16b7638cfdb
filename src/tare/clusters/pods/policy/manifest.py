"""Describe a NetworkPolicy that keeps pods among themselves, and the pods that try it. Pure."""

from __future__ import annotations

from typing import Any, Final

from tare.clusters.pods import manifests
from tare.clusters.pods.manifests import PodSpec, marked

NAME: Final = "among-themselves"
PORT: Final = 7411
DNS: Final = 53
CONTAINER: Final = "try"
LISTENS: Final = f"""import socket
listener = socket.create_server(("", {PORT}), backlog=16)
while True:
    connection, _ = listener.accept()
    with connection:
        connection.sendall(b"tare")
"""
CONNECTS: Final = f"""import socket, sys
try:
    with socket.create_connection((sys.argv[1], {PORT}), timeout=2) as connection:
        sys.exit(connection.recv(4) != b"tare")
except OSError:
    sys.exit(1)
"""
"""Ends with 0 if it is answered at the address that it is given."""


def network_policy(namespace: str, run: str) -> dict[str, Any]:
    """Return a policy by which pods of a namespace reach each other and name servers, and nothing else reaches them."""
    among: dict[str, Any] = {"podSelector": {}}
    names = {"ports": [{"protocol": each, "port": DNS} for each in ("UDP", "TCP")]}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": NAME, "namespace": namespace, "labels": marked(run)},
        "spec": {
            "podSelector": {},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [among]}],
            "egress": [{"to": [among]}, names],
        },
    }


def outside_of(namespace: str) -> str:
    """Return the name of the namespace from which a study's is tried."""
    return f"{namespace}-outside"


def trying(spec: PodSpec) -> dict[str, Any]:
    """Return a pod that listens, and in which connections are tried, from the service's image, which has Python."""
    listens = ["python3", "-c", LISTENS]
    container = {"name": CONTAINER, "image": spec.node_image, "imagePullPolicy": spec.pull_policy, "command": listens}
    return manifests.pod(spec, (container,))
