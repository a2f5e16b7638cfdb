"""What to change in a launch line, in the words of its launcher and its container. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tare.analysis.check.facts import JobFacts

FAMILIES: Final[Mapping[str, str]] = {"openmpi": "Open MPI", "mpich": "MPICH", "hydra": "MPICH"}
"""Titles of MPIs, and of the launchers that tell ranks their numbers."""
DOCKER: Final = frozenset({"docker", "podman", "podman-hpc", "nerdctl"})
POD: Final = "kubectl"


def of_launcher(job: JobFacts, family: str) -> str:
    """Return how ranks with an MPI of a family must be started instead."""
    title = FAMILIES.get(family, family)
    if job.launcher == "srun":
        kinds = {"openmpi": "--mpi=pmix", "mpich": "--mpi=pmi2"}
        return f"srun {kinds.get(family, '--mpi=pmix')} ... (`srun --mpi=list` shows what your Slurm has)"
    if job.container:
        return (
            f"use an image with the MPI of your launcher, or start the image's own: {job.container} ... mpirun -n N "
            "PROGRAM (one node)"
        )
    return f"start it with {title}'s own mpirun (Debian: mpirun.{family}), or compile it with your launcher's mpicc"


def pass_variables(job: JobFacts) -> str:
    """Return how the launcher's variables reach the ranks in a container."""
    if job.container == "podman":
        return "podman run --env-host ..."
    if job.container in DOCKER:
        return "pass them on: docker run -e NAME for each of the launcher's variables (OMPI_*, PMIX_*, PMI_*)"
    if job.container in ("apptainer", "singularity"):
        return f"leave out {job.container}'s --cleanenv (-e)"
    return "let the launcher start the program itself, without sudo or ssh in between"


def larger_shm(job: JobFacts) -> str:
    """Return how a container gets a larger /dev/shm."""
    if job.container in DOCKER:
        return f"{job.container} run --shm-size=1g ... (or --ipc=host)"
    if job.container == POD:
        return "mount an emptyDir with `medium: Memory` at /dev/shm in the pod"
    return "have the administrator mount a larger one: mount -o remount,size=50% /dev/shm"


def share_memory(job: JobFacts) -> str:
    """Return how containers of one machine share memory."""
    if job.container in DOCKER:
        return f"{job.container} run --ipc=host --pid=host ..., or all ranks of a node in one container"
    if job.container in ("apptainer", "singularity"):
        return f"leave out {job.container}'s --contain, --ipc and --pid, or add --sharens"
    if job.container == "ch-run":
        return "ch-run --join ... (mpirun: with --join-ct=RANKS_OF_THE_NODE --join-tag=NAME) to share memory"
    if job.container == POD:
        return "start all ranks of a node in one pod"
    return "let the ranks of a node share /dev/shm and their IPC namespace"


def more_cores(job: JobFacts, ranks: int) -> str:
    """Return how the ranks of a node get a core each."""
    if job.launcher == "srun":
        return f"allocate {ranks} cores a node (--cpus-per-task=1), and srun --cpu-bind=cores ..."
    if job.container in DOCKER:
        return f"start ranks with --bind-to none, or give containers {ranks} cores of their own (--cpuset-cpus)"
    return "leave out taskset or numactl; mpirun --bind-to none ... (MPICH: -bind-to none); or fewer ranks a node"


def larger_quota(job: JobFacts, cores: int) -> str:
    """Return how the ranks of a container get the time of a number of cores."""
    if job.container == POD:
        return f"set the pod's limits.cpu to {cores}, or leave it out"
    return f"{job.container or 'docker'} run --cpus={cores} ..., or cores without a quota (--cpuset-cpus)"


def cores_for_threads(job: JobFacts, threads: str) -> str:
    """Return how a rank gets as many cores as it starts threads."""
    if job.launcher == "srun":
        return f"srun --cpus-per-task={threads} ..."
    return f"mpirun --map-by slot:PE={threads} (Open MPI), -bind-to core:{threads} (MPICH), or fewer threads"
