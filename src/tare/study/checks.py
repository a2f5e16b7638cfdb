"""Check what concerns several keys of a study, once each of them is right by itself."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from tare import model
from tare.errors import RefusedError
from tare.model.placement import MOST_RANKS, NodeCores, Topology, needed_cores, place
from tare.study.messages import unknown
from tare.study.names import Known, is_conflist
from tare.study.schema import StudyIn
from tare.wiring import conflist, conflist_file

DEFAULT_BYTES: Final = 8
FLOAT_BYTES: Final = 4
DOUBLE_BYTES: Final = 8
KINDS: Final = ("kernels", "miniapp", "program", "command", "startup")
MOST_CELLS: Final = 10_000
"""One round of as many launches of half a second takes more than an hour, and each is a row of the report."""

MOST_LAUNCHES: Final = 1_000_000
"""A week of launches of half a second; all of them are read into memory for a report."""

MOST_NODES: Final = 4096
MOST_KERNELS: Final = 1000
"""What one launch's command line has room for."""

Place = tuple[str | int, ...]
Finding = tuple[Place, str]


def check(study: model.Study, stated: StudyIn, known: Known) -> Iterator[Finding]:
    """Yield what is wrong between keys, as (place, sentence)."""
    yield from _check_environments(study)
    yield from _check_conflists(study)
    yield from _check_mpis(study, known)
    yield from _check_size(study)
    yield from _check_placements(study)
    for workload in study.workloads:
        here = ("workloads", workload.name)
        yield from _check_name(here, workload.name)
        yield from _check_kind(here, workload)
        yield from _check_kernels(here, workload.kernels, known)
    yield from _check_published(study)
    repeat = study.repetition
    if repeat.max_rounds < repeat.rounds:
        yield ("repetition", "max_rounds"), f"max_rounds ({repeat.max_rounds}) is below rounds ({repeat.rounds})"
    if study.lab.subnets > study.lab.nodes:
        told = f"{study.lab.subnets} subnets need as many nodes, and this cluster has {study.lab.nodes}"
        yield ("cluster", study.cluster, "subnets"), told
    if not stated.cluster:
        yield ("cluster",), f"no cluster is named (allowed: {', '.join(known.clusters)})"
    if len(stated.cluster) > 1:
        yield ("cluster",), f"a study runs on one cluster, and this names {' and '.join(stated.cluster)}"


def _check_size(study: model.Study) -> Iterator[Finding]:
    """Find studies that nobody could wait for, before their cells are made."""
    environments = len(study.environments) + study.self_comparison
    cells = environments * len(study.placements) * len(study.workloads)
    repeat = study.repetition
    launches = cells * max(repeat.rounds, repeat.max_rounds) * repeat.blocks_per_round
    if cells > MOST_CELLS:
        product = f"{environments} environments x {len(study.placements)} placements x {len(study.workloads)} workloads"
        yield ("environments",), f"{product} are {cells} cells, and {MOST_CELLS} are the most: make several studies"
    elif launches > MOST_LAUNCHES:
        told = f"{cells} cells, {max(repeat.rounds, repeat.max_rounds)} rounds and {repeat.blocks_per_round} block(s)"
        yield ("repetition",), f"{told} are {launches} launches, and {MOST_LAUNCHES} are the most: use fewer rounds"
    if study.lab.nodes > MOST_NODES:
        yield ("cluster", study.cluster, "nodes"), f"{study.lab.nodes} nodes, and {MOST_NODES} are the most"


def _check_name(here: Place, name: str) -> Iterator[Finding]:
    if not name.strip() or name != name.strip() or not name.isprintable() or "/" in name or len(name) > 80:
        yield here, f"{name!r} cannot be a name: use up to 80 printable characters without `/`"


def _check_kind(here: Place, workload: model.Workload) -> Iterator[Finding]:
    """Find workloads that are none or several of those there are, and what belongs to another."""
    given = [key for key in KINDS if getattr(workload, key)]
    if len(given) != 1:
        how = f"and this has {' and '.join(given)}" if given else "and this has none of them"
        allowed = ", ".join(f"`{key}`" for key in KINDS[:-1])
        yield here, f"a workload has {allowed} or `{KINDS[-1]}`, {how}"
        return
    for key in ("arguments", "path"):
        if getattr(workload, key) and not workload.program:
            yield (*here, key), f"{given[0]} takes no {key} (it belongs to program)"


def _check_environments(study: model.Study) -> Iterator[Finding]:
    names = [environment.name for environment in study.environments]
    if study.baseline not in names:
        near = difflib.get_close_matches(study.baseline, names, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        yield ("baseline",), f"{study.baseline!r} is not one of the environments{hint} (they are: {', '.join(names)})"
    if len(names) == 1 and not study.self_comparison:
        yield ("environments",), "one environment and no A/A leave nothing to compare: add another, or `a_a: true`"
    seen: dict[model.Environment, str] = {}
    for environment in study.environments:
        here = ("environments", environment.name)
        yield from _check_name(here, environment.name)
        first = seen.setdefault(replace(environment, name=""), environment.name)
        if first != environment.name:
            yield here, f"this is the same as {first}; for the noise floor use `a_a: true`"


def _check_published(study: model.Study) -> Iterator[Finding]:
    """Find published figures that no row of the report could stand beside."""
    known = {
        "environment": [environment.name for environment in study.environments],
        "workload": [workload.name for workload in study.workloads],
    }
    for index, published in enumerate(study.published):
        here = ("published", index)
        for key, names in known.items():
            if (name := getattr(published, key)) not in names:
                yield (*here, key), unknown(key, name, names)
        if published.environment == study.baseline:
            yield (*here, "environment"), f"{published.environment} is the baseline, which is what others are beside"
        if published.of_baseline is None and not published.told:
            yield here, "a published figure has `of_baseline`, or says in words what was `told`"


def _check_conflists(study: model.Study) -> Iterator[Finding]:
    """Find CNI configurations of the user's that are not there or not such; their plug-ins are looked for later."""
    for environment in study.environments:
        if is_conflist(environment.network):
            try:
                conflist_file.read(environment.network.removeprefix(conflist.PREFIX))
            except ValueError as error:
                yield ("environments", environment.name, "network"), str(error)


def _check_mpis(study: model.Study, known: Known) -> Iterator[Finding]:
    real = [environment for environment in study.environments if environment.mpi in known.mpi_of.values()]
    for environment in real:
        here = ("environments", environment.name)
        mpi, inside = environment.mpi, known.mpi_of.get(environment.image)
        own = environment.launch is not model.Launching.HOST_MPI
        if own and inside is not None and inside != mpi:
            told = f"{environment.image} has {inside} inside, which {mpi} cannot start"
            yield (*here, "image"), f"{told}: use {known.image_for(mpi)}, or mpi: {inside}"


def _check_placements(study: model.Study) -> Iterator[Finding]:
    seen: dict[model.Placement, int] = {}
    ranks = sum(placement.ranks for placement in study.placements if placement.ranks <= MOST_RANKS)
    if ranks > 4 * MOST_RANKS:
        yield ("placements",), f"they have {ranks} ranks together, and {4 * MOST_RANKS} are the most"
        return
    for index, placement in enumerate(study.placements):
        here = ("placements", index)
        first = seen.setdefault(placement, index)
        if first != index:
            yield here, f"this is the same as placement {first + 1}"
        cores = study.lab.cores_per_node or needed_cores(placement)
        node = NodeCores(cores=tuple(range(min(cores, 4096))))
        try:
            place(placement, Topology(nodes=(node,) * min(study.lab.nodes, 4096)))
        except RefusedError as refused:
            yield here, f"{refused.message}" + (f"; {refused.remedy}" if refused.remedy else "")


def _check_kernels(here: Place, kernels: Sequence[model.KernelSpec], known: Known) -> Iterator[Finding]:
    if len(kernels) > MOST_KERNELS:
        yield (*here, "kernels"), f"{len(kernels)} kernels in one launch, and {MOST_KERNELS} are the most"
        return
    seen: set[tuple[str, int, float | None]] = set()  # what names a metric of the launch
    for index, spec in enumerate(kernels):
        at = (*here, "kernels", index)
        yield from _check_keys(at, spec, known)
        yield from _check_values(at, spec, known)
        same = (spec.kernel, DEFAULT_BYTES if spec.message_bytes is None else spec.message_bytes, spec.rate_hz)
        if same in seen:
            yield at, f"{spec.token} is measured twice in this workload: put one of them into a workload of its own"
        seen.add(same)


def _check_keys(at: Place, spec: model.KernelSpec, known: Known) -> Iterator[Finding]:
    """Find keys that the kernel does not take."""
    for key, value, takers in [
        ("message_bytes", spec.message_bytes, tuple(k for k in known.kernels if k not in known.unsized)),
        ("window", spec.window, known.windowed),
        ("rate", spec.rate_hz, known.paced),
        ("sync", spec.sync, tuple(k for k in known.kernels if k not in known.paced)),
    ]:
        if value is not None and spec.kernel not in takers:
            yield (*at, key), f"{spec.kernel} takes no {key} (it belongs to {', '.join(takers)})"


def _check_values(at: Place, spec: model.KernelSpec, known: Known) -> Iterator[Finding]:
    """Find values that the kernel would refuse, and every launch fail with it (kernels/common/options.c)."""
    size = spec.message_bytes
    if size == 0 and spec.kernel in known.never_empty:
        yield (*at, "message_bytes"), f"{spec.kernel} needs a message of at least one byte, not 0"
    elif size is not None and size % FLOAT_BYTES and spec.kernel in known.of_floats:
        told = f"{spec.kernel} adds floats of {FLOAT_BYTES} bytes: its size must be a multiple of {FLOAT_BYTES}"
        yield (*at, "message_bytes"), f"{told}, not {size}"
    elif size is not None and size % DOUBLE_BYTES and spec.kernel in known.of_doubles:
        told = f"{spec.kernel} sends cells of {DOUBLE_BYTES} bytes: its size must be a multiple of {DOUBLE_BYTES}"
        yield (*at, "message_bytes"), f"{told}, not {size}"
    if spec.warmup == 0 and spec.kernel in known.paced:
        told = f"{spec.kernel} needs a warm-up of at least 1, not 0"
        yield (*at, "warmup"), f"{told}: a gap begins at the message before it, and the first needs a discarded one"
