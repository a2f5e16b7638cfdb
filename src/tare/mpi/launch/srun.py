"""Launch a job by Slurm's srun: there are no daemons of the MPI, and each rank enters its container. Pure.

Ranks find each other through a PMI of Slurm (`srun --mpi=pmix` or `pmi2`), which their MPI library must be built for.
What pins a transport is in the ranks' environment, where a launcher of the MPI would have options.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from tare.model import Binding, Placement
from tare.mpi.launch import Context, Entry, Host, Launch
from tare.mpi.launch.job import Job, JobHost

UNSET: Final = (
    "SLURM_CPUS_PER_TASK", "SLURM_TRES_PER_TASK", "SLURM_EXACT", "SLURM_NTASKS_PER_CORE", "SLURM_NTASKS_PER_NODE",
    "SLURM_NTASKS_PER_SOCKET", "SLURM_MEM_PER_CPU", "SLURM_MEM_PER_NODE", "SLURM_MEM_PER_GPU", "SLURM_DISTRIBUTION",
    "SLURM_HINT", "SLURM_CPU_BIND", "SLURM_MPI_TYPE", "SLURM_EXPORT_ENV", "SLURM_STEP_ID", "SLURM_STEPID",
)  # fmt: skip
"""What a job's options leave in the environment and srun would read: a step of tare's states all that it needs."""
USUAL: Final = ("--overlap", "--mem=0", "--export=ALL", "--quiet")


def srun(program: str, *options: str) -> tuple[str, ...]:
    """Return the argv prefix of a step that shares its job's resources with the other steps."""
    return ("env", *(word for name in UNSET for word in ("-u", name)), program, *USUAL, *options)


def launch_by_srun(job: Job, members: Sequence[JobHost], *, program: str, pmi: str) -> Launch:
    """Return the launch of a job whose members have all variables that their ranks need."""
    hosts = tuple(started_by_srun(each.host, each.environment) for each in members)
    ranks = sum(host.ranks for host in hosts)
    launcher = srun(
        program,
        f"--nodes={len(hosts)}",
        f"--ntasks={ranks}",
        f"--ntasks-per-node={hosts[0].ranks}",
        f"--nodelist={','.join(host.alias for host in hosts)}",
        f"--distribution={job.placement.rank_order}",
        *_binding(job.placement),
        f"--mpi={pmi}",
        "--input=none",
        "--kill-on-bad-exit=1",
        "--job-name=tare-launch",
    )
    return Launch(
        head=job.head, launcher=launcher, hosts=hosts, contexts=(Context(hosts=hosts, program=members[0].program),)
    )


def started_by_srun(host: Host, variables: Mapping[str, str]) -> Host:
    """Return a host whose ranks get variables before they enter their containers."""
    told = tuple(sorted(variables.items()))
    return replace(host, enter=tuple(replace(host.entry(rank), variables=told) for rank in range(host.ranks)))


def entered_by_ranks(host: Host, argv: tuple[str, ...], alias: str) -> Host:
    """Return a host whose ranks Slurm starts: each goes through `argv` to where an MPI's daemon would have been."""
    enter = tuple(
        replace(own, argv=(*argv, *own.argv)) if (own := host.entry(rank)).argv or argv else Entry()
        for rank in range(host.ranks)
    )
    return replace(host, agent=None, enter=enter, alias=alias)


def entered_here(host: Host) -> Host:
    """Return a host whose ranks the launcher starts beside itself: each goes where an MPI's daemon would have been.

    They keep the cores that the launcher bound them to.
    """
    daemon = host.agent or Entry()
    enter = tuple(
        replace(own, argv=(*daemon.argv, *own.argv), cgroups=own.cgroups or daemon.cgroups, carry=bool(daemon.argv))
        for own in map(host.entry, range(host.ranks))
    )
    return replace(host, agent=None, enter=enter)


def _binding(placement: Placement) -> tuple[str, ...]:
    """Return the option for binding: tare's own (`tare.mpi.launch.bound`), or the site's."""
    return () if placement.binding is Binding.MPI_DEFAULT else ("--cpu-bind=none",)
