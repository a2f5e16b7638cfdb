"""What tests may need of the machine: how to see whether it is there, and what installs it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from browser import AXE


def _program(*names: str) -> Callable[[], bool]:
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    return lambda: all(shutil.which(name, path=path) for name in names)


def _file(path: str) -> Callable[[], bool]:
    return lambda: Path(path).exists()


def _apptainer() -> bool:
    return any(present() for present in (_program("apptainer"), _file("/opt/tare/apptainer/bin/apptainer")))


def _podman_hpc() -> bool:
    return any(present() for present in (_program("podman-hpc"), _file("/opt/tare/podman-hpc/bin/podman-hpc")))


def _sshd() -> bool:
    return any(Path(path).exists() for path in ("/usr/sbin/sshd", "/opt/tare/openssh/usr/sbin/sshd"))


def _bird() -> bool:
    return Path("/opt/tare/bird/usr/sbin/bird").exists() or _program("bird")()


NEEDS: dict[str, tuple[Callable[[], bool], str]] = {
    "root": (lambda: os.geteuid() == 0, "run the tests as root (make test uses sudo)"),
    "axe": (_file(str(AXE)), "tools/bootstrap live"),
    "bird": (_bird, "tools/bootstrap unpacks it"),
    "bpftrace": (_program("bpftrace"), "apt-get install bpftrace"),
    "charliecloud": (_program("ch-run"), "apt-get install charliecloud-runtime"),
    "apptainer": (_apptainer, "tools/apptainer"),
    "chromium": (_program("chromium", "chromedriver"), "apt-get install chromium chromium-driver"),
    "clang": (_program("clang"), "apt-get install clang libclang-rt-14-dev"),
    "clang-format": (_program("clang-format"), "apt-get install clang-format"),
    "cmake": (_program("cmake", "gcc", "make"), "apt-get install cmake gcc make"),
    "cni": (_file("/usr/lib/cni/bridge"), "apt-get install containernetworking-plugins"),
    "gpg": (_program("gpg", "gpgconf"), "apt-get install gpg gpg-agent"),
    "groff": (_program("groff"), "apt-get install groff-base"),
    "docker": (_program("dockerd", "docker"), "apt-get install docker.io"),
    "etcd": (_file("/opt/tare/etcd/usr/bin/etcd"), "tools/networks etcd"),
    "ethtool": (_program("ethtool"), "apt-get install ethtool"),
    "cilium": (_file("/opt/tare/cilium/cilium-agent"), "tools/networks cilium"),
    "flannel": (_file("/opt/tare/flannel/flanneld"), "tools/networks flannel"),
    "hnn": (_file("/opt/tare/programs/hnn/bin/hnn-python"), "tools/programs hnn"),
    "hpcc": (_program("hpcc"), "apt-get install hpcc libopenblas0-serial"),
    "imb": (_file("/opt/tare/programs/imb/bin/IMB-MPI1"), "tools/programs imb"),
    "intelmpi": (_file("/opt/tare/mpis/intelmpi/.lock"), "tools/mpis"),
    "iperf3": (_program("iperf3"), "apt-get install iperf3"),
    "iproute2": (_program("ip", "tc", "bridge"), "apt-get install iproute2"),
    "iptables": (_program("iptables"), "apt-get install iptables"),
    "kubernetes": (_file("/opt/tare/kubernetes/kubelet"), "tools/networks kubernetes"),
    "mmdebstrap": (_program("mmdebstrap", "unshare"), "apt-get install mmdebstrap util-linux"),
    "mpi-operator": (_file("/opt/tare/mpi-operator/mpi-operator"), "tools/networks mpi-operator"),
    "mpich": (_program("mpicc.mpich", "mpirun.mpich"), "apt-get install mpich libmpich-dev"),
    "mpich5": (_file("/opt/tare/mpis/mpich5/.lock"), "tools/mpis"),
    "nftables": (_program("nft"), "apt-get install nftables"),
    "openmpi": (_program("mpicc.openmpi", "mpirun.openmpi"), "apt-get install openmpi-bin libopenmpi-dev"),
    "openvswitch": (_file("/opt/tare/openvswitch/usr/bin/ovs-vsctl"), "tools/bootstrap unpacks it"),
    "openmpi5": (_file("/opt/tare/mpis/openmpi5/.lock"), "tools/mpis"),
    "passt": (_program("pasta"), "apt-get install passt"),
    "podman": (_program("podman", "crun", "catatonit"), "apt-get install podman crun catatonit"),
    "podman-hpc": (_podman_hpc, "tools/podman-hpc"),
    "qemu": (_program("qemu-system-x86_64", "mke2fs"), "tools/bootstrap all"),
    "registry": (_file("/opt/tare/docker-registry/usr/bin/docker-registry"), "tools/bootstrap unpacks it"),
    "shellcheck": (_program("shellcheck"), "apt-get install shellcheck"),
    "skopeo": (_program("skopeo"), "apt-get install skopeo"),
    "slirp4netns": (_program("slirp4netns"), "apt-get install slirp4netns"),
    "ucx": (_program("ucx_info"), "apt-get install ucx-utils libucx-dev"),
    "slurm": (_program("slurmctld", "slurmd", "srun", "munged"), "apt-get install slurmctld slurmd slurm-client munge"),
    "sshd": (_sshd, "tools/bootstrap unpacks it"),
    "uidmap": (_program("newuidmap", "newgidmap"), "apt-get install uidmap"),
}

LATER = {
    "live": (
        "axe",
        "bpftrace",
        "chromium",
        "flannel",
        "imb",
        "intelmpi",
        "mpich5",
        "openmpi5",
        "podman-hpc",
        "registry",
        "ucx",
    ),
    "long": ("hnn", "qemu"),
    "kubernetes": ("cilium", "kubernetes", "mpi-operator"),
}
"""What `tools/bootstrap test` does not bring, by the mark that a test gets which needs it."""
