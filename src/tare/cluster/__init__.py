"""Provide the nodes of a study: one file per cluster, one entry in `CLUSTERS`."""

from __future__ import annotations

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
