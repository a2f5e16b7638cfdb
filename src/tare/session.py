"""What the commands have in common: from a study file to a plan, its files, its run and its reports."""

from __future__ import annotations

import math
import os
import platform
from pathlib import Path
from typing import Any, Final

from tare import caches, clean, conflist, environment, limits, located, runner
from tare.cluster import CLUSTERS
from tare.errors import RefusedError
from tare.images.build import Image
from tare.images.cache import Progress, silent
from tare.images.fit import no_such_workdir, unfit_for_launch
from tare.images.own import ensure_own
from tare.model import Binding, Caches, Environment, Placement, Plan, Study, Summary, Workload
from tare.mpi import MPIS
from tare.networks import find
from tare.placement import Topology, place
from tare.plan import available, expand
from tare.store import Results, Store
from tare.study import is_conflist, is_path
from tare.study_files import StudyFiles
from tare.summary import summarise
from tare.text import bytes_label
from tare.topology import in_words, read_topology
from tare.workloads import plugin_of

SYSCTLS: Final = ("net/core/rmem_max", "net/core/wmem_max", "net/ipv4/tcp_rmem", "net/ipv4/tcp_congestion_control")


def make_plan(study: Study, say: Progress = silent) -> Plan:
    """Expand a study; cells that cannot run here are in it with the reason.

    A user's own image is looked into, so it is unpacked if it is not in the cache. Raises `UsageError` where it cannot
    be read.
    """
    study = located.located(study)
    paths = {wanted.image for wanted in study.environments if is_path(wanted.image)}
    own = {path: ensure_own(Path(path), progress=say) for path in sorted(paths)}
    cluster = CLUSTERS[study.cluster]
    topology = cluster.topology(study.lab)
    cluster_reason = cluster.probe()
    apart = environment.apart(study.environments)

    def availability(wanted: Environment, placement: Placement) -> str | None:
        return (
            cluster_reason
            or environment.refuse(wanted, placement)
            or apart.get(wanted.name)
            or environment.refuse_subnets(wanted, placement, study.lab)
            or _no_place(environment.as_launched(wanted, placement), topology)
            or environment.probe(wanted)
            or (limits.missing() if limits.limited(placement) else None)
            or (_unfit(own[wanted.image], wanted) if wanted.image in own else None)
        )

    memory_bytes = limits.machine_memory()

    def ability(workload: Workload, wanted: Environment, placement: Placement) -> str | None:
        return (
            (caches.missing() if workload.startup is Caches.COLD else None)
            or located.cannot_run(workload, wanted)
            or no_memory(workload, placement, memory_bytes)
        )

    return expand(study, availability, ability)


def no_memory(workload: Workload, placement: Placement, machine_bytes: int) -> str | None:
    """Return that a workload needs more memory than its containers, or the nodes together, have, or None.

    The nodes of a lab are all on one machine. Pure.
    """
    each = plugin_of(workload).memory_bytes(workload, placement)
    sharing = -(-placement.ranks_per_node // placement.containers_per_node)
    for ranks, what, allowed in (
        (sharing, "a container", placement.memory_per_container),
        (placement.ranks, "this machine", machine_bytes),
    ):
        if allowed and ranks * each > allowed:
            needed = bytes_label(math.ceil(ranks * each / 2**20) << 20)
            return f"{workload.name} needs about {needed} for {ranks} rank(s), and {what} has {bytes_label(allowed)}"
    return None


def _unfit(image: Image, wanted: Environment) -> str | None:
    return unfit_for_launch(image, wanted) or no_such_workdir(image, wanted)


def facts(plan: Plan, files: StudyFiles) -> dict[str, Any]:
    """Return what is recorded of this machine; `identity` must not change between runs of one study."""
    mpis = sorted({cell.environment.mpi for cell in available(plan)})
    stated = _conflists(plan)
    identity = {
        "kernel": platform.release(),
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "mpi": {name: MPIS[name].version() for name in mpis if name in MPIS},
        "kernels": ", ".join(sorted({each.host_prefix.name for each in files.every})),
        "image": ", ".join(sorted({each.image_tag for each in files.every if each.image_tag})),
        **({"CNI configurations": {path: each.digest for path, each in stated.items()}} if stated else {}),
    }
    return {
        "identity": identity,
        "cpu": identity["cpu"],
        "cores": identity["cores"],
        "topology": in_words(read_topology(os.sched_getaffinity(0))),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": identity["kernel"],
        "os": _os_name(),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or "not shown here",
        "lab": {"bridged frames pass netfilter": False, "bridge multicast snooping": False},
        "networks": _networks(plan),
        **(
            {"CNI configurations": {path: " ".join(each.text.split()) for path, each in stated.items()}}
            if stated
            else {}
        ),
        "sysctls": {name.replace("/", "."): _read(f"/proc/sys/{name}") for name in SYSCTLS},
    }


def _networks(plan: Plan) -> dict[str, str]:
    """Return what of each network is the product itself and what is its data path rebuilt."""
    return {name: find(name).product for name in sorted({cell.environment.network for cell in available(plan)})}


def _conflists(plan: Plan) -> dict[str, conflist.Conflist]:
    """Return the CNI configurations of the user's, by their paths."""
    names = {cell.environment.network for cell in available(plan)}
    paths = sorted(name.removeprefix(conflist.PREFIX) for name in names if is_conflist(name))
    return {path: conflist.read(path) for path in paths}


def execute(plan: Plan, store: Store, files: StudyFiles, watcher: runner.Watcher, say: Progress = silent) -> None:
    """Run what is still to run of a plan; what an earlier, killed run left behind is removed first."""
    clean.leftovers_of_the_dead(say)
    with runner.running(plan, store, files, watcher, name=clean.free_name(f"s{os.getpid()}")) as run:
        run.blocks()


def summary_of(results: Results) -> Summary:
    """Return the summary of a results folder, computed anew."""
    return summarise(results.plan, results.trials, results.facts)


def _no_place(placement: Placement, topology: Topology) -> str | None:
    if placement.binding is Binding.MPI_DEFAULT:
        return None
    try:
        slots = place(placement, topology)
    except RefusedError as error:
        return error.message
    used = [core for slot in slots for core in slot.cores]
    if len(set(used)) < len(used) and not placement.oversubscribe:
        return f"{placement.label} needs more cores than this machine has: its nodes would share cores"
    return None


def _cpu() -> str:
    for line in (_read("/proc/cpuinfo") or "").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _os_name() -> str:
    for line in (_read("/etc/os-release") or "").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.split("=", 1)[1].strip('"')
    return platform.system()


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None
