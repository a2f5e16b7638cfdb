"""The rules of `tare check`: one row for each thing that can be wrong, in the order in which it is looked for. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from tare.analysis.check import remedies
from tare.analysis.check.facts import JobFacts, MpiAnswer, RankFacts
from tare.analysis.check.finding import CheckRule, Severity
from tare.model.text import bytes_label, counted

Seen = tuple[str, str] | None
"""What was seen, and what to change; None where nothing is wrong."""
SMALL_SHM_BYTES: Final = 64 << 20
"""What Docker, Podman and Kubernetes give a container."""
LOCKED_BYTES: Final = 64 << 20
BRIDGES: Final = re.compile(r"(docker|virbr|br-|cni|flannel|podman|lxc|vnet)\w*")
"""Interfaces of a machine's own bridges, which lead to no other machine."""
ONLY_NETWORK: Final = {
    "UCX_TLS": re.compile(r"(?!.*(shm|sm|posix|sysv|all|\^)).+"),
    "OMPI_MCA_btl": re.compile(r"(?!.*(vader|sm|\^)).+"),
    "I_MPI_FABRICS": re.compile(r"ofi"),
}
"""Variables that leave out shared memory, by what they are then set to."""
LONGEST_REASON: Final = 300
NOT_SHARED: Final = re.compile(r"process_vm_(readv|writev)|Shared memory error|/proc/\d+/fd")
"""What MPIs say whose ranks of one machine are in user namespaces of their own."""
BY_LAUNCHER: Final = frozenset({"stopped", "killed"})
"""How an MPI ends that was asked while another's failed: some launchers then kill all ranks at once."""


def _answers(job: JobFacts) -> Iterator[tuple[RankFacts, MpiAnswer]]:
    return ((rank, rank.mpi) for rank in job.ranks if rank.mpi is not None)


def _no_ranks(job: JobFacts) -> Seen:
    if job.ranks:
        return None
    why = f": {job.reason[:LONGEST_REASON]}" if job.reason else ", and nothing says why"
    if job.is_late:
        return f"no rank has started in time{why}", "check that the nodes answer, and that the queue has room"
    return (
        f"no rank has started (status {job.status}){why}",
        "mend the line with `hostname` in the place of the program; --folder DIR if nodes do not see your home",
    )


def _no_program(job: JobFacts) -> Seen:
    for rank in job.ranks:
        where = f"in the container on {rank.host}" if job.container else f"on {rank.host}"
        if rank.kind == "none":
            sees = "as the container sees it" if job.container else "on every node"
            return f"there is no program {rank.program} {where}", f"check the path {sees}"
        if rank.kind == "forbidden":
            return (
                f"{rank.program} {where} may not be run",
                f"make it a program that all may run: chmod a+rx {rank.program}",
            )
        if rank.kind == "foreign":
            return f"{rank.program} {where} is for another kind of processor", "compile it for this machine"
    return None


def _missing_libraries(job: JobFacts) -> Seen:
    for rank in job.ranks:
        if rank.missing:
            seen = f"{rank.program} needs {', '.join(rank.missing)}, which its loader does not find"
            if all(name.startswith("version ") for name in rank.missing):
                older = "in the image" if job.container else f"on {rank.host}"
                return f"{seen}: a library {older} is older than the one that it was linked to", f"compile it {older}"
            if job.container:
                return f"{seen} inside of the image", "install the package into the image, or show it the folder"
            return f"{seen} on {rank.host}", "load the module that it was compiled with, or set LD_LIBRARY_PATH"
    return None


def _alone(job: JobFacts) -> Seen:
    lone = [rank for rank, mpi in _answers(job) if mpi.size == 1]
    if not lone or max(job.told_size or 0, len(job.ranks)) < 2:
        return None
    first, mpi = lone[0], remedies.FAMILIES.get(lone[0].mpi_family, "its MPI")
    seen = f"each of {counted(len(lone), 'rank')} is alone (rank 0 of 1), and computes the whole job by itself"
    if not first.launcher_family:
        return (
            f"{seen}: the variables by which the launcher gives ranks their numbers do not reach it",
            remedies.pass_variables(job),
        )
    if first.launcher_family == "slurm":
        return f"{seen}: srun does not speak the PMI of {mpi}", remedies.of_launcher(job, first.mpi_family)
    by = remedies.FAMILIES.get(first.launcher_family, first.launcher_family)
    if by == mpi:
        return f"{seen}: {mpi}'s launcher does not reach it", remedies.pass_variables(job)
    return f"{seen}: {by}'s launcher started it, and the program's MPI is {mpi}", remedies.of_launcher(
        job, first.mpi_family
    )


def _fails_to_start(job: JobFacts) -> Seen:
    own = sorted((mpi for _, mpi in _answers(job)), key=lambda mpi: mpi.ended in BY_LAUNCHER and not mpi.error)
    for mpi in own:
        if mpi.ended in {"exit", "signal", *BY_LAUNCHER} and not mpi.is_done:
            how = f"signal {mpi.signal}" if mpi.ended == "signal" else f"status {mpi.status}"
            how = "the launcher's end of all ranks" if mpi.ended in BY_LAUNCHER else how
            why = mpi.error or job.reason or "it says nothing"
            what = "MPI_Init ends" if mpi.size is None else "MPI starts, and its first messages end"
            apart = job.container and NOT_SHARED.search(why)
            remedy = remedies.share_memory(job) if apart else "mend that; your program would end alike"
            return f"{what} with {how}: {why[:LONGEST_REASON]}", remedy
    return None


def _hangs(job: JobFacts) -> Seen:
    for rank, mpi in _answers(job):
        if mpi.ended == "limit" and not mpi.is_done:
            what = "MPI_Init does not return" if mpi.size is None else "the first messages do not arrive"
            names = ", ".join(each.name for each in rank.interfaces if each.name != "lo") or "none"
            return (
                f"{what} on {rank.host} (interfaces: {names})",
                (
                    "name the interface by which nodes reach each other: --mca btl_tcp_if_include SUBNET (Open MPI), "
                    "UCX_NET_DEVICES=NAME, FI_TCP_IFACE=NAME; look for a firewall between them"
                ),
            )
    return None


def _some_silent(job: JobFacts) -> Seen:
    wanted = job.told_size
    if wanted is None or not 0 < len(job.ranks) < wanted:
        return None
    return f"{len(job.ranks)} of {wanted} ranks answer", "read what the launcher prints of the others' nodes"


def _one_node(job: JobFacts) -> Seen:
    there = len(job.machines)
    if not job.hosts or not job.ranks or there >= job.hosts or len(job.ranks) < job.hosts:
        return None
    seen = f"the job runs on {counted(there, 'node')}, and {job.hosts} were asked for"
    if job.launcher == "srun":
        return seen, "srun -N NODES --ntasks-per-node=RANKS ..."
    return seen, "say how many ranks a node gets: --map-by ppr:RANKS:node (Open MPI), -ppn RANKS (MPICH)"


def _apart(job: JobFacts) -> Seen:
    for rank, mpi in _answers(job):
        if mpi.near is None or (not mpi.near.carriers and mpi.shares >= mpi.ranks_here):
            continue
        carriers = [{"lo": "the loopback network (lo)"}.get(name, name) for name in mpi.near.carriers]
        by = f"through {carriers[0]}" if carriers else "past its shared memory"
        seen = f"messages within a node go {by} ({mpi.near.small_us:.1f} us each way)"
        for name, forbids in ONLY_NETWORK.items():
            if (value := rank.variables.get(name)) and forbids.fullmatch(value):
                return f"{seen}: {name}={value} leaves out shared memory", f"unset {name}, or add sm to it"
        if mpi.shares < mpi.ranks_here:
            return f"{seen}: the MPI takes its ranks for those of several hosts", remedies.share_memory(job)
        return seen, remedies.share_memory(job)
    return None


def _wrong_interface(job: JobFacts) -> Seen:
    for rank, mpi in _answers(job):
        carriers = mpi.far.carriers if mpi.far is not None else ()
        if carriers and BRIDGES.fullmatch(carriers[0]):
            named = [each.name for each in rank.interfaces if each.name != "lo" and not BRIDGES.fullmatch(each.name)]
            return (
                f"messages between nodes go through {carriers[0]} of {rank.host}",
                (
                    f"name another ({', '.join(named) or 'the network of the nodes'}): --mca btl_tcp_if_include NAME, "
                    "UCX_NET_DEVICES=NAME or FI_TCP_IFACE=NAME"
                ),
            )
    return None


def _no_infiniband(job: JobFacts) -> Seen:
    for rank, mpi in _answers(job):
        carriers = mpi.far.carriers if mpi.far is not None else ()
        if "infiniband" in rank.devices and carriers:
            return (
                f"{rank.host} has InfiniBand, and messages between nodes go through {carriers[0]} by TCP",
                "install UCX, or libfabric with verbs, where the program runs (Debian: libucx0, ibverbs-providers)",
            )
    return None


def _small_shm(job: JobFacts) -> Seen:
    for rank in job.ranks:
        several = rank.mpi is None or rank.mpi.ranks_here != 1
        if several and rank.shm_bytes is not None and rank.shm_bytes <= SMALL_SHM_BYTES:
            return (
                (
                    f"/dev/shm has {bytes_label(int(rank.shm_bytes))} on {rank.host}: when it is full, an MPI ends "
                    "with a bus error or gives up shared memory"
                ),
                remedies.larger_shm(job),
            )
    return None


def _shared_cores(job: JobFacts) -> Seen:
    for ranks in job.machines.values():
        cores = frozenset[int]().union(*(rank.cpus for rank in ranks))
        if cores and len(cores) < len(ranks):
            seen = f"{counted(len(ranks), 'rank')} on {ranks[0].host} share {counted(len(cores), 'core')}"
            if 0 < ranks[0].online < len(ranks):
                return f"{seen}: the node has no more", f"start at most {counted(ranks[0].online, 'rank')} on a node"
            return seen, remedies.more_cores(job, len(ranks))
    return None


def _small_quota(job: JobFacts) -> Seen:
    for ranks in job.machines.values():
        quota = ranks[0].quota_cores
        together = [rank for rank in ranks if rank.namespaces.get("mnt") == ranks[0].namespaces.get("mnt")]
        if quota is not None and quota < len(together):
            count = counted(len(together), "rank")
            return (
                f"a CPU quota of {quota:g} cores stops the {count} on {ranks[0].host} for a part of each 0.1 s",
                remedies.larger_quota(job, len(together)),
            )
    return None


def _crowded_threads(job: JobFacts) -> Seen:
    for rank in job.ranks:
        told = rank.variables.get("OMP_NUM_THREADS", "").partition(",")[0]
        if told.isdecimal() and len(told) < 6 and rank.cpus and int(told) > len(rank.cpus):
            has = counted(len(rank.cpus), "core")
            return f"OMP_NUM_THREADS={told}, and a rank on {rank.host} has {has}", remedies.cores_for_threads(job, told)
    return None


def _mtu_differs(job: JobFacts) -> Seen:
    first = dict[str, tuple[int, str]]()
    carriers = {name for _, mpi in _answers(job) if mpi.far is not None for name in mpi.far.carriers}
    for ranks in job.machines.values():
        for each in ranks[0].interfaces:
            mtu, host = first.setdefault(each.name, (each.mtu, ranks[0].host))
            if each.name in carriers and each.mtu and each.mtu != mtu:
                seen = f"{each.name} has an MTU of {mtu} on {host} and of {each.mtu} on {ranks[0].host}"
                return seen, f"give it the smaller one on all nodes: ip link set {each.name} mtu {min(mtu, each.mtu)}"
    return None


def _little_locked(job: JobFacts) -> Seen:
    for rank in job.ranks:
        limit = rank.limits.get("locked_bytes", "")
        if "infiniband" in rank.devices and limit.isdecimal() and int(limit) < LOCKED_BYTES:
            return (
                f"{rank.host} has InfiniBand, and at most {bytes_label(int(limit))} of memory may be locked",
                (
                    "docker run --ulimit memlock=-1, or `memlock unlimited` in limits.conf (Slurm: "
                    "PropagateResourceLimitsExcept=MEMLOCK)"
                ),
            )
    return None


def _cannot_look(job: JobFacts) -> Seen:
    for rank in job.ranks:
        if (
            rank.mpi is not None
            and not rank.mpi.is_done
            and rank.mpi.ended not in {"exit", "signal", "limit", *BY_LAUNCHER}
        ):
            return (
                f"the MPI on {rank.host} could not be asked: {rank.mpi.ended or 'it says nothing'}",
                "let the container have /proc, or a /tmp that can be written and run from",
            )
        if rank.mpi is None and not rank.missing and rank.kind in {"script", "unreadable", "elf"}:
            what = {"script": "a script", "unreadable": "not readable"}.get(
                rank.kind, "not linked to an MPI library (or has it within)"
            )
            return (
                f"{rank.program} is {what}, so no MPI was asked",
                "give the program that calls MPI; of Python, its mpi4py is asked",
            )
    return None


def _rule(name: str, look: Callable[[JobFacts], Seen], severity: Severity, usual: str, threads: str = "") -> CheckRule:
    return CheckRule(name=name, severity=severity, usual=usual, look=look, threads=tuple(threads.split()))


BROKEN, SLOW, RISK = Severity.BROKEN, Severity.SLOW, Severity.RISK
# fmt: off
RULES: Final = (
    _rule("no-ranks", _no_ranks, BROKEN, "the launcher starts every rank"),
    _rule("no-program", _no_program, BROKEN, "each node, and each container, has the program"),
    _rule("missing-library", _missing_libraries, BROKEN, "the loader finds all libraries", "apptainer#282"),
    _rule("alone", _alone, BROKEN, "ranks know each other", "ompi#13523 ompi#12146 nccl-tests#213 openpmix#556"),
    _rule("fails-to-start", _fails_to_start, BROKEN, "MPI_Init returns", "ompi#6844 apptainer#1227"),
    _rule("hangs", _hangs, BROKEN, "messages arrive", "ompi#6377 ompi#12232 libnetwork#2661"),
    _rule("some-silent", _some_silent, BROKEN, "every rank answers", "mpi-operator#481 volcano#1972"),
    _rule("one-node", _one_node, BROKEN, "as many nodes as were asked for", "trainer#4028 mpi-operator#731"),
    _rule("wrong-interface", _wrong_interface, SLOW, "messages take the nodes' network", "ompi#12508 ucx#9383"),
    _rule("no-infiniband", _no_infiniband, SLOW, "InfiniBand is used", "ucx#9908 ompi#11419 sarus#28"),
    _rule("apart", _apart, SLOW, "messages within a node go through memory", "ucx#8958 apptainer#769"),
    _rule("shared-cores", _shared_cores, SLOW, "each rank has a core", "ompi#7157 ompi#11371"),
    _rule("small-quota", _small_quota, SLOW, "no CPU quota below the number of ranks", "k8s#67577"),
    _rule("crowded-threads", _crowded_threads, SLOW, "no more threads than cores", "cp2k#5511 ompi#13009"),
    _rule("mtu-differs", _mtu_differs, RISK, "one MTU on all nodes", "libnetwork#1330 moby#41332"),
    _rule("small-shm", _small_shm, RISK, "room for the messages of all ranks", "mpich#7321 mpich#4631"),
    _rule("little-locked", _little_locked, RISK, "InfiniBand may lock memory", "ucx#4224"),
)
# fmt: on
"""Of several findings of one severity, the first row is rather the cause of the others."""
CANNOT_LOOK: Final = _rule("cannot-look", _cannot_look, RISK, "the program's MPI can be asked")
