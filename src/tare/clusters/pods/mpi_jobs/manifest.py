"""Describe an MPIJob from the values of a study's pods. Pure.

The operator makes a pod for each worker, and a Job with the launcher once all workers are ready. The launcher reaches
the workers by ssh, with a key that the operator makes for the job. So the image needs sshd and ssh, run by root.
Every job has deadlines, for launcher and workers, and the operator removes the workers when it has ended, however that
was: nothing depends on tare being alive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tare.clusters.pods import manifests
from tare.clusters.pods.manifests import PodSpec

VERSION: Final = "kubeflow.org/v2beta1"
PORT: Final = 2222
"""That of the workers' sshd: on the nodes' network, 22 is the nodes' own."""
KEYS: Final = "/root/.ssh"
HOST_FILE: Final = "/etc/mpi/hostfile"
"""Where the operator puts the names of the workers."""
WORKER: Final = f"""\
mkdir -p /run/sshd && ssh-keygen -q -t ed25519 -N '' -f /tmp/tare-host-key || exit 1
exec /usr/sbin/sshd -De -p {PORT} -h /tmp/tare-host-key -o UsePAM=no -o StrictModes=no -o PidFile=none -o UseDNS=no \\
  -o MaxStartups=128 -o "SetEnv=PATH=$PATH${{LD_LIBRARY_PATH:+ LD_LIBRARY_PATH=$LD_LIBRARY_PATH}}"
"""
"""What a worker does: sessions get its PATH, as sshd would set its own."""
LAUNCHER: Final = f"""\
mkdir -p /tmp/tare && cat > /tmp/tare/ssh <<'END' || exit 1
#!/bin/sh
exec /usr/bin/ssh -p {PORT} -o BatchMode=yes -o LogLevel=ERROR -o StrictHostKeyChecking=accept-new \\
  -o UserKnownHostsFile=/tmp/tare/known_hosts "$@"
END
chmod 755 /tmp/tare/ssh || exit 1
left=600
for host in "$0" $(while read -r host slots; do echo "${{host%:*}}"; done < {HOST_FILE}); do
  until ! command -v getent >/dev/null || getent hosts "$host" >/dev/null; do
    left=$((left - 1))
    [ $left -gt 0 ] || {{ echo "tare: the cluster's name server does not know $host" >&2; exit 1; }}
    sleep 0.1
  done
done
PATH=/tmp/tare:$PATH exec "$@"
"""
"""What the launcher does before its command: an MPI finds on PATH an ssh that knows the port.

The cluster's name server learns of pods a moment after they are ready. A launcher that asks before gives up, and so do
workers that ask for the launcher (MPICH). `$0` is the launcher's own name.
"""
AS_ROOT: Final = ("OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
KEPT_S: Final = 3600
"""How long the launcher's Job, with its output, is kept after its end, if nobody removes it."""
SMALL: Final = {"cpu": "1", "memory": "512Mi"}
"""What the launcher asks for where workers ask for something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MpiJob:
    """An MPIJob: a worker on each of `nodes`, each with the container `ranks` of `pod`, and a launcher on the first.

    `pod.node`, `pod.slot` and `pod.node_image` do not matter. `slots` is the number of ranks that a worker may take.
    `deadline_s` is that of the launcher; the workers' is longer by `start_s`, in which they have to become ready.
    `implementation` is one that the operator knows.
    """

    name: str
    pod: PodSpec
    nodes: tuple[str, ...]
    command: tuple[str, ...]
    slots: int = 1
    deadline_s: int = 600
    start_s: int = 180
    implementation: str = "OpenMPI"


def mpi_job(job: MpiJob) -> dict[str, Any]:
    """Return an MPIJob, as its object in the cluster."""
    return {
        "apiVersion": VERSION,
        "kind": "MPIJob",
        "metadata": {
            "name": job.name,
            "namespace": job.pod.namespace,
            "labels": manifests.marked(job.pod.run),
        },
        "spec": {
            "slotsPerWorker": job.slots,
            "mpiImplementation": job.implementation,
            "launcherCreationPolicy": "WaitForWorkersReady",
            "sshAuthMountPath": KEYS,
            "runPolicy": {
                "cleanPodPolicy": "All",
                "backoffLimit": 0,
                "activeDeadlineSeconds": job.deadline_s,
                "ttlSecondsAfterFinished": KEPT_S,
            },
            "mpiReplicaSpecs": {
                "Launcher": _replicas(1, _template(job, _launcher(job), job.nodes[:1])),
                "Worker": _replicas(len(job.nodes), _template(job, _worker(job), job.nodes, apart=True)),
            },
        },
    }


def _replicas(count: int, template: Mapping[str, Any]) -> dict[str, Any]:
    return {"replicas": count, "restartPolicy": "Never", "template": dict(template)}


def _template(
    job: MpiJob, container: Mapping[str, Any], nodes: Sequence[str], *, apart: bool = False
) -> dict[str, Any]:
    """Return the template of a pod: a study's pod with one container, on some nodes; `apart`: one on each."""
    made = manifests.pod(job.pod, (container,))
    left_out = ("restartPolicy", "nodeSelector", "shareProcessNamespace")
    spec = {key: value for key, value in made["spec"].items() if key not in left_out}
    spec["affinity"] = _affinity(job, nodes, apart=apart)
    spec |= {"activeDeadlineSeconds": job.deadline_s + job.start_s} if apart else {}
    metadata = {key: made["metadata"][key] for key in ("labels", "annotations") if key in made["metadata"]}
    return {"metadata": metadata, "spec": spec}


def _affinity(job: MpiJob, nodes: Sequence[str], *, apart: bool) -> dict[str, Any]:
    on = {"key": "kubernetes.io/hostname", "operator": "In", "values": list(nodes)}
    affinity: dict[str, Any] = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [on]}]}
        }
    }
    if apart:
        own = {"training.kubeflow.org/job-name": job.name, "training.kubeflow.org/job-role": "worker"}
        apart_from = {"labelSelector": {"matchLabels": own}, "topologyKey": "kubernetes.io/hostname"}
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [apart_from]}
    return affinity


def _ranks(job: MpiJob) -> dict[str, Any]:
    """Return the container `ranks` of a study's pod, for root's launcher."""
    return manifests.of_ranks(replace(job.pod, variables=(*job.pod.variables, *AS_ROOT)))


def _worker(job: MpiJob) -> dict[str, Any]:
    """Return a worker. It is ready once its sshd listens.

    Nobody asks again while ranks measure, because sshd starts a process for everyone who does.
    """
    listens = {"tcpSocket": {"port": PORT}, "periodSeconds": 1, "failureThreshold": job.start_s}
    return {**_ranks(job), "command": ["/bin/sh", "-c", WORKER], "startupProbe": listens}


def _launcher(job: MpiJob) -> dict[str, Any]:
    own = f"{job.name}-launcher.{job.name}.{job.pod.namespace}.svc"  # as the operator calls it
    container = {**_ranks(job), "command": ["/bin/sh", "-c", LAUNCHER, own, *job.command]}
    container.pop("resources", None)
    return container | manifests.limited(SMALL if job.pod.cpus or job.pod.memory else {})
