"""Provide the nodes of a study: one file per cluster, one entry in `CLUSTERS`; `pods` is how Kubernetes is asked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from tare.clusters.base import Cluster, Site
from tare.clusters.fake import FakeCluster
from tare.clusters.kubernetes import KubernetesCluster
from tare.clusters.lab_site import LabCluster
from tare.clusters.local import LocalCluster
from tare.clusters.needs import Needs
from tare.clusters.slurm import SlurmCluster
from tare.clusters.ssh import SshCluster

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
