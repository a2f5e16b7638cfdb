"""Provide the nodes of a study: one file per cluster, one entry in `CLUSTERS`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from tare.cluster.base import Cluster, Site
from tare.cluster.fake import FakeCluster
from tare.cluster.kubernetes import KubernetesCluster
from tare.cluster.lab_site import LabCluster
from tare.cluster.local import LocalCluster
from tare.cluster.needs import Needs
from tare.cluster.slurm import SlurmCluster
from tare.cluster.ssh import SshCluster

__all__ = ["CLUSTERS", "Cluster", "Needs", "Site"]

CLUSTERS: Final[Mapping[str, Cluster]] = {
    "lab": LabCluster(),
    "local": LocalCluster(),
    "ssh": SshCluster(),
    "slurm": SlurmCluster(),
    "kubernetes": KubernetesCluster(),
    "fake": FakeCluster(),
}


def usual_cluster() -> str:
    """Return the cluster that a user has without naming one: root's lab, else this machine as it is."""
    first, *others = (name for name, each in CLUSTERS.items() if each.is_here and not each.is_fake)
    return others[0] if os.geteuid() != 0 or CLUSTERS[first].probe() else first
