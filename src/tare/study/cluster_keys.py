"""Define the keys of a study's cluster."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StringConstraints

from tare.study.value_types import (
    BitRate,
    Checked,
    Count,
    Duration,
    Host,
    KubernetesName,
    SbatchValue,
    Word,
    choice,
)


class ClusterIn(Checked):
    """The nodes: how many, with which cores and links. Every cluster reads these settings (`model.LabSpec`)."""

    nodes: Count | None = Field(
        default=None, description="number of nodes; by default as many as the largest placement needs"
    )
    cores_per_node: Count | None = Field(
        default=None, description="cores of each node; by default the machine's, divided among the nodes"
    )
    link_rate_bps: BitRate = Field(
        default=0, alias="link_rate", description="rate limit of each node's data link; 0: none"
    )
    wire: choice("segmented", "unsegmented") = Field(  # type: ignore[valid-type]
        default="unsegmented", description="segmented: frames of MTU size, as on a real wire"
    )
    oversubscribe: bool = Field(default=False, description="nodes may share cores; ranks still need one each")
    subnets: Annotated[int, Field(ge=1, le=2, strict=True)] = Field(
        default=1, description="2: half of the nodes are in a second data subnet, behind a router"
    )
    hosts: list[Host] = Field(
        default=[], description="hosts of cluster ssh: names that `ssh NAME` reaches, in order of ranks"
    )
    ssh_config: str = Field(default="", description="file that ssh reads in place of ~/.ssh/config")
    data_subnet: str = Field(
        default="",
        alias="subnet",
        description="subnet of the hosts for messages, as 10.1.0.0/16; by default the one that ssh uses",
    )
    nics: list[Word] = Field(
        default=[],
        description="data NICs of every host that tare may take as root, one for each network",
    )
    pod_addresses: str = Field(
        default="", description="unused part of the subnet that ssh uses, as 10.1.128.0/18: addresses for pods"
    )
    daemon_hosts: list[Host] = Field(
        default=[], description="further hosts, as many as `hosts`, on which tare may start Docker as root"
    )
    launcher: choice("mpirun", "srun") = Field(  # type: ignore[valid-type]
        default="mpirun", description="cluster slurm: what starts ranks where an environment has no `launch`"
    )
    partition: SbatchValue = Field(default="", description="cluster slurm: partition that `tare submit` asks for")
    account: SbatchValue = Field(default="", description="cluster slurm: account that pays for the job")
    qos: SbatchValue = Field(default="", description="cluster slurm: quality of service")
    constraint: SbatchValue = Field(default="", description="cluster slurm: features that the nodes must have")
    reservation: SbatchValue = Field(default="", description="cluster slurm: reservation to use")
    time_s: Duration | None = Field(
        default=None, alias="time", description="cluster slurm: time limit of each allocation"
    )
    sbatch: list[Annotated[str, StringConstraints(pattern=r"^-[^\n\r]*$")]] = Field(
        default=[], description="cluster slurm: further options of sbatch, one a word"
    )
    kubernetes: bool = Field(
        default=False,
        description="cluster lab: start a Kubernetes on the nodes, for environments of runtime kubernetes",
    )
    kubeconfig: str = Field(
        default="", description="cluster kubernetes: file with the user's access; by default $KUBECONFIG"
    )
    context: str = Field(default="", description="cluster kubernetes: context of that file; by default the current one")
    namespace: KubernetesName = Field(
        default="", description="cluster kubernetes: namespace to make for the study; by default a name of tare's"
    )
    selector: str = Field(default="", description="cluster kubernetes: labels of the nodes to use, as pool=hpc")
    registry: str = Field(
        default="", description="cluster kubernetes: registry and folder that `tare image push` has pushed to"
    )
    node_image: str = Field(
        default="", description="cluster kubernetes: image with Python 3.9 for tare's service container"
    )
    pull_policy: choice("Always", "IfNotPresent", "Never") = Field(  # type: ignore[valid-type]
        default="IfNotPresent", description="cluster kubernetes: when nodes pull images"
    )
    pull_secrets: list[KubernetesName] = Field(
        default=[], description="cluster kubernetes: secrets of the namespace for the registry"
    )
    exclusive: bool = Field(
        default=False, description="cluster kubernetes: pods ask for the whole cores of their ranks, and get no more"
    )
    network_policy: bool = Field(
        default=False, description="cluster kubernetes: a NetworkPolicy keeps the study's pods among themselves"
    )
    resources: dict[str, str | int] = Field(
        default={}, description="cluster kubernetes: further resources of the ranks' container, as rdma/hca: 1"
    )
    annotations: dict[str, str] = Field(default={}, description="cluster kubernetes: annotations of pods")
    pod: dict[str, Any] = Field(
        default={}, description="cluster kubernetes: further fields of pods' spec, as tolerations, priorityClassName"
    )
