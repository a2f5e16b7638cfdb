"""Limit a container's resources, and read from the kernel's counters its limits and whether it exceeded them.

A runtime that makes a cgroup for a container gets the limits as options; for other runtimes tare makes the cgroup.
cgroup v1: https://docs.kernel.org/admin-guide/cgroup-v1/ (memory.txt, cpuset), v2: .../cgroup-v2.html.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Final

from tare.errors import InfrastructureError
from tare.model import Placement
from tare.model.placement import cpu_quota
from tare.model.text import bytes_label
from tare.system.node.cgroups import Group, Hierarchy, hierarchies
from tare.system.node.kernel_files import read_text
from tare.system.topology import parse_list

PERIOD_US: Final = 100_000
"""The kernel's and Docker's default: in each such period a group runs until its quota is used up, and then waits."""
UNLIMITED_BYTES: Final = 2**60
"""In v1 a group without a limit shows the largest whole number of pages."""
SWAP: Final = ("memory.memsw.limit_in_bytes", "memory.swap.max")
OWN_LIMITS: Final = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""The limit files of the cgroup that we see as the root: that of the container in which we may run."""
USUAL_WEIGHT: Final = 100
"""The kernel's default of `cpu.weight`, which is 1024 `cpu.shares` in v1."""
SHARES_OF_USUAL: Final = 1024
CONTROLLERS: Final = ("memory", "cpu", "cpuset")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Resource limits of all processes of a container: memory in bytes, CPUs in seconds per second; 0: no limit."""

    memory_bytes: int = 0
    cpus: float = 0.0


def limits_of(placement: Placement, *, containers: int = 1) -> Limits | None:
    """Return the limits of so many containers of a placement together, or None if it sets none."""
    if not limited(placement):
        return None
    quota = round(cpu_quota(placement) * containers, 6)
    return Limits(memory_bytes=placement.memory_per_container * containers, cpus=quota)


def limited(placement: Placement) -> bool:
    """Return whether a placement limits a container's resources."""
    return bool(placement.memory_per_container or placement.cpus_per_container)


def missing(available: Iterable[Hierarchy] | None = None) -> str | None:
    """Return why limits are not supported on this machine, or None."""
    found = set()
    for hierarchy in hierarchies() if available is None else available:
        listed = _text(hierarchy.top.parent / "cgroup.controllers") if hierarchy.version == 2 else ""
        found |= {*hierarchy.controllers, *listed.split()}
    lacking = [name for name in CONTROLLERS if name not in found]
    if not lacking:
        return None
    return f"what a container may use is limited by cgroups, and we may not use {', '.join(lacking)} here: run as root"


def hold(group: Group, limits: Limits) -> None:
    """Limit a cgroup of tare's before it contains processes. Raises `InfrastructureError`."""
    wanted: list[tuple[str, str, str]] = []
    version = group.version
    if limits.memory_bytes:
        names = ("memory.max",) if version == 2 else ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
        wanted += [("memory", name, str(limits.memory_bytes)) for name in names]
        wanted += [("memory", "memory.swap.max", "0")] if version == 2 else []
    if limits.cpus:
        share = str(round(limits.cpus * PERIOD_US))
        if version == 2:
            wanted.append(("cpu", "cpu.max", f"{share} {PERIOD_US}"))
        else:
            wanted += [("cpu", "cpu.cfs_period_us", str(PERIOD_US)), ("cpu", "cpu.cfs_quota_us", share)]
    for controller, name, value in wanted:
        folder = _folder(group, controller)
        file = None if folder is None else folder / name
        if file is not None and name in SWAP and not file.exists():
            continue  # the kernel does not count swap
        try:
            if file is None:
                raise FileNotFoundError(2, "there is no such controller")
            file.write_text(value)
        except OSError as error:
            raise InfrastructureError(
                f"cannot limit {controller} of {group.path} to {value}: {error.strerror}",
                remedy="leave memory_per_container and cpus_per_container out of the placement",
            ) from error


def prefer(group: Group, weight: int) -> None:
    """Set the weight of a node's group, and of those of tare's that it is in, against other programs; 0: the default.

    Raises `InfrastructureError` where the groups cannot be written.
    """
    names = PurePosixPath(group.path)
    for path in (names, *names.parents):
        folder = _folder(replace(group, path=str(path)), "cpu")
        name, value = ("cpu.weight", weight or USUAL_WEIGHT)
        if group.version == 1:
            name, value = "cpu.shares", value * SHARES_OF_USUAL // USUAL_WEIGHT
        try:
            if folder is None:
                raise FileNotFoundError(2, "there is no such controller")
            (folder / name).write_text(str(value))
        except OSError as error:
            raise InfrastructureError(
                f"cannot set {name} of {path} to {value}: {error.strerror}",
                remedy="leave cpu_weight out of the placement",
            ) from error


def memory_kills(group: Group) -> int:
    """Return how many processes of a group the kernel has killed for exceeding its memory limit."""
    folder = _folder(group, "memory")
    if folder is None:
        return 0
    name = "memory.events" if group.version == 2 else "memory.oom_control"
    return _table(folder / name).get("oom_kill", 0)


def memory_hit(what: str, group: Group) -> str:
    """Return the sentence about an exceeded memory limit; `what` names the container and its node."""
    told = bytes_label(memory_limit(group))
    return (
        f"the memory limit of {what} ({told}) was hit: a rank's process was killed by the kernel; "
        "raise memory_per_container"
    )


def memory_limit(group: Group) -> int:
    """Return a group's memory limit in bytes, 0 if there is none."""
    folder = _folder(group, "memory")
    if folder is None:
        return 0
    text = _text(folder / ("memory.max" if group.version == 2 else "memory.limit_in_bytes"))
    return int(text) if text.isdigit() and int(text) < UNLIMITED_BYTES else 0


def machine_memory() -> int:
    """Return the memory of this machine in bytes, or the limit of our own cgroup if that is lower."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    told = [_text(Path(name)) for name in OWN_LIMITS]
    return min([whole, *(int(text) for text in told if text.isdigit())])


def cpu_limit(group: Group) -> float:
    """Return a group's CPU limit in CPUs, 0 if there is none."""
    folder = _folder(group, "cpu")
    if folder is None:
        return 0.0
    if group.version == 2:
        quota, _, period = _text(folder / "cpu.max").partition(" ")
    else:
        quota, period = (_text(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else 0.0


def stated(group: Group) -> str:
    """Return a group's limits, read from outside, as `memory_bytes=N cpus=N cores=N pids=N` without those it lacks.

    Without a cgroup it is `cgroup=none`.
    """
    if not group.hierarchies:
        return "cgroup=none"
    values = {
        "memory_bytes": memory_limit(group),
        "cpus": cpu_limit(group),
        "cores": len(parse_list(_value(group, "cpuset", "cpuset.cpus"))),
        "pids": _value(group, "pids", "pids.max").replace("max", ""),
    }
    return " ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in values.items()
        if value
    )


def _value(group: Group, controller: str, name: str) -> str:
    folder = _folder(group, controller)
    return "" if folder is None else _text(folder / name)


def _folder(group: Group, controller: str) -> Path | None:
    """Return the folder with a controller's files for a group."""
    for hierarchy in group.hierarchies:
        if hierarchy.version == 2 or controller in hierarchy.controllers:
            return hierarchy.top / group.path
    return None


def _table(path: Path) -> dict[str, int]:
    lines = (line.split() for line in _text(path).splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) == 2}


def _text(path: Path) -> str:
    """Return a file's text, "" if the group was removed with its container, or the kernel has no such file."""
    return read_text(str(path)).strip()
