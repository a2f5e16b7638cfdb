"""Put into words what a rank can reach: devices that it can open, folders that it can write, limits. Pure.

Trials store these as facts (`tare.system.node.surroundings.reach`, `tare.system.node.limits.stated`). Results of tare
0.1 store the words themselves, which are returned as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tare.model.text import bytes_label

NOT_KNOWN: Final = "not known"
MOST_DIGITS: Final = 19
PROCESS_LIMITS: Final = {
    "open_files": "open files",
    "stack_bytes": "bytes of stack",
    "locked_bytes": "bytes of locked memory",
    "processes": "processes",
    "shm_bytes": "bytes of /dev/shm",
}
"""Of a rank's process: soft limits, and the size of /dev/shm."""


def devices(rights: Mapping[str, str]) -> str:
    """Return which devices beyond the usual can be opened."""
    names = rights.get("devices", NOT_KNOWN)
    if "device_count" not in rights:
        return names
    count, of_node = _number(rights["device_count"]), _number(rights.get("node_device_count", ""))
    if count == 0:
        return "the usual"
    if rights.get("has_all_devices") == "yes":
        return f"all of the node's ({count})"
    return ", ".join(names.split()) or (f"{count} of the node's {of_node}" if of_node else str(count))


def mounts(rights: Mapping[str, str]) -> str:
    """Return where files can be written."""
    if "root" not in rights:
        return rights.get("mounts", NOT_KNOWN)
    own, nodes = _folders(rights, "own"), _folders(rights, "node")
    parts = ["root read-only"] if rights["root"] == "ro" else []
    parts += [f"own: {own}"] if own else []
    parts += [f"the node's: {nodes}"] if nodes else []
    return "; ".join(parts) or "nothing"


def _folders(rights: Mapping[str, str], whose: str) -> str:
    names = rights.get(f"{whose}_mounts", "").split()
    more = _number(rights.get(f"{whose}_mount_count", "")) - len(names)
    return ", ".join(map(_readable, names)) + (f" and {more} more" if more > 0 else "")


def _readable(folder: str) -> str:
    """Return a folder's name as it is: mountinfo writes blanks and the like in octal."""
    return folder.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")


def _number(text: str) -> int:
    """Return a count; 0 if the text is none, because results may be damaged."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < MOST_DIGITS else 0


def limits(stated: str) -> str:
    """Return a container's limits: memory, CPU time, cores, number of processes."""
    if stated and "=" not in stated:
        return stated
    values = dict(part.split("=", 1) for part in stated.split() if "=" in part)
    if "cgroup" in values:
        return "none: no cgroup"
    cpus, cores = values.get("cpus"), values.get("cores")
    parts = [
        f"{bytes_label(_number(values['memory_bytes']))} of memory" if "memory_bytes" in values else "",
        f"{cpus} CPU{'s' * (cpus != '1')}" if cpus else "",
        f"{cores} core{'s' * (cores != '1')}" if cores else "",
        f"{values['pids']} processes" if "pids" in values else "",
    ]
    return ", ".join(part for part in parts if part) or "none"


def process_limit(name: str, stated: str) -> str:
    """Return a limit of `PROCESS_LIMITS` in words: `1024 open files`, `8 MiB of stack`."""
    words = PROCESS_LIMITS[name]
    if stated == "unlimited":
        return f"{words.removeprefix('bytes of ')} without a limit"
    if name.endswith("_bytes"):
        return bytes_label(int(stated)) + words.removeprefix("bytes")
    return f"{stated} {words}"


def process_limits(rights: Mapping[str, str], baseline: Mapping[str, str]) -> str:
    """Return the limits of a process that differ from the baseline's, each with the baseline's."""
    known = [name for name in PROCESS_LIMITS if rights.get(name) and baseline.get(name)]
    differing = [
        f"{process_limit(name, rights[name])} (baseline: {process_limit(name, baseline[name])})"
        for name in known
        if rights[name] != baseline[name]
    ]
    return ", ".join(differing) or ("the baseline's" if known else NOT_KNOWN)
