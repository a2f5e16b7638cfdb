"""Each runtime, each network and each MPI of Debian once, for real: two studies, whose trials are judged one by one.

Each member has one turn, not each combination; the others are in the files of `make test-live`.
"""

from __future__ import annotations

import pytest

from integration.containers import (
    DAEMON,
    DAEMON_ONE,
    DOCKER_OWN,
    ON_ONE_NODE,
    ONE,
    ROOTLESS_OWN,
    VETH,
    Case,
    Studied,
    check,
    studied,
)
from integration.live import live

pytestmark = [
    *live("docker", "podman", "uidmap", "apptainer", "charliecloud", "cni", "mmdebstrap", "mpich", "bird", "etcd"),
    pytest.mark.requires("passt", "slirp4netns"),
    pytest.mark.smoke,
]

MPICH = "MPICH Version: 4"
TWO = {
    "bare": Case("runtime: bare", ""),
    "mpich": Case("runtime: bare, mpi: mpich", "", mpi=MPICH),
    "bare+image": Case(
        "runtime: bare, image: true, network: calico-ipip", "mnt net", "IP-in-IP, data NIC, veth of the pod"
    ),
    "docker": Case("runtime: docker, network: overlay", DOCKER_OWN, "data NIC under the VXLAN, overlay", hosts=DAEMON),
    "docker with this machine's mpich": Case(
        "runtime: docker, mpi: mpich, launch: host-mpi, image: debian-openmpi",
        "ipc mnt pid uts",
        mpi=MPICH,
        hosts=DAEMON,
    ),
    "podman": Case("runtime: podman, network: bridge", DOCKER_OWN, VETH),
    "podman-rootless": Case("runtime: podman-rootless", "ipc mnt pid user uts"),
    "apptainer": Case("runtime: apptainer, network: direct", "mnt net", "data NIC in the pod"),
    "apptainer-instance": Case("runtime: apptainer-instance", "mnt pid"),
    "apptainer-sif": Case("runtime: apptainer-sif, network: macvlan", "mnt net", "data NIC, macvlan"),
    "apptainer-sif-squashfuse": Case("runtime: apptainer-sif-squashfuse", "mnt user"),
    "charliecloud": Case("runtime: charliecloud, network: calico", "mnt net user", VETH),
    "cross": Case("runtime: charliecloud, network: calico-ipip-cross", "mnt net user", VETH),
}
TAP = "tap of the pod"
ONE_NODE = {
    "docker-default": Case(
        "runtime: docker, network: docker-default", DOCKER_OWN, "veth of the container", hosts=DAEMON_ONE, carries=False
    ),
    "overlay-etcd": Case(
        "runtime: docker, network: overlay-etcd, placement: {containers_per_node: 2, share: none}",
        DOCKER_OWN, "overlay", hosts=("d0c0", "d0c1"),
    ),
    "pasta": Case("runtime: podman-rootless, network: pasta", ROOTLESS_OWN, TAP, hosts=ONE, carries=False),
    "slirp4netns": Case("runtime: bare, network: slirp4netns", "mnt net", TAP, hosts=ONE, carries=False),
}  # fmt: skip


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> tuple[Studied, Studied]:
    return studied(tmp_path_factory.mktemp("two"), TWO), studied(
        tmp_path_factory.mktemp("one"), ONE_NODE, **ON_ONE_NODE
    )


@pytest.mark.parametrize("name", [*TWO, *ONE_NODE])
def test_an_environment_runs_in_its_containers_over_its_network_with_its_mpi(
    name: str, studies: tuple[Studied, Studied]
) -> None:
    result, _, found = studies[name in ONE_NODE]
    (trial,) = found[name]
    check({**TWO, **ONE_NODE}[name], trial, result)


def test_nothing_is_left_behind(studies: tuple[Studied, Studied]) -> None:
    for result, watch, _ in studies:
        assert len(watch.namespaces) > 10, "the watch saw no lab"
        assert watch.left(result.lab) == []
