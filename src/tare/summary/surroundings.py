"""Say what of its node a rank can reach: devices that it may open, folders that it may write. Pure.

The kernels tell names; here they are held against what the node has, and put into the few words that a report has room
for.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

USUAL_DEVICES: Final = frozenset({"null", "zero", "full", "random", "urandom", "tty", "ptmx"})
"""What every container has (OCI runtime specification, default devices); kernels/common/devices.c leaves them out."""
WITHOUT_DEVICES: Final = frozenset({"pts", "shm", "mqueue", "hugepages", "fd"})
FEW: Final = 6
KERNEL_FOLDERS: Final = ("/proc", "/sys")
CONTAINER_S: Final = re.compile(r"/[0-9a-f]{64}(?:/|$)")
"""A folder in which Docker, Podman or containerd mounts what it shows one container: it has the container's number."""
NOT_KNOWN: Final = "not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHas:
    """What a node has: its devices beyond the usual, and the file systems mounted on it, by number (`MAJOR:MINOR`)."""

    devices: frozenset[str] = frozenset()
    file_systems: frozenset[str] = frozenset()


def in_words(rights: Mapping[str, str], node: NodeHas) -> dict[str, str]:
    """Return what a rank told of itself, with its devices and mounts in words; what it did not tell stays away."""
    told = dict(rights)
    if "devices" in told:
        told["devices"] = devices(told["devices"].split(), node.devices)
    if "mounts" in told:
        told["mounts"] = writable(told["mounts"], node.file_systems)
    return told


def devices(names: Collection[str], of_node: Collection[str]) -> str:
    """Return in words which devices beyond the usual can be opened."""
    if not names:
        return "the usual"
    if of_node and set(names) >= set(of_node):
        return f"all of the node's ({len(names)})"
    if len(names) <= FEW:
        return ", ".join(sorted(names))
    return f"{len(names)} of the node's {len(of_node)}" if of_node else str(len(names))


def writable(mounts: str, of_node: Collection[str]) -> str:
    """Return in words where files can be written, given lines of `rw MAJOR:MINOR FOLDER` or `ro ...`.

    What is mounted over another hides it, and what is below a folder of the same kind is not named. A file system that
    the node has mounted as well is the node's.
    """
    seen: dict[str, tuple[str, str]] = {}
    for line in mounts.splitlines():
        mode, number, folder = line.split(" ", 2)
        if not CONTAINER_S.search(folder):
            seen[_readable(folder)] = (mode, number)
    writes = {folder: number for folder, (mode, number) in seen.items() if mode == "rw" and not _of_kernel(folder)}
    own = [folder for folder, number in writes.items() if number not in of_node]
    nodes = [folder for folder, number in writes.items() if number in of_node]
    parts = ["root read-only"] if seen.get("/", ("rw", ""))[0] == "ro" else []
    parts += [f"own: {_listed(own)}"] if own else []
    parts += [f"the node's: {_listed(nodes)}"] if nodes else []
    return "; ".join(parts) or "nothing"


def mounted_numbers(mountinfo: str) -> frozenset[str]:
    """Return the numbers of a node's file systems, from the text of its /proc/PID/mountinfo, without containers'."""
    mounts = (line.split() for line in mountinfo.splitlines() if line.strip())
    return frozenset(words[2] for words in mounts if not CONTAINER_S.search(words[4]))


def _of_kernel(folder: str) -> bool:
    return any(folder == top or folder.startswith(f"{top}/") for top in KERNEL_FOLDERS)


def _listed(folders: Collection[str]) -> str:
    tops = sorted(folder for folder in folders if not any(_below(folder, other) for other in folders))
    more = f" and {len(tops) - FEW} more" if len(tops) > FEW else ""
    return ", ".join(tops[:FEW]) + more


def _below(folder: str, other: str) -> bool:
    return folder != other and folder.startswith(other if other == "/" else f"{other}/")


def _readable(folder: str) -> str:
    """Return a folder's name as it is: mountinfo writes blanks and the like in octal."""
    return folder.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
