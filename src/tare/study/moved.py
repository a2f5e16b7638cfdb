"""Move a study to another cluster than the one that its file names. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tare.errors import UsageError
from tare.model import Study
from tare.study.messages import unknown
from tare.study.names import KNOWN

HOST: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@-]*")


def moved(study: Study, cluster: str | None, hosts: Sequence[str] = (), ssh_config: str = "") -> Study:
    """Return the study on `cluster` (None: its own, or the one that takes hosts if any are given), with these hosts.

    On another cluster the study has another name, so that its results get a folder of their own. Raises `UsageError`.
    """
    if cluster is not None and cluster not in KNOWN.clusters:
        raise UsageError(unknown("cluster", cluster, tuple(c for c in KNOWN.clusters if c not in KNOWN.fakes)))
    if wrong := [host for host in hosts if not HOST.fullmatch(host)]:
        raise UsageError(f"{wrong[0]!r} is not the name of a host")
    if hosts and (cluster or study.cluster) not in KNOWN.with_hosts:
        raise UsageError(f"cluster {cluster or study.cluster} takes no hosts", remedy="leave --hosts out")
    nodes = len(hosts) or study.lab.nodes
    lab = replace(
        study.lab,
        hosts=tuple(hosts) or study.lab.hosts,
        ssh_config=ssh_config or study.lab.ssh_config,
        nodes=nodes,
    )
    other = cluster is not None and cluster != study.cluster
    return replace(
        study,
        cluster=cluster or study.cluster,
        lab=lab,
        name=f"{study.name}-{cluster}" if other else study.name,
    )
