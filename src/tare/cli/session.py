"""What the commands have in common: from a study file to a plan, its files, its run and its reports."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tare.cluster import CLUSTERS, clean
from tare.deploy import study_files
from tare.deploy.fit import no_such_workdir, unfit_for_launch
from tare.deploy.study_files import StudyFiles
from tare.errors import RefusedError
from tare.feasibility import preflight
from tare.host import page_cache
from tare.host.user_namespace import become_root
from tare.images.build import Image
from tare.images.cache import Progress, silent
from tare.images.own import ensure_own
from tare.model import Binding, Caches, Environment, Placement, Plan, Study, Summary, Workload
from tare.model.placement import Topology, place
from tare.model.text import bytes_label
from tare.node import limits
from tare.node_service import geometry
from tare.plan import composition
from tare.plan.cells import available, expand
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
            return (
                f"{workload.name} needs about {needed} for {ranks} rank(s), but {what} has {bytes_label(allowed)}: "
                "use fewer ranks or a smaller size"
            )
    return None


def _unfit(image: Image, wanted: Environment) -> str | None:
    return unfit_for_launch(image, wanted) or no_such_workdir(image, wanted)


def make_ready(
    plan: Plan,
    say: Progress = silent,
    *,
    shown: tuple[str, ...] = (),
    programs: Mapping[str, Path] | None = None,
    cwd: str = "",
    measured: bool = True,
) -> tuple[Plan, StudyFiles]:
    """Build or find the files of a plan's pods, become root of a user namespace where needed, and check what will run.

    Returns the plan without the cells whose parts turn out not to fit together. `shown` are folders that pods see,
    `cwd` the one in which ranks work and may write. `programs` are the user's own, by the name in their workloads.
    """
    files = study_files.make_files(plan, say, shown, measured=measured)
    if cwd:
        files = replace(files, made={key: replace(each, cwd=cwd) for key, each in files.made.items()})
    if CLUSTERS[plan.study.cluster].needs_root:
        become_root()  # the files are built by now: as root of a user namespace they could not be
    for name, file in (programs or {}).items():
        images = () if located.is_of_system(file) else tuple(study_files.images_of(plan, files, name))
        study_files.check_program(str(file), images)
    return preflight.fitting(plan, files), files


def check_available(plan: Plan) -> None:
    """Raise `RefusedError` with the reasons if no cell of a plan can run."""
    if not available(plan):
        reasons = "\n  ".join(sorted({f"{key}: {reason}" for key, reason in plan.unavailable.items()}))
        raise RefusedError("no cell of this study can run here", remedy=reasons)


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
        return (
            f"{placement.label} needs more cores than this machine has, so its nodes would share cores: "
            "use fewer nodes or ranks, or oversubscribe: true"
        )
    return None
