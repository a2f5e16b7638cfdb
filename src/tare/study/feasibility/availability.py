"""Expand a study to a plan in which each cell that cannot run here is "unavailable", with the reason.

This is the first check, before anything is built. The second, `preflight`, looks into images and programs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from tare.agent import geometry
from tare.clusters import CLUSTERS, Cluster
from tare.errors import MissingTool, RefusedError
from tare.images import find_recipe
from tare.images.build import Image, cannot_build
from tare.images.cache import Progress, silent
from tare.images.own_images import ensure_own
from tare.images.registry.reference import is_reference
from tare.model import Binding, Caches, Environment, Launching, Placement, Plan, Study, Workload
from tare.model.placement import place
from tare.model.text import bytes_label, counted
from tare.model.topology import Topology
from tare.mpi import MPIS
from tare.networks import NETWORKS, Wiring
from tare.runtimes import RUNTIMES
from tare.study import is_path
from tare.study.feasibility.fit import no_such_workdir, unfit_for_launch
from tare.study.plan import composition
from tare.study.plan.cells import expand
from tare.system.node import limits, page_cache
from tare.workloads import plugin_of, program_places

Judge = Callable[[Environment, Placement], str | None]


def make_plan(study: Study, say: Progress = silent) -> Plan:
    """Expand a study; cells that cannot run here are in it with the reason.

    A user's own image is looked into, so it is unpacked if it is not in the cache. Raises `UsageError` where it cannot
    be read.
    """
    study = program_places.located(study)
    paths = {wanted.image for wanted in study.environments if is_path(wanted.image)}
    own = {path: ensure_own(Path(path), progress=say) for path in sorted(paths)}
    memory_bytes = limits.machine_memory()

    def ability(workload: Workload, wanted: Environment, placement: Placement) -> str | None:
        return (
            (page_cache.missing() if plugin_of(workload).caches(workload) is Caches.COLD else None)
            or program_places.cannot_run(workload, wanted)
            or no_memory(workload, placement, memory_bytes)
        )

    return expand(study, judge_of(study, own), ability)


def judge_of(study: Study, own: Mapping[str, Image]) -> Judge:
    """Return what says why an environment cannot run in a placement on a study's cluster, or None.

    `own` are the user's images, by path.
    """
    cluster = CLUSTERS[study.cluster]
    topologies = {count: cluster.topology_of(study.lab, count) for count in {each.nodes for each in study.placements}}
    cluster_reason = cluster.probe()
    apart = {**composition.apart(study.environments), **cluster.apart(study.lab, study.environments)}
    lacking = cache(_cannot_build)

    def judge(wanted: Environment, placement: Placement) -> str | None:
        is_recipe = wanted.image and wanted.image not in own and not is_reference(wanted.image)
        return (
            cluster_reason
            or refuse(study, wanted, placement)
            or apart.get(wanted.name)
            or composition.refuse_subnets(wanted, placement, study.lab)
            or _no_place(geometry.as_launched(wanted, placement), topologies[placement.nodes], apart=cluster.is_real)
            or cluster.lacks(study.lab, wanted)
            or out_of_reach(wanted, cluster)
            or (limits.missing() if limits.limited(placement) or placement.cpu_weight else None)
            or (unfit_for_launch(own[wanted.image], wanted) if wanted.image in own else None)
            or (no_such_workdir(own[wanted.image], wanted) if wanted.image in own else None)
            or (lacking(wanted.image) if is_recipe else None)
        )

    return judge


def out_of_reach(wanted: Environment, cluster: Cluster) -> str | None:
    """Return why an environment's ranks are out of reach of a launcher that starts them beside itself, or None."""
    is_beside = cluster.is_real and cluster.is_here and NETWORKS[wanted.network].wiring is Wiring.NODE
    is_ours = wanted.launch is not Launching.SRUN and not RUNTIMES[wanted.runtime].by_cluster
    return MPIS[wanted.mpi].only_here() if is_ours and not is_beside else None


def _cannot_build(image: str) -> str | None:
    """Return why an image of a recipe cannot be had here, or None."""
    try:
        return cannot_build(find_recipe(image))
    except MissingTool as error:  # what the recipe copies from this machine
        return f"the image {image} cannot be built: {error.message}; or name an image of your own"


def refuse(study: Study, wanted: Environment, placement: Placement) -> str | None:
    """Return why an environment in a placement makes no sense on a study's cluster, whatever is installed, or None."""
    cluster = CLUSTERS[study.cluster]
    return (
        composition.refuse_launcher(wanted, cluster)
        or composition.refuse_pods(wanted, cluster, study.lab)
        or cluster.refuse(study.lab, wanted, placement)
        or composition.refuse(wanted, placement)
    )


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
            return (
                f"{workload.name} needs about {needed} for {counted(ranks, 'rank')}, "
                f"but {what} has {bytes_label(allowed)}: use fewer ranks or a smaller size"
            )
    return None


def _no_place(placement: Placement, topology: Topology, *, apart: bool) -> str | None:
    """Return why ranks have no cores of their own, or None; nodes that are `apart` are machines and share none."""
    if placement.binding is Binding.MPI_DEFAULT:
        return None
    try:
        slots = place(placement, topology)
    except RefusedError as error:
        return f"{error.message}: {error.remedy}" if error.remedy else error.message
    used = [(slot.node if apart else 0, core) for slot in slots for core in slot.cores]
    if len(set(used)) < len(used) and not placement.oversubscribe:
        return (
            f"{placement.label} needs more cores than this machine has, so its nodes would share cores: "
            "use fewer nodes or ranks, or oversubscribe: true"
        )
    return None
