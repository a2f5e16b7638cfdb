"""Flatten what a results folder records about its machine, software and study to facts that can be compared. Pure.

Left out are values that differ from run to run without meaning (the clock rate of the moment, numbers of jobs), those
that a study may change when it resumes (rounds, margin, limit, confidence, its name), and its seed, which only orders
launches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Final

from tare.agent.geometry import on_daemon_nodes
from tare.model import Environment, KernelSpec, Plan, Study
from tare.networks.wiring import conflist
from tare.report import units
from tare.run.facts import WITH_DAEMON
from tare.runtimes import RUNTIMES
from tare.study import KNOWN, full_name

MOST: Final = 5000
"""Most facts of one folder; tare's own have some hundred."""
LONGEST: Final = 2000

NOT_RECORDED: Final = frozenset({"", "unknown", "none known"})
"""Texts that state no fact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One fact: its kind (`tare.compare.kinds`), and the environments that it concerns; empty: all of them."""

    kind: str
    text: str
    environments: frozenset[str] = frozenset()


Facts = Mapping[str, Fact]
"""Facts by their name, as `net.core.rmem_max`."""

_KIND_OF_ROOT: Final[Mapping[str, str]] = {
    "cores": "cpu", "topology": "cpu", "memory_bytes": "memory", "governor": "boot", "os": "libraries",
    "lab": "filter", "sysctls": "sysctls", "GPUs": "gpu", "tare commit": "tare",
}  # fmt: skip
_OF_IDENTITY: Final[Mapping[str, tuple[str, str]]] = {
    "kernel": ("kernel", "kernel"), "cpu": ("cpu", "CPU"), "cores": ("cpu", "cores"), "mpi": ("mpi", "MPI"),
    "kernels": ("tare", "compiled kernels"),
}  # fmt: skip
_OF_SYSTEM: Final[Mapping[str, str]] = {"transparent huge pages": "memory", "cgroup version": "cgroup"}
_OF_PROCESSOR: Final[Mapping[str, str]] = {"mitigations": "mitigations"}
_PASSED_OVER: Final = frozenset(
    {"identity", "cpu", "cores", "kernel", "images", "versions", "networks", "processor", "system", "allocations"}
    | {"nodes", "machine", "CNI configurations", "calibration", "started in", "running threads"}
)
"""Parts of the facts that are read on their own, or that say nothing about the machine."""

_OF_LAB: Final[Mapping[str, str]] = {
    "link_rate_bps": "link", "segmented": "link", "hosts": "nodes", "nodes": "nodes", "subnets": "link",
    "data_subnet": "link", "nics": "link",
}  # fmt: skip
_OF_ENVIRONMENT: Final[Mapping[str, str]] = {"mpi": "mpi", "image": "image", "transport": "transport"}
_NOT_OF_ENVIRONMENT: Final = frozenset({"name", "link"})
_NOT_OF_WORKLOAD: Final = frozenset({"name", "time_limit_s"})
_NOT_OF_LAB: Final = frozenset({"ssh_config", "slurm", "pod_addresses", "daemon_hosts"})


def facts_of(tool: str, recorded: Mapping[str, Any], plan: Plan) -> dict[str, Fact]:
    """Return the facts of a results folder: `recorded` are those of plan.json, `tool` is what wrote it."""
    found: dict[str, Fact] = {}
    everything = (
        *_of_tool(tool),
        *_of_machine(recorded),
        *_of_nodes(recorded, plan.study),
        *_of_software(recorded, plan),
        *_of_study(plan.study),
    )
    for name, fact in everything:
        text = " ".join(fact.text.split())
        if text not in NOT_RECORDED and len(found) < MOST:
            found.setdefault(name[:LONGEST], Fact(kind=fact.kind, text=text[:LONGEST], environments=fact.environments))
    return found


def _of_tool(tool: str) -> Iterator[tuple[str, Fact]]:
    yield "tare", Fact(kind="tare", text=tool.removeprefix("tare "))


# --- the machine --------------------------------------------------------------------------------------------------


def _of_machine(recorded: Mapping[str, Any]) -> Iterator[tuple[str, Fact]]:
    identity = _mapping(recorded.get("identity"))
    for key, (kind, name) in _OF_IDENTITY.items():
        yield from _leaves(kind, name, identity.get(key, recorded.get(key)))
    for key, value in identity.items():
        if key.startswith("program "):
            yield key, Fact(kind="program", text=_text(value))
    processor, system = _mapping(recorded.get("processor")), _mapping(recorded.get("system"))
    for key, value in processor.items():
        if key != "MHz":
            kind = _OF_PROCESSOR.get(key, "cpu")
            yield from _leaves(kind, key if kind != "cpu" else f"processor: {key}", value)
    for key, value in system.items():
        yield from _leaves(_OF_SYSTEM.get(key, "boot"), key, value)
    for key, value in recorded.items():
        if key == "sysctls":
            yield from ((str(name), Fact(kind="sysctls", text=_text(each))) for name, each in _mapping(value).items())
        elif key == "memory_bytes" and isinstance(value, int | float):
            yield "memory", Fact(kind="memory", text=units.size(round(value / 2**28) * 2**28))
        elif key not in _PASSED_OVER:
            yield from _leaves(_KIND_OF_ROOT.get(key, "other"), key, value)
    nodes = sorted({_text(_mapping(each).get("nodes")) for each in _mapping(recorded.get("allocations")).values()})
    yield "nodes of allocations", Fact(kind="nodes", text="; ".join(filter(None, nodes)))


def _leaves(kind: str, name: str, value: Any) -> Iterator[tuple[str, Fact]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves("link" if key == "offloads" else kind, f"{name}: {key}", inner)
    elif value is not None:
        yield name, Fact(kind=kind, text=_text(value))


def _of_nodes(recorded: Mapping[str, Any], study: Study) -> Iterator[tuple[str, Fact]]:
    """Yield the packet filter's rules and the offloads of a node with, and of one without, a daemon.

    What a daemon adds to its node follows from the networks that the study asks of it. So it is compared only between
    results with the same environments on such nodes: their names are part of the fact's.
    """
    users = [each for each in study.environments if each.runtime in RUNTIMES and on_daemon_nodes(each)]
    for kind, value in _mapping(recorded.get("nodes")).items():
        own = users if kind == WITH_DAEMON else []
        name = f"nodes: {kind} for {_names(own)}" if own else f"nodes: {kind}"
        for full, fact in _leaves("filter", name, value):
            yield full, replace(fact, environments=frozenset(full_name(each, KNOWN) for each in own))


def _names(environments: Iterable[Environment]) -> str:
    return ", ".join(sorted(full_name(each, KNOWN) for each in environments))


# --- software -----------------------------------------------------------------------------------------------------


def _of_software(recorded: Mapping[str, Any], plan: Plan) -> Iterator[tuple[str, Fact]]:
    environments = plan.study.environments
    with_image = frozenset(full_name(each, KNOWN) for each in environments if each.image)
    images = _mapping(recorded.get("images")).values()
    contents = sorted({_text(_mapping(image).get("contents"))[:23] for image in images})
    yield "contents of images", Fact(kind="image", text=", ".join(filter(None, contents)), environments=with_image)
    for program, version in _mapping(recorded.get("versions")).items():
        users = frozenset(full_name(each, KNOWN) for each in environments if program in _programs_of(each))
        if program == "compiler":
            yield "compiler", Fact(kind="compiler", text=_text(version))
        elif users:
            yield program, Fact(kind="runtime", text=_text(version), environments=users)
    for kind in ("networks", "CNI configurations"):
        for name, product in _mapping(recorded.get(kind)).items():
            users = frozenset(
                full_name(each, KNOWN) for each in environments if each.network in {name, f"{conflist.PREFIX}{name}"}
            )
            yield f"network {name}", Fact(kind="network", text=_text(product), environments=users)


def _programs_of(environment: Environment) -> frozenset[str]:
    """Return the programs, as the record names them, of an environment's runtime and of the daemon on its nodes."""
    names = (environment.runtime, environment.daemon)
    return frozenset(program for name in names if name in RUNTIMES for program in RUNTIMES[name].programs)


# --- the study ----------------------------------------------------------------------------------------------------


def _of_study(study: Study) -> Iterator[tuple[str, Fact]]:
    yield "cluster", Fact(kind="cluster", text=study.cluster)
    yield (
        "baseline",
        Fact(kind="study", text=_names(each for each in study.environments if each.name == study.baseline)),
    )
    yield "turns", Fact(kind="study", text=str(study.repetition.turns))
    yield "blocks per round", Fact(kind="study", text=str(study.repetition.blocks_per_round))
    yield from _settings("cluster", study.lab, _OF_LAB, "cluster", _NOT_OF_LAB)
    for environment in study.environments:
        yield from _of_environment(full_name(environment, KNOWN), environment)
    for placement in study.placements:
        yield from _settings(f"placement {placement.label}", placement)
    for workload in study.workloads:
        yield from _settings(f"workload {workload.name}", workload, but=_NOT_OF_WORKLOAD)


def _of_environment(name: str, environment: Environment) -> Iterator[tuple[str, Fact]]:
    users = frozenset({name})
    for fact in _settings(f"environment {name}", environment, _OF_ENVIRONMENT, but=_NOT_OF_ENVIRONMENT):
        yield fact[0], replace(fact[1], environments=users)
    for inner, setting in _fields(environment.link):
        text = _text(setting) if setting or setting is False else "unchanged"
        yield f"environment {name}: link {_words(inner)}", Fact(kind="link", text=text, environments=users)


def _settings(
    of: str, stated: Any, kinds: Mapping[str, str] = {}, kind: str = "study", but: frozenset[str] = frozenset()
) -> Iterator[tuple[str, Fact]]:
    """Yield a fact for each key of a part of a study, but those named; `kinds` are of single keys."""
    for name, value in _fields(stated):
        if name not in but:
            yield f"{of}: {_words(name)}", Fact(kind=kinds.get(name, kind), text=_text(value) or "none")


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    return ((each.name, getattr(value, each.name)) for each in fields(value))


def _mapping(value: Any) -> Mapping[str, Any]:
    """Return a mapping, or an empty one: facts may be another's and have any shape."""
    return value if isinstance(value, Mapping) else {}


def _words(name: str) -> str:
    return name.replace("_", " ")


def _text(value: Any) -> str:
    """Return a fact's value as text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_text(inner)}" for key, inner in value.items())
    if isinstance(value, KernelSpec):
        return value.token
    if is_dataclass(value):
        return ", ".join(f"{_words(key)} {_text(inner) or 'none'}" for key, inner in _fields(value))
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return str(value)
