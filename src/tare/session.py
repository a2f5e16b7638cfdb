"""What the commands have in common: from a study file to a plan, its files, its run and its reports."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from tare import caches, clean, conflist, environment, limits, located, runner
from tare.binds import bind_of
from tare.cluster import CLUSTERS
from tare.deploy import Files
from tare.errors import RefusedError
from tare.images import find_recipe
from tare.images.build import Image, ensure_image, ensure_tar
from tare.images.cache import silent
from tare.images.convert import ensure_file
from tare.images.fit import has_kernels, no_such_workdir, unfit_for_kernels, unfit_for_launch
from tare.images.host_mpi import HostMpi, ensure_host_mpi
from tare.images.kernels import KernelBuild, ensure_kernels
from tare.images.own import ensure_own
from tare.images.usage import prune
from tare.model import Binding, Caches, Cell, Environment, Launching, Placement, Plan, Study, Summary, Workload
from tare.mpi import MPIS
from tare.networks import find
from tare.placement import Topology, place
from tare.plan import available, expand
from tare.runtimes import RUNTIMES, apptainer
from tare.store import Results, Store
from tare.study import is_conflist, is_path
from tare.summary import summarise
from tare.text import bytes_label
from tare.topology import in_words, read_topology
from tare.workloads import plugin_of

Say = Callable[[str], None]
IMAGE_NAME: Final = "debian-openmpi"
SYSCTLS: Final = ("net/core/rmem_max", "net/core/wmem_max", "net/ipv4/tcp_rmem", "net/ipv4/tcp_congestion_control")


def make_plan(study: Study, say: Say = silent) -> Plan:
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


def make_files(plan: Plan, say: Say, shown: tuple[str, ...] = (), *, measured: bool = True) -> Files:
    """Return what the pods are made of, building first what is not in the cache.

    Where nothing is `measured` the kernels need not run in a user's own image.
    """
    cells = available(plan)
    if all(cell.environment.runtime == "fake" for cell in cells):
        return Files(host_prefix=Path("/nowhere"))
    mpis = {cell.environment.mpi for cell in cells} - {"fake"}
    if len(mpis) > 1:
        raise RefusedError(f"one MPI a study is supported, and this one has {', '.join(sorted(mpis))}")
    host_prefix = ensure_kernels(mpis.pop(), progress=say).prefix
    names = {cell.environment.image for cell in cells if cell.environment.image}
    if not names:
        return Files(host_prefix=host_prefix, shown=(str(host_prefix), *shown))
    if len(names) > 1:
        raise RefusedError(f"one image a study is supported, and this one has {', '.join(sorted(names))}")
    name = names.pop()
    image = ensure_own(Path(name), progress=say) if is_path(name) else ensure_image(find_recipe(name), progress=say)
    sif = _sif(cells, image, say)
    tar = ensure_tar(image, say) if any(RUNTIMES[cell.environment.runtime].needs_daemon for cell in cells) else None
    shows_kernels = bool(image.source) and not has_kernels(image)
    own_mpi = any(cell.environment.launch is not Launching.HOST_MPI for cell in cells)
    build = KernelBuild(prefix=host_prefix, digest="")
    if measured and shows_kernels and own_mpi and (reason := unfit_for_kernels(image, build)):
        raise RefusedError(reason)
    prune(progress=say)
    return Files(
        host_mpi=_host_mpi(cells, host_prefix, say),
        host_prefix=host_prefix,
        rootfs=image.rootfs,
        tar=tar,
        sif=sif,
        variables=image.variables if image.source else (),
        foreign=image.foreign,
        shows_kernels=shows_kernels,
        seen=tuple(bind_of(text).source for cell in cells for text in cell.environment.binds),
        image_tag=f"tare:{image.digest[:16]}",
        shown=(str(host_prefix), *shown),
    )


def _sif(cells: Sequence[Cell], image: Image, say: Say) -> Path | None:
    """Return the image as a SIF where a runtime starts from one, packing it first where it is not in the cache."""
    program = apptainer.find_program()
    if program is None or not any(cell.environment.runtime == "apptainer-sif" for cell in cells):
        return None
    if image.sif is not None:
        return image.sif
    return ensure_file(image, "sif", program, say).path


def _host_mpi(cells: Sequence[Cell], prefix: Path, say: Say) -> HostMpi | None:
    wanted = {cell.environment.mpi for cell in cells if cell.environment.launch is Launching.HOST_MPI}
    return ensure_host_mpi(wanted.pop(), KernelBuild(prefix=prefix, digest="").program, say) if wanted else None


def facts(plan: Plan, files: Files) -> dict[str, Any]:
    """Return what is recorded of this machine; `identity` must not change between runs of one study."""
    mpis = sorted({cell.environment.mpi for cell in available(plan)})
    stated = _conflists(plan)
    identity = {
        "kernel": platform.release(),
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "mpi": {name: MPIS[name].version() for name in mpis if name in MPIS},
        "kernels": files.host_prefix.name,
        "image": files.image_tag,
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


def execute(plan: Plan, store: Store, files: Files, watcher: runner.Watcher) -> None:
    """Run what is still to run of a plan; what an earlier, killed run left behind is removed first."""
    clean.leftovers_of_the_dead()
    with runner.running(plan, store, files, watcher, name=f"s{os.getpid()}") as run:
        run.blocks()


def summary_of(results: Results) -> Summary:
    """Return the summary of a results folder, computed anew."""
    return summarise(results.plan, results.trials, results.facts)


def check_program(path: str, files: Files) -> None:
    """Raise `RefusedError` when a program of the user's cannot run here or inside the image."""
    from tare.programs import missing_libraries

    for root, where in ((None, "on this machine"), (files.rootfs, "inside the image")):
        if where == "inside the image" and root is None:
            continue
        missing = missing_libraries(Path(path), root)
        if missing:
            raise RefusedError(
                f"{path} cannot run {where}: {', '.join(missing)} is missing",
                remedy="build it on Debian 12 for the MPI of the environment, or link it statically",
            )


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
