"""Change a user's own launch line as the finding of a rule asks for it, where the remedy is one of the line. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tare.analysis.check import remedies
from tare.analysis.check.facts import JobFacts, RankFacts
from tare.analysis.check.finding import CheckFinding
from tare.analysis.check.remedies import DOCKER
from tare.analysis.check.rules import BRIDGES, ONLY_NETWORK, RULES
from tare.mpi.lines.edit import Edit
from tare.mpi.lines.line import LaunchLine, Layer, read_line
from tare.mpi.lines.words import LayerRole

LAUNCHERS: Final[Mapping[str, tuple[str, ...]]] = {
    "openmpi": ("mpirun.openmpi", "orterun"),
    "mpich": ("mpirun.mpich", "mpiexec.mpich", "mpiexec.hydra"),
}
"""Names of launchers that only one family of MPIs has."""
APPTAINER: Final = ("apptainer", "singularity")
CLEAN: Final = ("-e", "--cleanenv", "-C", "--containall")
CONTAINED: Final = ("-c", "--contain", "-C", "--containall", "-i", "--ipc", "-p", "--pid")
COUNT: Final = ("-n", "--n", "-np", "--np")
HOSTS: Final = ("-H", "-host", "--host", "-hosts", "--hosts")
HOST_FILE: Final = ("-f", "-hostfile", "--hostfile", "-machinefile", "--machinefile")
BIND: Final = ("-bind-to", "--bind-to", "-binding", "-cpu-set", "--cpu-set", "-cpu-list", "--cpu-list", "--cpu-bind")
MAP: Final = ("-map-by", "--map-by", "-ppn", "--ppn", "-perhost", "-N", "-npernode", "--npernode")
FAILS: Final = next(rule for rule in RULES if rule.name == "fails-to-start")
MPIRUNS: Final = frozenset({"mpirun", "mpiexec"})

Change = Callable[[LaunchLine, JobFacts, Collection[str]], Edit | None]


def changed_line(rule: str, line: LaunchLine, job: JobFacts, launchers: Collection[str] = ()) -> tuple[str, ...]:
    """Return the whole line with what a rule's finding asks for; empty where a line cannot mend it.

    `launchers` are the names of launchers that this machine has.
    """
    change = CHANGES.get(rule)
    edit = change(line, job, launchers) if change is not None and line.launcher is not None else None
    words = edit.words if edit is not None else ()
    idle = len(words) > 1 and words[0] == "env" and "=" not in words[1] and not words[1].startswith("-")
    return words[1:] if idle else words


def with_lines(
    findings: Sequence[CheckFinding], line: LaunchLine, job: JobFacts, launchers: Collection[str] = ()
) -> tuple[CheckFinding, ...]:
    """Return findings with the line that mends each, and those before it; "" where a line cannot mend it."""
    made = list[CheckFinding]()
    for each in findings:
        words = changed_line(each.rule, line, job, launchers)
        made.append(replace(each, line=shlex.join(words)))
        line = read_line(words) if words else line
    return tuple(made)


def _alone(line: LaunchLine, job: JobFacts, launchers: Collection[str]) -> Edit | None:
    lone = next((rank for rank in job.ranks if rank.mpi is not None and rank.mpi.size == 1), None)
    if lone is None:
        return None
    if not lone.launcher_family:
        return _pass_variables(line)
    launcher = line.launcher
    if launcher is None or lone.launcher_family == {"mpich": "hydra"}.get(lone.mpi_family, lone.mpi_family):
        return None
    if launcher.name == "srun":
        kind = {"openmpi": "--mpi=pmix", "mpich": "--mpi=pmi2"}.get(lone.mpi_family)
        edit = Edit(line=line).without(launcher, lambda words: words[0].partition("=")[0] == "--mpi")
        return edit.adding(launcher, kind) if kind else None
    other = next((name for name in LAUNCHERS.get(lone.mpi_family, ()) if name in launchers), None)
    return _start_by(line, launcher, other) if other and line.container is None and _is_mpirun(launcher) else None


def _pass_variables(line: LaunchLine) -> Edit:
    """Leave out what keeps the launcher's variables from the ranks."""
    edit = Edit(line=line)
    for layer in _behind_launcher(line):
        if layer.name in APPTAINER:
            edit = edit.without_flags(layer, CLEAN)
        elif layer.name == "podman":
            edit = edit.adding(layer, "--env-host")
        elif layer.name == "sudo":
            edit = edit.without_layer(layer)
        elif layer.name == "env":
            edit = edit.without(layer, lambda words: words[0] in {"-i", "--ignore-environment", "-"})
    return edit


def _start_by(line: LaunchLine, launcher: Layer, other: str) -> Edit:
    """Take the other launcher, with the number of ranks and the hosts in its words; the rest is of one MPI only."""
    known = {*COUNT, *HOSTS, *HOST_FILE}
    edit = Edit(line=line).replacing(launcher.first, other)
    edit = edit.without(launcher, lambda words: words[0] not in known)
    names = {
        **dict.fromkeys(HOSTS, "-hosts" if other in LAUNCHERS["mpich"] else "--host"),
        **dict.fromkeys(HOST_FILE, "-f" if other in LAUNCHERS["mpich"] else "--hostfile"),
    }
    for first, _ in launcher.given:
        if (name := names.get(line.words[first])) is not None:
            edit = edit.replacing(first, name)
    return edit


def _apart(line: LaunchLine, job: JobFacts, _launchers: Collection[str]) -> Edit | None:
    for name, forbids in ONLY_NETWORK.items():
        if any((value := rank.variables.get(name)) and forbids.fullmatch(value) for rank in job.ranks):
            return _unset(line, name)
    edit = Edit(line=line)
    for layer in _behind_launcher(line):
        if layer.name in APPTAINER:
            edit = edit.without_flags(layer, CONTAINED)
        elif layer.name in DOCKER:
            edit = edit.without(layer, lambda words: _name(words) in {"--ipc", "--pid"})
            edit = edit.adding(layer, "--ipc=host", "--pid=host")
    return edit


def _unset(line: LaunchLine, name: str) -> Edit:
    """Leave out what sets a variable in the line; it is unset in front of the line if nothing in it does."""
    edit = Edit(line=line)
    option = name.removeprefix("OMPI_MCA_")

    def sets(words: tuple[str, ...]) -> bool:
        if "mca" in words[0] and name != option:
            return words[1:2] == (option,)
        return any(word == name or word.startswith(f"{name}=") for word in words[:2])

    for layer in line.layers:
        edit = edit.without(layer, sets)
    return edit if edit.words else edit.starting("env", "-u", name)


def _fails_to_start(line: LaunchLine, job: JobFacts, _launchers: Collection[str]) -> Edit | None:
    """Let the containers of a node be one: Charliecloud knows how many ranks it has from Slurm and Open MPI only."""
    layer, found = line.container, FAILS.finding(job)
    if layer is None or layer.name != "ch-run" or found is None or found.remedy != remedies.share_memory(job):
        return None
    count = max(len(ranks) for ranks in job.machines.values())
    given = () if _family(job) in {"openmpi", "slurm"} else (f"--join-ct={count}", "--join-tag=job")
    edit = Edit(line=line).without(layer, lambda words: words[0].startswith(("--join", "-j")))
    return edit.adding(layer, "--join", *given)


def _shared_cores(line: LaunchLine, job: JobFacts, _launchers: Collection[str]) -> Edit | None:
    edit, launcher = Edit(line=line), line.launcher
    if any(0 < ranks[0].online < len(ranks) for ranks in job.machines.values()):
        return None  # no binding gives each rank a core
    for layer in line.layers:
        if layer.name == "taskset":
            edit = edit.without_layer(layer)
        elif layer.name == "numactl":
            edit = edit.without(layer, lambda words: _name(words) in {"-C", "--physcpubind", "-N", "--cpunodebind"})
        elif layer.name in DOCKER:
            edit = edit.without(layer, lambda words: _name(words) in {"--cpuset-cpus", "--cpuset-mems"})
    if launcher is not None and _is_mpirun(launcher) and (bind := _option(job, "--bind-to", "-bind-to")):
        edit = edit.without(launcher, lambda words: _name(words) in BIND).adding(launcher, bind, "none")
    return edit


def _small_quota(line: LaunchLine, _job: JobFacts, _launchers: Collection[str]) -> Edit | None:
    edit = Edit(line=line)
    for layer in line.layers:
        if layer.name in (*DOCKER, *APPTAINER):
            edit = edit.without(layer, lambda words: _name(words) in {"--cpus", "--cpu-quota", "--cpu-period"})
    return edit


def _small_shm(line: LaunchLine, _job: JobFacts, _launchers: Collection[str]) -> Edit | None:
    layer = line.container
    if layer is None or layer.name not in DOCKER:
        return None
    edit = Edit(line=line).without(layer, lambda words: _name(words) == "--shm-size")
    return edit.adding(layer, "--shm-size=1g")


def _little_locked(line: LaunchLine, _job: JobFacts, _launchers: Collection[str]) -> Edit | None:
    layer = line.container
    if layer is None or layer.name not in DOCKER:
        return None
    edit = Edit(line=line).without(layer, lambda words: _name(words) == "--ulimit" and "memlock" in words[-1])
    return edit.adding(layer, "--ulimit", "memlock=-1")


def _crowded_threads(line: LaunchLine, job: JobFacts, _launchers: Collection[str]) -> Edit | None:
    launcher, name = line.launcher, "OMP_NUM_THREADS"
    rank = next((each for each in job.ranks if each.cpus and _threads(each) > len(each.cpus)), None)
    if rank is None or launcher is None:
        return None
    if launcher.name == "srun":
        edit = Edit(line=line).without(launcher, lambda words: _name(words)[:2] == "-c" or _name(words) == SLURM_CPUS)
        return edit.adding(launcher, f"{SLURM_CPUS}={_threads(rank)}")
    edit = Edit(line=line)
    few = f"{name}={len(rank.cpus)}"
    for layer in line.layers:
        for first, end in layer.given:
            for at in range(first, end):
                word = line.words[at]
                if word.startswith(f"{name}="):
                    edit = edit.replacing(at, few)
                elif word == name and "env" in line.words[first] and at + 1 < end:
                    edit = edit.replacing(at + 1, few.partition("=")[2])
    return edit if edit.words else edit.starting("env", few)


def _one_node(line: LaunchLine, job: JobFacts, _launchers: Collection[str]) -> Edit | None:
    launcher = line.launcher
    if launcher is None or not _is_mpirun(launcher) or not job.hosts:
        return None
    count = -(-len(job.ranks) // job.hosts)
    added = {"openmpi": ("--map-by", f"ppr:{count}:node"), "hydra": ("-ppn", f"{count}")}.get(_family(job))
    edit = Edit(line=line).without(launcher, lambda words: words[0] in MAP)
    return edit.adding(launcher, *added) if added else None


def _wrong_interface(line: LaunchLine, job: JobFacts, _launchers: Collection[str]) -> Edit | None:
    named = [
        {each.name for each in ranks[0].interfaces if each.is_up and each.name != "lo" and not BRIDGES.match(each.name)}
        for ranks in job.machines.values()
    ]
    common = sorted(set[str].intersection(*named)) if named else []
    launcher = line.launcher
    if not common or launcher is None:
        return None
    name, edit = common[0], Edit(line=line)
    if _is_mpirun(launcher) and _family(job) == "openmpi":
        edit = edit.without(launcher, lambda words: "mca" in words[0] and words[1:2] == ("btl_tcp_if_include",))
        return edit.adding(launcher, "--mca", "btl_tcp_if_include", name, "-x", f"UCX_NET_DEVICES={name}")
    return edit.starting(
        "env", f"OMPI_MCA_btl_tcp_if_include={name}", f"UCX_NET_DEVICES={name}", f"FI_TCP_IFACE={name}"
    )


def _behind_launcher(line: LaunchLine) -> list[Layer]:
    launcher = line.launcher
    return [layer for layer in line.layers if launcher is not None and layer.first > launcher.first]


def _is_mpirun(layer: Layer) -> bool:
    return layer.syntax.role is LayerRole.LAUNCHER and layer.name.partition(".")[0] in MPIRUNS


def _family(job: JobFacts) -> str:
    """Return whose launcher it is by what it told the ranks."""
    return next((family for rank in job.ranks if (family := rank.launcher_family)), "")


def _option(job: JobFacts, openmpi: str, hydra: str) -> str:
    return {"openmpi": openmpi, "hydra": hydra}.get(_family(job), "")


def _name(words: tuple[str, ...]) -> str:
    return words[0].partition("=")[0]


def _threads(rank: RankFacts) -> int:
    told = rank.variables.get("OMP_NUM_THREADS", "").partition(",")[0]
    return int(told) if told.isdecimal() and len(told) < 6 else 0


SLURM_CPUS: Final = "--cpus-per-task"
CHANGES: Final[Mapping[str, Change]] = {
    "alone": _alone,
    "fails-to-start": _fails_to_start,
    "one-node": _one_node,
    "wrong-interface": _wrong_interface,
    "apart": _apart,
    "shared-cores": _shared_cores,
    "small-quota": _small_quota,
    "crowded-threads": _crowded_threads,
    "small-shm": _small_shm,
    "little-locked": _little_locked,
}
"""By the name of the rule. What is not here is mended elsewhere: in an image, on a node, in a queue."""
