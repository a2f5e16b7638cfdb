"""List the access that a study is granted: programs outside containers, and the mounts and limits of its containers.

A study file is code that root runs (SECURITY.md): `tare plan` prints this list, so that it can be reviewed first. Pure.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from tare.clusters import CLUSTERS
from tare.images.registry.reference import is_reference
from tare.model import Environment, Placement, Study, Workload
from tare.model.text import bytes_label
from tare.networks.wiring.conflist import PREFIX, is_conflist
from tare.runtimes import RUNTIMES
from tare.study import is_path
from tare.system.binds import bind_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """One grant to a study: its kind, its description, and the part of the study that it is for."""

    kind: str
    what: str
    to: str


def grants(study: Study) -> tuple[Grant, ...]:
    """Return what a study is granted besides tare's own programs and images, without duplicates, in its order."""
    granted = [grant for workload in study.workloads for grant in _of_workload(workload, study)]
    granted += [grant for environment in study.environments for grant in _of_environment(environment)]
    granted += [grant for placement in study.placements for grant in _of_placement(placement)]
    if study.writable:
        what = f"{study.writable} of this machine at the same path, WRITABLE"
        granted.append(Grant(kind="folder", what=what, to="all environments; commands work in it"))
    return tuple(dict.fromkeys(granted))


def in_words(granted: tuple[Grant, ...]) -> str:
    """Return grants as a table with one line for each."""
    if not granted:
        return "This study runs only tare's own programs and images; it gets no other access to this machine."
    rows = [(grant.kind, f"{_printable(grant.what)}  ({_printable(grant.to)})") for grant in granted]
    width = max(len(kind) for kind, _ in rows)
    lines = [f"  {kind:<{width}}  {text}" for kind, text in rows]
    return "\n".join(["This study gets the following access (check it before you run it):", *lines])


def _of_workload(workload: Workload, study: Study) -> Iterator[Grant]:
    for own in (*(command.run for command in workload.commands), *workload.undo):
        account = CLUSTERS[study.cluster].account
        what = f"{shlex.join(own)}: as {account}, in no container"
        yield Grant(kind="node command", what=what, to=f"workload {workload.name}, on the first node")
    if not (workload.command or workload.program or workload.path):
        return
    if workload.input:
        yield Grant(kind="input", what=f"{workload.input}: read as standard input", to=f"workload {workload.name}")
    words = workload.command or (workload.path or workload.program, *workload.arguments)
    bare = [each.name for each in study.environments if not RUNTIMES[each.runtime].makes_containers]
    contained = [each.name for each in study.environments if RUNTIMES[each.runtime].makes_containers]
    to = f"workload {workload.name}, at most {workload.time_limit_s:g} s a launch"
    if bare:
        account = CLUSTERS[study.cluster].account
        yield Grant(kind="program", what=f"{shlex.join(words)}: as {account} in {', '.join(bare)}", to=to)
    if contained:
        yield Grant(kind="program", what=f"{shlex.join(words)}: in containers of {', '.join(contained)}", to=to)


def _of_environment(environment: Environment) -> Iterator[Grant]:
    to = f"environment {environment.name}"
    own_image = is_path(environment.image) or is_reference(environment.image)
    if own_image and not RUNTIMES[environment.runtime].makes_containers:
        yield Grant(kind="image", what=f"{environment.image}: its programs run as root, in no container", to=to)
    elif own_image:
        yield Grant(kind="image", what=environment.image, to=to)
    for text in environment.binds:
        bind = bind_of(text)
        how = "read-only" if bind.read_only else "WRITABLE"
        yield Grant(kind="bind", what=f"{bind.source} of this machine at {bind.target}, {how}", to=to)
    for device in environment.devices:
        yield Grant(kind="device", what=device, to=to)
    for variable in environment.env:
        yield Grant(kind="variable", what=variable, to=to)
    if is_conflist(environment.network):
        path = environment.network.removeprefix(PREFIX)
        yield Grant(kind="CNI", what=f"{path}: the plug-ins that it names run as root", to=to)


def _of_placement(placement: Placement) -> Iterator[Grant]:
    memory = placement.memory_per_container
    parts = [f"{bytes_label(memory)} of memory"] if memory else []
    cpus = placement.cpus_per_container
    parts += [f"{cpus:g} CPU{'s' * (cpus != 1)}"] if cpus else []
    if parts:
        yield Grant(kind="limit", what=f"{' and '.join(parts)} a container", to=f"placement {placement.label}")


def _printable(text: str) -> str:
    """Return a text with its terminal control characters escaped."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
