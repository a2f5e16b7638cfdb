"""Read what a node has, and compare with it what a rank reports that it can reach: devices, folders it may write."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

USUAL_DEVICES: Final = frozenset({"null", "zero", "full", "random", "urandom", "tty", "ptmx"})
"""What every container has (OCI runtime specification, default devices); kernels/common/devices.c leaves them out."""
WITHOUT_DEVICES: Final = frozenset({"pts", "shm", "mqueue", "hugepages", "fd"})
"""Folders of /dev that hold no devices of the machine."""
CONTAINER_FOLDER: Final = re.compile(r"/[0-9a-f]{64}(?:/|$)")
"""A folder in which Docker, Podman or containerd mounts what it shows one container: it has the container's number."""
KERNEL_FOLDERS: Final = ("/proc", "/sys")
FEW: Final = 6
"""How many devices or folders are stored by name; the others are counted."""
NAMESPACES: Final = ("net", "ipc", "uts", "pid", "mnt", "user", "cgroup")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHas:
    """A node's namespaces by name, its devices beyond the usual, its mounted file systems (`MAJOR:MINOR`)."""

    namespaces: Mapping[str, int] = field(default_factory=dict)
    devices: frozenset[str] = frozenset()
    file_systems: frozenset[str] = frozenset()


def read_node(pid: int) -> NodeHas:
    """Return what the node of a process has; empty if there is no such process. Takes milliseconds."""
    top = f"/proc/{pid}/root/dev"
    devices = set()
    for folder, below, names in os.walk(top):
        if folder == top:
            below[:] = [name for name in below if name not in WITHOUT_DEVICES]
        paths = (os.path.join(folder, name) for name in names)
        devices |= {os.path.relpath(path, top) for path in paths if _is_device(path)}
    try:
        numbers = mounted_numbers(Path(f"/proc/{pid}/mountinfo").read_text())
    except OSError:
        numbers = frozenset()
    return NodeHas(namespaces=_namespaces(pid), devices=frozenset(devices - USUAL_DEVICES), file_systems=numbers)


def mounted_numbers(mountinfo: str) -> frozenset[str]:
    """Return the numbers of a node's file systems, from the text of its /proc/PID/mountinfo, without containers'."""
    mounts = (line.split() for line in mountinfo.splitlines() if line.strip())
    return frozenset(words[2] for words in mounts if not CONTAINER_FOLDER.search(words[4]))


def reach(rights: Mapping[str, str], node: NodeHas) -> dict[str, str]:
    """Return a rank's rights, with its devices and mounts compared with its node's; those not reported stay away.

    `devices` names a few devices beyond the usual that it can open, `device_count` and `node_device_count` count them,
    `has_all_devices` is `yes` or `no`. `root` is `ro` or `rw`. `own_mounts` and `node_mounts` name the first folders
    that it can write in file systems of its own and of its node (blanks in octal), with their counts.
    """
    facts = {name: value for name, value in rights.items() if name not in ("devices", "mounts")}
    if "devices" in rights:
        facts |= _devices(rights["devices"].split(), node.devices)
    if "mounts" in rights:
        facts |= _mounts(rights["mounts"], node.file_systems)
    return facts


def _devices(names: Collection[str], of_node: Collection[str]) -> dict[str, str]:
    return {
        "devices": " ".join(sorted(names)) if len(names) <= FEW else "",
        "device_count": str(len(names)),
        "node_device_count": str(len(of_node)),
        "has_all_devices": "yes" if of_node and set(names) >= set(of_node) else "no",
    }


def _mounts(mounts: str, of_node: Collection[str]) -> dict[str, str]:
    """Return where files can be written, given lines of `rw MAJOR:MINOR FOLDER` or `ro ...`.

    What is mounted over another hides it, and what is below a folder of the same kind is not named. A file system that
    the node has mounted as well is the node's.
    """
    seen: dict[str, tuple[str, str]] = {}
    for line in mounts.splitlines():
        words = line.split(" ", 2)
        if len(words) == 3 and not CONTAINER_FOLDER.search(words[2]):  # a program may print anything
            seen[words[2]] = (words[0], words[1])
    writes = {folder: number for folder, (mode, number) in seen.items() if mode == "rw" and not _of_kernel(folder)}
    own = _tops([folder for folder, number in writes.items() if number not in of_node])
    nodes = _tops([folder for folder, number in writes.items() if number in of_node])
    return {
        "root": seen.get("/", ("rw", ""))[0],
        "own_mounts": " ".join(own[:FEW]),
        "own_mount_count": str(len(own)),
        "node_mounts": " ".join(nodes[:FEW]),
        "node_mount_count": str(len(nodes)),
    }


def _of_kernel(folder: str) -> bool:
    return any(folder == top or folder.startswith(f"{top}/") for top in KERNEL_FOLDERS)


def _tops(folders: Collection[str]) -> list[str]:
    """Return the folders that are below no other one; a program may report thousands."""
    tops: list[str] = []
    for folder in sorted(folders, key=lambda each: each.split("/")):  # what is below a folder follows it
        if not tops or (folder != tops[-1] and not folder.startswith(f"{tops[-1].rstrip('/')}/")):
            tops.append(folder)
    return sorted(tops)


def _is_device(path: str) -> bool:
    with suppress(OSError):
        mode = os.lstat(path).st_mode
        return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)
    return False


def _namespaces(pid: int) -> dict[str, int]:
    numbers = {}
    for name in NAMESPACES:
        with suppress(OSError):
            numbers[name] = os.stat(f"/proc/{pid}/ns/{name}").st_ino
    return numbers
