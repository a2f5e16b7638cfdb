"""Check the rules between keys of a study, once each key is valid by itself."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from tare import model
from tare.errors import RefusedError
from tare.model.placement import MOST_RANKS, needed_cores, place
from tare.model.text import counted
from tare.model.topology import NodeCores, Topology
from tare.networks.wiring import conflist, conflist_file
from tare.networks.wiring.conflist import is_conflist
from tare.study.messages import unknown
from tare.study.names import Known
from tare.study.schema import StudyIn

DEFAULT_BYTES: Final = 8
FLOAT_BYTES: Final = 4
DOUBLE_BYTES: Final = 8
KINDS: Final = ("kernels", "miniapp", "program", "commands", "command", "startup")
MOST_CELLS: Final = 10_000
"""One round of that many launches of half a second takes more than an hour, and each cell is a row of the report."""

MOST_LAUNCHES: Final = 1_000_000
"""Almost a week of launches of half a second; a report reads all of them into memory."""

MOST_NODES: Final = 4096
MOST_KERNELS: Final = 1000
"""The limit of one launch's command line."""

MOST_COMMANDS: Final = 100
NEAR: Final = 0.7
"""How alike a word in braces and one that is replaced must be for the first to be taken for a mistake."""
BRACED: Final = re.compile(r"(?<![{$])\{([a-z]+)\}(?!\})")
"""A word in single braces, unlike `{{.Replicas}}` of Docker's templates and `${x}` of a shell."""

Place = tuple[str | int, ...]
Finding = tuple[Place, str]


def check(study: model.Study, stated: StudyIn, known: Known) -> Iterator[Finding]:
    """Yield the problems between keys, as (place, sentence)."""
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
        yield from _check_commands(here, workload, known)
    yield from _check_published(study)
    repeat = study.repetition
    if repeat.max_rounds < repeat.rounds:
        yield (
            ("repetition", "max_rounds"),
            f"max_rounds ({repeat.max_rounds}) is below rounds ({repeat.rounds}): raise it",
        )
    if study.lab.subnets > study.lab.nodes:
        problem = f"{study.lab.subnets} subnets need at least {study.lab.subnets} nodes; this cluster has"
        yield ("cluster", study.cluster, "subnets"), f"{problem} {study.lab.nodes}"
    if not stated.cluster:
        yield (
            ("cluster",),
            f"no cluster is named (allowed: {', '.join(c for c in known.clusters if c not in known.fakes)})",
        )
    if study.lab.hosts and study.cluster not in known.with_hosts:
        takers = ", ".join(known.with_hosts)
        yield ("cluster", study.cluster, "hosts"), f"cluster {study.cluster} takes no hosts: use cluster: {takers}"
    if len(stated.cluster) > 1:
        yield ("cluster",), f"a study runs on one cluster, but this names {' and '.join(stated.cluster)}"


def _check_size(study: model.Study) -> Iterator[Finding]:
    """Find studies that are too large to run, before their cells are made."""
    environments = len(study.environments) + study.self_comparison
    cells = environments * len(study.placements) * len(study.workloads)
    repeat = study.repetition
    launches = cells * max(repeat.rounds, repeat.max_rounds) * repeat.blocks_per_round
    if cells > MOST_CELLS:
        product = f"{environments} environments x {len(study.placements)} placements x {len(study.workloads)} workloads"
        yield ("environments",), f"{product} are {cells} cells, but at most {MOST_CELLS} can run: make several studies"
    elif launches > MOST_LAUNCHES:
        rounds, blocks = max(repeat.rounds, repeat.max_rounds), repeat.blocks_per_round
        product = " x ".join((f"{cells} cells", counted(rounds, "round"), counted(blocks, "block")))
        yield (
            ("repetition",),
            f"{product} are {launches} launches, but at most {MOST_LAUNCHES} can run: use fewer rounds",
        )
    if study.lab.nodes > MOST_NODES:
        yield ("cluster", study.cluster, "nodes"), f"{study.lab.nodes} nodes are too many: use at most {MOST_NODES}"


def _check_name(here: Place, name: str) -> Iterator[Finding]:
    if not name.strip() or name != name.strip() or not name.isprintable() or "/" in name or len(name) > 80:
        yield here, f"{name!r} is not a valid name: use up to 80 printable characters without `/`"


def _check_kind(here: Place, workload: model.Workload) -> Iterator[Finding]:
    """Find workloads that have no kind or several kinds, and keys that belong to another kind."""
    given = [key for key in KINDS if getattr(workload, key)]
    if len(given) != 1:
        stated = f"this has {' and '.join(given)}" if given else "this has none of them"
        allowed = ", ".join(f"`{key}`" for key in KINDS[:-1])
        yield here, f"a workload has one of {allowed} or `{KINDS[-1]}`; {stated}"
        return
    for key in ("arguments", "path"):
        if getattr(workload, key) and not workload.program:
            yield (*here, key), f"{given[0]} takes no {key} (it belongs to program)"
    if workload.undo and not workload.commands:
        yield (*here, "undo"), f"{given[0]} takes no undo (it belongs to commands)"


def _check_commands(here: Place, workload: model.Workload, known: Known) -> Iterator[Finding]:
    """Find commands that cannot be as their author meant: a wrong word in braces, a time that is never reached."""
    for key, listed in (("commands", [each.run for each in workload.commands]), ("undo", workload.undo)):
        if len(listed) > MOST_COMMANDS:
            yield (*here, key), f"{len(listed)} commands in one launch are too many: use at most {MOST_COMMANDS}"
        for index, words in enumerate(listed):
            at = (*here, key, index)
            for word in (found for text in words for found in BRACED.findall(text) if found not in known.words):
                if near := difflib.get_close_matches(word, known.words, 1, NEAR):
                    yield at, f"{{{word}}} is not replaced by anything; did you mean {{{near[0]}}}?"
    for index, command in enumerate(workload.commands):
        if command.within_s > workload.time_limit_s:
            limit = f"the workload's time_limit of {workload.time_limit_s:g} s"
            yield (*here, "commands", index, "within"), f"this is longer than {limit}: raise time_limit, or lower it"


def _check_environments(study: model.Study) -> Iterator[Finding]:
    names = [environment.name for environment in study.environments]
    if study.baseline not in names:
        near = difflib.get_close_matches(study.baseline, names, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        yield ("baseline",), f"{study.baseline!r} is not one of the environments{hint} (they are: {', '.join(names)})"
    if len(names) == 1 and not study.self_comparison and not all(each.oversubscribe for each in study.placements):
        # where ranks share cores no times are compared: such a study counts, and one environment may be enough
        yield ("environments",), "one environment without A/A leaves nothing to compare: add another, or `a_a: true`"
    seen: dict[model.Environment, str] = {}
    for environment in study.environments:
        here = ("environments", environment.name)
        yield from _check_name(here, environment.name)
        first = seen.setdefault(replace(environment, name=""), environment.name)
        if first != environment.name:
            yield here, f"this is the same as {first}; for the noise floor use `a_a: true`"


def _check_published(study: model.Study) -> Iterator[Finding]:
    """Find published figures for which the report has no row."""
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
            yield (
                (*here, "environment"),
                f"{published.environment} is the baseline: name an environment compared with it",
            )
        if published.of_baseline is None and not published.told:
            yield here, "a published figure needs `of_baseline` (a percentage) or `told` (a text)"


def _check_conflists(study: model.Study) -> Iterator[Finding]:
    """Find the user's CNI configurations that are missing or invalid; their plug-ins are looked for later."""
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
        uses_image_mpi = environment.launch is not model.Launching.HOST_MPI
        if uses_image_mpi and inside is not None and inside != mpi:
            problem = f"{environment.image} contains {inside}, which {mpi} cannot start"
            yield (*here, "image"), f"{problem}: use {known.image_for(mpi)}, or mpi: {inside}"


def _check_placements(study: model.Study) -> Iterator[Finding]:
    seen: dict[model.Placement, int] = {}
    ranks = sum(placement.ranks for placement in study.placements if placement.ranks <= MOST_RANKS)
    if ranks > 4 * MOST_RANKS:
        yield ("placements",), f"together they have {ranks} ranks: use at most {4 * MOST_RANKS}"
        return
    for index, placement in enumerate(study.placements):
        here = ("placements", index)
        first = seen.setdefault(placement, index)
        if first != index:
            yield here, f"this is the same as placement {first + 1}"
        yield from _check_placement(here, placement, study.lab)
        for environment in study.environments:
            if environment.placement:
                changed = environment.placement.of(placement)
                yield from _check_placement(("environments", environment.name, "placement"), changed, study.lab)


def _check_placement(here: Place, placement: model.Placement, lab: model.LabSpec) -> Iterator[Finding]:
    cores = lab.cores_per_node or needed_cores(placement)
    node = NodeCores(cores=tuple(range(min(cores, 4096))))
    try:
        place(placement, Topology(nodes=(node,) * min(lab.nodes, 4096)))
    except RefusedError as refused:
        yield here, f"{refused.message}" + (f"; {refused.remedy}" if refused.remedy else "")


def _check_kernels(here: Place, kernels: Sequence[model.KernelSpec], known: Known) -> Iterator[Finding]:
    if len(kernels) > MOST_KERNELS:
        yield (*here, "kernels"), f"{len(kernels)} kernels in one launch are too many: use at most {MOST_KERNELS}"
        return
    seen: set[tuple[str, int, float | None]] = set()
    for index, spec in enumerate(kernels):
        at = (*here, "kernels", index)
        yield from _check_keys(at, spec, known)
        yield from _check_values(at, spec, known)
        metric = (spec.kernel, DEFAULT_BYTES if spec.message_bytes is None else spec.message_bytes, spec.rate_hz)
        if metric in seen:
            yield at, f"{spec.token} is measured twice in this workload: put one of them into a workload of its own"
        seen.add(metric)


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
    """Find values that the kernel would refuse, so that every launch fails (kernels/common/options.c)."""
    size = spec.message_bytes
    if size == 0 and spec.kernel in known.never_empty:
        yield (*at, "message_bytes"), f"{spec.kernel} needs a message of at least one byte, not 0"
    elif size is not None and size % FLOAT_BYTES and spec.kernel in known.of_floats:
        rule = f"{spec.kernel} adds floats of {FLOAT_BYTES} bytes: its size must be a multiple of {FLOAT_BYTES}"
        yield (*at, "message_bytes"), f"{rule}, not {size}"
    elif size is not None and size % DOUBLE_BYTES and spec.kernel in known.of_doubles:
        rule = f"{spec.kernel} sends cells of {DOUBLE_BYTES} bytes: its size must be a multiple of {DOUBLE_BYTES}"
        yield (*at, "message_bytes"), f"{rule}, not {size}"
    if spec.warmup == 0 and spec.kernel in known.paced:
        rule = f"{spec.kernel} needs a warm-up of at least 1, not 0"
        yield (*at, "warmup"), f"{rule}: a gap begins at the message before it, and the first needs a discarded one"
