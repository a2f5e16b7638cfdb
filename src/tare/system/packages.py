"""Say how a program is installed on this machine: with apt-get, dnf or zypper and its package's name there.

Packages are called by Debian's names in tare's code. The names for dnf (Fedora, RHEL and its rebuilds, some from EPEL)
and zypper (openSUSE, SLES) come from these distributions' package pages and spec files; nothing of it was run there.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

OS_RELEASE: Final = Path("/etc/os-release")
CLONE: Final = Path(__file__).absolute().parents[3]
"""Where `tools` is, if tare runs from a clone."""
_MOST_BYTES: Final = 1 << 16

COMMANDS: Final[Mapping[str, str]] = {
    "apt": "apt-get install",
    "dnf": "dnf install",
    "zypper": "zypper install",
}
_MANAGERS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("debian", "ubuntu"), "apt"),
    **dict.fromkeys(("fedora", "rhel", "centos", "rocky", "almalinux", "ol", "amzn"), "dnf"),
    **dict.fromkeys(("suse", "opensuse", "opensuse-leap", "opensuse-tumbleweed", "sles", "sled", "sle_hpc"), "zypper"),
}
"""The package manager of each ID of os-release(5)."""

_NAMES: Final[Mapping[str, tuple[str, str, str]]] = {
    # Debian's name: the software, and the package's name with dnf and zypper; "" where it was not found
    "binutils": ("binutils", "binutils", "binutils"),
    "bird2": ("BIRD 2", "bird", "bird"),
    "catatonit": ("catatonit", "catatonit", "catatonit"),
    "charliecloud-runtime": ("Charliecloud", "charliecloud", ""),
    "apptainer": ("Apptainer", "apptainer", "apptainer"),
    "cmake": ("CMake", "cmake", "cmake"),
    "containernetworking-plugins": ("the CNI plug-ins", "containernetworking-plugins", "cni-plugins"),
    "coreutils": ("coreutils", "coreutils", "coreutils"),
    "crun": ("crun", "crun", "crun"),
    "docker.io": ("Docker", "moby-engine", "docker"),
    "ethtool": ("ethtool", "ethtool", "ethtool"),
    "gcc": ("a C compiler", "gcc", "gcc"),
    "gromacs": ("GROMACS", "", ""),
    "hpcc": ("hpcc", "", ""),
    "iperf3": ("iperf3", "iperf3", "iperf"),
    "iproute2": ("iproute2", "iproute", "iproute2"),
    "iptables": ("iptables", "iptables-nft", "iptables"),
    "libcairo2": ("cairo", "cairo", "libcairo2"),
    "lammps": ("LAMMPS", "", ""),
    "libc-bin": ("ldd", "glibc-common", "glibc"),
    "libmpich-dev": ("MPICH with its compiler", "mpich-devel", "mpich-devel"),
    "libopenmpi-dev": ("Open MPI with its compiler", "openmpi-devel", "openmpi4-devel"),
    "make": ("make", "make", "make"),
    "mmdebstrap": ("mmdebstrap", "mmdebstrap", ""),
    "mpich": ("MPICH", "mpich", "mpich"),
    "nftables": ("nftables", "nftables", "nftables"),
    "openmpi-bin": ("Open MPI", "openmpi", "openmpi4"),
    "openssh-client": ("OpenSSH's client", "openssh-clients", "openssh-clients"),
    "openssh-server": ("OpenSSH's server", "openssh-server", "openssh-server"),
    "openvswitch-switch": ("Open vSwitch", "openvswitch", "openvswitch"),
    "passt": ("passt", "passt", "passt"),
    "podman": ("Podman", "podman", "podman"),
    "skopeo": ("skopeo", "skopeo", "skopeo"),
    "slirp4netns": ("slirp4netns", "slirp4netns", "slirp4netns"),
    "squashfs-tools": ("squashfs-tools", "squashfs-tools", "squashfs"),
    "squashfuse": ("squashfuse", "squashfuse", "squashfuse"),
    "tar": ("tar", "tar", "tar"),
    "uidmap": ("newuidmap and newgidmap", "shadow-utils", "shadow"),
    "util-linux": ("util-linux", "util-linux", "util-linux"),
    "zstd": ("zstd", "zstd", "zstd"),
}


def script(command: str) -> str:
    """Return a command of a clone of tare; where tare was installed otherwise, it says that it is in a clone."""
    return command if (CLONE / command.split(maxsplit=1)[0]).is_file() else f"{command} (in a clone of tare)"


def install(*packages: str, os_release: Path | None = None) -> str:
    """Return what installs packages, named as in Debian, on this machine: a command, or a sentence without one.

    The sentence names the software: for a distribution that is not known, and for one that does not package it.
    """
    manager = package_manager(os_release or OS_RELEASE)
    names = [name_of(package, manager) for package in packages]
    if manager and all(names):
        return f"{COMMANDS[manager]} {' '.join(names)}"
    software = dict.fromkeys(_NAMES[package][0] if package in _NAMES else package for package in packages)
    return f"install {' and '.join(software)} with your package manager, or `module load` it"


def install_python(package: str) -> str:
    """Return the command that installs a Python package where this tare finds it: for the Python that runs tare."""
    return f"{shlex.quote(sys.executable)} -m pip install {package}"


def name_of(package: str, manager: str) -> str:
    """Return the name of one of Debian's packages with another package manager, "" if it is not known."""
    if manager == "apt":
        return package
    _software, dnf, zypper = _NAMES.get(package, ("", "", ""))
    return {"dnf": dnf, "zypper": zypper}.get(manager, "")


def package_manager(os_release: Path) -> str:
    """Return this machine's package manager by os-release(5): apt, dnf or zypper, "" if its system is not known."""
    fields = _fields(os_release)
    names = [fields.get("ID", ""), *fields.get("ID_LIKE", "").split()]
    return next((_MANAGERS[name] for name in names if name in _MANAGERS), "")


def release(os_release: Path) -> str:
    """Return the name of a system's release by os-release(5), "" if it has none."""
    fields = _fields(os_release)
    return fields.get("PRETTY_NAME") or " ".join(filter(None, (fields.get("ID"), fields.get("VERSION_ID"))))


def _fields(path: Path) -> dict[str, str]:
    """Return the fields of an os-release file; a line that no shell could read is passed over."""
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES).decode(errors="replace")
    except OSError:
        return {}
    fields = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if not equals or name.startswith("#"):
            continue
        try:
            fields[name] = " ".join(shlex.split(value))
        except ValueError:
            continue
    return fields
