"""Collect the facts about this machine and its software that a study records. Read-only; missing values are "unknown".

`identity` must not change between runs of one study: if it does, the store refuses to resume. All other facts help to
explain later why two machines, or two days, gave different figures. Programs are queried in parallel, so that
collection takes some tenths of a second.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from tare.agent.facts import UNKNOWN
from tare.agent.protocol import NodeService
from tare.agent.remote.at_once import on_each
from tare.errors import TareError
from tare.images.build import read_image
from tare.model import Plan
from tare.mpi import MPIS
from tare.networks import find as find_network
from tare.networks.wiring import conflist, conflist_file
from tare.runtimes import RUNTIMES
from tare.study.feasibility.study_files import StudyFiles
from tare.study.plan.cells import available
from tare.system import caller_variables
from tare.system.devices import gpus_of
from tare.system.node import gpus
from tare.system.node.cgroups import hierarchies
from tare.system.process import find, run
from tare.system.topology import in_words, read_topology
from tare.workloads import program_places

ABSENT: Final = "not installed"
WITH_DAEMON: Final = "with a daemon"
LIMIT_S: Final = 3.0
SYSCTLS: Final = ("net/core/rmem_max", "net/core/wmem_max", "net/ipv4/tcp_rmem", "net/ipv4/tcp_congestion_control")
COMPILER: Final = "mpicc"
"""An MPI's wrapper reports the version of the compiler that it calls, whatever that is called."""

VERSION: Final = re.compile(r"\d+\.\d[^\s,]*")
CPUS: Final = Path("/sys/devices/system/cpu")


def facts(plan: Plan, files: StudyFiles) -> dict[str, Any]:
    """Return the facts that are known before a study's cluster is up."""
    stated = _conflists(plan)
    with ThreadPoolExecutor(max_workers=8) as pool:
        versions = {name: pool.submit(version_of, program) for name, program in programs().items()}
        checkout = pool.submit(commit)
        identity = _identity(plan, files, stated)
        found = {
            "identity": identity,
            "cpu": identity["cpu"],
            "cores": identity["cores"],
            "topology": in_words(read_topology(os.sched_getaffinity(0))),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "kernel": identity["kernel"],
            "os": os_name(),
            "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or "not shown here",
            "processor": processor(),
            "system": system(),
            "lab": {"bridged frames pass netfilter": False, "bridge multicast snooping": False},
            "networks": _networks(plan),
            "sysctls": {name.replace("/", "."): _read(f"/proc/sys/{name}") for name in SYSCTLS},
            "images": images(files),
            "versions": {name: answer.result() for name, answer in versions.items()},
            "tare commit": checkout.result(),
        }
    if stated:
        found["CNI configurations"] = {path: " ".join(each.text.split()) for path, each in stated.items()}
    return found


def _identity(plan: Plan, files: StudyFiles, stated: Mapping[str, conflist.Conflist]) -> dict[str, Any]:
    mpis = sorted({cell.environment.mpi for cell in available(plan)})
    contents = {name: image["contents"] for name, image in images(files).items()}
    return {
        "kernel": platform.release(),
        "cpu": cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "mpi": {name: MPIS[name].version() for name in mpis if name in MPIS},
        "kernels": ", ".join(sorted({each.host_prefix.name for each in files.every})),
        "image": ", ".join(sorted({each.image_tag for each in files.every if each.image_tag})),
        **({"image contents": contents} if contents else {}),
        **{f"program {name}": digest for name, digest in programs_of(plan).items()},
        **({"CNI configurations": {path: each.digest for path, each in stated.items()}} if stated else {}),
    }


def programs_of(plan: Plan) -> dict[str, str]:
    """Return the digests of the user's commands on this machine, and of what they read as their standard input.

    A program that was compiled again is another program.
    """
    files = {name: program_places.command_file(name) for name in program_places.commands_of(available(plan))}
    files |= {name: Path(name) for name in sorted({cell.workload.input for cell in available(plan)}) if name}
    return {name: _digest_of_file(file) for name, file in files.items() if file is not None}


def _digest_of_file(file: Path) -> str:
    try:
        with file.open("rb") as program:
            return f"sha256:{hashlib.file_digest(program, 'sha256').hexdigest()[:16]}"
    except OSError:  # a program may be executable and not readable
        return UNKNOWN


# --- images -------------------------------------------------------------------------------------------------------


def images(files: StudyFiles) -> dict[str, dict[str, Any]]:
    """Return each image's contents by tag: its packages, and the digests of the package list and of the archive.

    The recipe's digest identifies only what was requested; the same recipe may install other packages from a mirror the
    next time. `contents` detects that. It is the digest of the package list if there is one, because the archive's
    digest changes with file dates.
    """
    found = {}
    for each in files.every:
        image = read_image(each.rootfs.parent) if each.rootfs is not None and not each.foreign else None
        if image is not None:
            listed = digest_of(dict(image.packages))
            archive = archive_digest(image.tar.parent / "image.json")
            found[each.image_tag] = {
                "packages": len(image.packages),
                "package list": listed,
                "tar_digest": archive,
                "contents": listed if image.packages else archive,
            }
    return found


def archive_digest(record: Path) -> str:
    """Return the digest of an image's archive, as recorded when it was built."""
    try:
        return str(json.loads(record.read_text()).get("tar_digest") or UNKNOWN)
    except (OSError, ValueError, AttributeError):
        return UNKNOWN


def digest_of(data: Any) -> str:
    """Return the digest of data, independent of the order of keys."""
    return f"sha256:{hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()}"


# --- software -----------------------------------------------------------------------------------------------------


def programs() -> dict[str, str]:
    """Return the programs whose versions are recorded, by the name used in the record."""
    of_runtimes = {name: program for runtime in RUNTIMES.values() for name, program in runtime.programs.items()}
    return {**of_runtimes, "compiler": COMPILER}


def version_of(program: str) -> str:
    """Return the version that a program reports; "not installed", or "unknown" if it reports none."""
    path = find(program)
    if path is None:
        return ABSENT
    try:
        said = run(
            (path, "--version"), timeout_s=LIMIT_S, check=False, env={**caller_variables.environment(), "USER": "root"}
        )
    except TareError:
        return UNKNOWN
    version = VERSION.search(said.stdout or said.stderr)
    return version.group(0).rstrip(".:)") if said.status == 0 and version else UNKNOWN


def commit(folder: Path | None = None) -> str:
    """Return the commit of the checkout that tare runs from, with `+` if tracked files are modified; else "unknown"."""
    top = folder or Path(__file__).parents[3]
    git = find("git")
    if git is None or not (top / ".git").exists():
        return UNKNOWN
    asked = (git, "-c", f"safe.directory={top}", "-C", str(top))
    try:
        head = run((*asked, "rev-parse", "HEAD"), timeout_s=LIMIT_S, check=False)
        changed = run((*asked, "status", "--porcelain", "-uno"), timeout_s=LIMIT_S, check=False)
    except TareError:
        return UNKNOWN
    return head.stdout.strip() + "+" * bool(changed.stdout.strip()) if head.status == 0 else UNKNOWN


# --- the machine --------------------------------------------------------------------------------------------------


def processor(cpuinfo: Path = Path("/proc/cpuinfo"), cpus: Path = CPUS) -> dict[str, Any]:
    """Return the processor's model, microcode, clock and the mitigations of its vulnerabilities."""
    first = dict(_pairs((_read(str(cpuinfo)) or "").split("\n\n", 1)[0]))
    parts = ("vendor_id", "cpu family", "model", "stepping")
    return {
        "model": " ".join(first[part] for part in parts if part in first) or UNKNOWN,
        "microcode": first.get("microcode", UNKNOWN),
        "MHz": first.get("cpu MHz", UNKNOWN),
        "virtual": "hypervisor" in first.get("flags", "").split(),
        "mitigations": {
            file.name: _read(str(file)) or UNKNOWN
            for file in (sorted((cpus / "vulnerabilities").iterdir()) if (cpus / "vulnerabilities").is_dir() else ())
        },
    }


def system() -> dict[str, Any]:
    """Return the kernel's command line and those of its settings that affect timings."""
    huge = _read("/sys/kernel/mm/transparent_hugepage/enabled") or ""
    chosen = re.search(r"\[(\w+)\]", huge)
    versions = sorted({each.version for each in hierarchies()})
    return {
        "command line": _read("/proc/cmdline") or UNKNOWN,
        "clocksource": _read("/sys/devices/system/clocksource/clocksource0/current_clocksource") or UNKNOWN,
        "transparent huge pages": chosen.group(1) if chosen else UNKNOWN,
        "cgroup version": " and ".join(map(str, versions)) or UNKNOWN,
    }


def of_site(plan: Plan, services: Sequence[NodeService]) -> dict[str, Any]:
    """Return the facts of a site that is up."""
    return {"nodes": of_nodes(services), "GPUs": gpus_of_machines(plan, services)}


def of_nodes(services: Sequence[NodeService]) -> dict[str, dict[str, Any]]:
    """Return the facts of one node with and one without a daemon, whose rules also slow down bare programs."""
    kinds = {
        WITH_DAEMON if service.node.docker_socket else "without a daemon": service
        for service in reversed(services)
        if service.node.pid
    }
    return {kind: dict(service.facts()) for kind, service in sorted(kinds.items())}


def gpus_of_machines(plan: Plan, services: Sequence[NodeService]) -> str | dict[str, str]:
    """Return the GPUs of this machine, or of each host of a cluster of machines, and who is given them."""
    given = sorted({each.environment.name for each in available(plan) if gpus_of(each.environment.devices)})
    machines = {service.node.machine: service for service in services if service.node.machine}
    if not machines:
        return gpus.in_words(gpus.find_gpus(), given)
    found = on_each(tuple(machines.values()), lambda service: service.facts()["GPUs"])
    return {name: gpus.in_words(each, given) for name, each in zip(machines, found, strict=True)}


def cpu_name() -> str:
    """Return the processor's name."""
    named = dict(_pairs(_read("/proc/cpuinfo") or ""))
    return named.get("model name", "") or platform.machine()


def os_name() -> str:
    """Return the distribution's name."""
    for line in (_read("/etc/os-release") or "").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.split("=", 1)[1].strip('"')
    return platform.system()


def _networks(plan: Plan) -> dict[str, str]:
    """Return for each network which parts are the product itself and which are a rebuilt data path."""
    return {name: find_network(name).product for name in sorted({cell.environment.network for cell in available(plan)})}


def _conflists(plan: Plan) -> dict[str, conflist.Conflist]:
    """Return the user's CNI configurations by path."""
    names = {cell.environment.network for cell in available(plan)}
    paths = sorted(name.removeprefix(conflist.PREFIX) for name in names if conflist.is_conflist(name))
    return {path: conflist_file.read(path) for path in paths}


def _pairs(text: str) -> Iterable[tuple[str, str]]:
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            yield name.strip(), value.strip()


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return None
