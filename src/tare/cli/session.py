"""What the commands have in common: from a study file to a plan, its files, its run and its reports."""

from __future__ import annotations

import math
import os
from pathlib import Path

from tare.cluster import CLUSTERS, clean
from tare.deploy.fit import no_such_workdir, unfit_for_launch
from tare.deploy.study_files import StudyFiles
from tare.errors import RefusedError
from tare.host import page_cache
from tare.images.build import Image
from tare.images.cache import Progress, silent
from tare.images.own import ensure_own
from tare.model import Binding, Caches, Environment, Placement, Plan, Study, Summary, Workload
from tare.model.placement import Topology, place
from tare.model.text import bytes_label
from tare.node import limits
from tare.node_service import geometry
from tare.plan import composition
from tare.plan.cells import expand
from tare.run import runner
from tare.run.facts import facts
from tare.store.writer import Results, Store
from tare.study import is_path
from tare.summary import summarise
from tare.workloads import located, plugin_of

__all__ = ["execute", "facts", "make_plan", "no_memory", "summary_of"]


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
    apart = composition.apart(study.environments)

    def availability(wanted: Environment, placement: Placement) -> str | None:
        return (
            cluster_reason
            or composition.refuse(wanted, placement)
            or apart.get(wanted.name)
            or composition.refuse_subnets(wanted, placement, study.lab)
            or _no_place(geometry.as_launched(wanted, placement), topology)
            or composition.probe(wanted)
            or (limits.missing() if limits.limited(placement) else None)
            or (_unfit(own[wanted.image], wanted) if wanted.image in own else None)
        )

    memory_bytes = limits.machine_memory()

    def ability(workload: Workload, wanted: Environment, placement: Placement) -> str | None:
        return (
            (page_cache.missing() if workload.startup is Caches.COLD else None)
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


def execute(plan: Plan, store: Store, files: StudyFiles, watcher: runner.Watcher, say: Progress = silent) -> None:
    """Run what is still to run of a plan; what an earlier, killed run left behind is removed first."""
    clean.leftovers_of_the_dead(say)
    with runner.running(plan, store, files, watcher, name=clean.free_name(f"s{os.getpid()}")) as run:
        run.blocks()


def summary_of(results: Results) -> Summary:
    """Return the summary of a results folder, computed anew."""
    return summarise(results.plan, results.trials, results.facts, results.looks)


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
