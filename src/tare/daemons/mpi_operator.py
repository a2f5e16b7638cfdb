"""Run the MPI Operator against a lab's Kubernetes: the real one, which `tools/networks mpi-operator` compiles.

On a user's cluster it is the administrator who installs it. Here it runs on the first node, as the other controllers
do, with the lab's own credentials. The definition of its objects is applied from its module.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tare.daemons import coredns
from tare.daemons.daemons import Daemon, Place, run_daemon
from tare.daemons.kubernetes import FOLDER, KubernetesDaemons
from tare.errors import MissingTool
from tare.system.packages import script
from tare.system.process import find

OWN: Final = Path("/opt/tare/mpi-operator")
DEFINITION: Final = OWN / "mpijobs.yaml"
JOBS: Final = "/apis/kubeflow.org/v2beta1/mpijobs"
LOCKS: Final = "kube-system"
"""The namespace of the lock that says which of several operators works."""
LEADS: Final = "Leading started"
LIMIT_S: Final = 60.0


def program() -> str | None:
    """Return the path of the operator, or None."""
    own = OWN / "mpi-operator"
    return str(own) if own.exists() else find("mpi-operator")


def probe() -> str | None:
    """Return what an MPI Operator in a lab needs and this machine lacks, or None."""
    if program() is None or coredns.program() is None or not DEFINITION.exists():
        return f"the MPI Operator is not installed: run {script('tools/networks mpi-operator')}"
    return None


@contextmanager
def running(kubernetes: KubernetesDaemons) -> Iterator[Daemon]:
    """Keep the operator running, with the definition of its objects applied; it works when the block begins."""
    if reason := probe():
        raise MissingTool(f"MPIJobs cannot be run: {reason}")
    define(kubernetes)
    node = kubernetes.api.place.node
    place = Place(node=node, pid=node.pid, folder=f"{FOLDER}/mpi-operator")
    with run_daemon(place, "mpi-operator", operator()) as daemon:
        daemon.wait_for(lambda: True if LEADS in daemon.said() else None, "the lock of operators", limit_s=LIMIT_S)
        yield daemon


def operator() -> tuple[str, ...]:
    """Return the argv of the operator. It would rather use the file that KUBECONFIG names."""
    return (
        "env", "--unset=KUBECONFIG", program() or "", f"-kubeConfig={FOLDER}/kubeconfig", f"-lock-namespace={LOCKS}",
        "-kube-api-qps=100", "-kube-api-burst=200", "-alsologtostderr",
    )  # fmt: skip


def define(kubernetes: KubernetesDaemons) -> None:
    """Apply the definition of the operator's objects, unless it is there, and wait until the API server serves them."""
    kubernetes.define(DEFINITION)
    kubernetes.api.wait_for(lambda: kubernetes.server.answers(JOBS) or None, "serving MPIJobs", limit_s=LIMIT_S)
