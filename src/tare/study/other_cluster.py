"""Move a study to another cluster than the one that its file names. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tare.errors import UsageError
from tare.model import Launching, Study
from tare.study.messages import unknown
from tare.study.names import KNOWN

SRUN: Final = "srun"
LAUNCHERS: Final = ("mpirun", SRUN)
HOST: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@-]*")


def moved(
    study: Study, cluster: str | None, hosts: Sequence[str] = (), ssh_config: str = "", launcher: str = ""
) -> Study:
    """Return the study on `cluster` (None: its own, or the one that takes hosts if any are given), with these hosts.

    `launcher` replaces the study's for cluster slurm. On another cluster, or with another launcher, the study has
    another name, so that its results get a folder of their own. Raises `UsageError`.
    """
    if cluster is not None and cluster not in KNOWN.clusters:
        raise UsageError(unknown("cluster", cluster, tuple(c for c in KNOWN.clusters if c not in KNOWN.fakes)))
    if wrong := [host for host in hosts if not HOST.fullmatch(host)]:
        raise UsageError(f"{wrong[0]!r} is not the name of a host")
    if hosts and (cluster or study.cluster) not in KNOWN.with_hosts:
        raise UsageError(f"cluster {cluster or study.cluster} takes no hosts", remedy="leave --hosts out")
    on_slurm = (cluster or study.cluster) in KNOWN.with_jobs
    if launcher and launcher not in LAUNCHERS:
        raise UsageError(unknown("launcher", launcher, LAUNCHERS))
    if launcher and not on_slurm:
        raise UsageError(f"cluster {cluster or study.cluster} has one launcher", remedy="leave --launcher out")
    nodes = len(hosts) or study.lab.nodes
    slurm = replace(study.lab.slurm, srun=launcher == SRUN if launcher else study.lab.slurm.srun)
    lab = replace(
        study.lab,
        hosts=tuple(hosts) or study.lab.hosts,
        ssh_config=ssh_config or study.lab.ssh_config,
        nodes=nodes,
        slurm=slurm,
    )
    other = cluster is not None and cluster != study.cluster
    name = f"{study.name}-{cluster}" if other else study.name
    if slurm.srun != study.lab.slurm.srun:
        name = f"{name}-{launcher}"
    return _by_srun(
        replace(study, cluster=cluster or study.cluster, lab=lab, name=name), wanted=on_slurm and slurm.srun
    )


def _by_srun(study: Study, *, wanted: bool) -> Study:
    """Return the study with srun as the launcher of environments that name none, where that is wanted."""
    if not wanted:
        return study
    environments = tuple(
        replace(each, launch=Launching.SRUN) if each.launch is Launching.EXEC else each for each in study.environments
    )
    return replace(study, environments=environments)
