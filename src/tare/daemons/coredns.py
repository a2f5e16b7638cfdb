"""Run CoreDNS for a lab's Kubernetes: it answers with the addresses of pods that are named by a service.

Pods ask it only if their `dnsConfig` says so (`pod_fields`), so that a lab without it is as it was. It is compiled with
the MPI Operator (`tools/networks mpi-operator`), which names workers by their service.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tare.daemons.daemons import Daemon, Place, run_daemon
from tare.daemons.kubernetes import FOLDER, KubernetesDaemons
from tare.system.namespaces import inside_network
from tare.system.process import find

OWN: Final = Path("/opt/tare/mpi-operator/coredns")
PORT: Final = 53
ZONE: Final = "cluster.local"
CONFIGURATION: Final = "Corefile"
LIMIT_S: Final = 60.0
ANSWER_S: Final = 0.5
QUERY: Final = (
    b"\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
    b"\x0akubernetes\x07default\x03svc\x07cluster\x05local\x00\x00\x01\x00\x01"
)
"""A query for the address of the API server's service, which every cluster has."""


def program() -> str | None:
    """Return the path of CoreDNS, or None."""
    return str(OWN) if OWN.exists() else find("coredns")


@contextmanager
def running(kubernetes: KubernetesDaemons) -> Iterator[Daemon]:
    """Keep a CoreDNS running on the first node; it knows the cluster's services when the block begins."""
    node = kubernetes.api.place.node
    place = Place(node=node, pid=node.pid, folder=f"{FOLDER}/coredns")
    place.path().mkdir(parents=True, exist_ok=True)
    place.path(CONFIGURATION).write_text(corefile())
    argv = (program() or "", "-conf", f"{place.folder}/{CONFIGURATION}")
    with run_daemon(place, "coredns", argv) as daemon:
        daemon.wait_for(lambda: _answers(node.pid, kubernetes.address), "an answer", limit_s=LIMIT_S)
        yield daemon


def corefile() -> str:
    """Return CoreDNS's configuration: the cluster's zone, at every address of the node, without a cache.

    Other names do not exist: a resolver stops searching at a server that only refuses.
    """
    return (
        f"{ZONE}:{PORT} {{\n"
        "    errors\n"
        f"    kubernetes {ZONE} {{\n"
        f"        kubeconfig {FOLDER}/kubeconfig lab\n"
        "        ttl 1\n"
        "    }\n"
        "}\n"
        f".:{PORT} {{\n"
        "    errors\n"
        "    template ANY ANY . {\n"
        "        rcode NXDOMAIN\n"
        "    }\n"
        "}\n"
    )


def address_for_pods(kubernetes: KubernetesDaemons) -> str:
    """Return the address by which pods reach the server: that of the first node in the pods' own network.

    A lab's pods have routes to pods only. The node has the address once it has a pod on that network.
    """
    node = kubernetes.api.place.node.name
    answer = kubernetes.server.ask("GET", f"/api/v1/nodes/{node}")
    return str(next(ipaddress.ip_network(answer["spec"]["podCIDR"]).hosts()))


def pod_fields(address: str, namespace: str) -> dict[str, Any]:
    """Return the fields of a pod's `spec` by which it asks the CoreDNS at an address."""
    searches = [f"{namespace}.svc.{ZONE}", f"svc.{ZONE}", ZONE]
    options = [{"name": "ndots", "value": "5"}]
    return {"dnsPolicy": "None", "dnsConfig": {"nameservers": [address], "searches": searches, "options": options}}


def _answers(pid: int, address: str) -> bool | None:
    """Return True once the server gives the API server's address; None before."""
    with inside_network(pid), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        asked.settimeout(ANSWER_S)
        try:
            asked.connect((address, PORT))
            asked.send(QUERY)
            answer = asked.recv(512)
        except OSError:
            return None
    return True if len(answer) > 12 and answer[3] & 0xF == 0 and int.from_bytes(answer[6:8], "big") else None
