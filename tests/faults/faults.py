"""The faults that are played, in the order of the table in docs/reliability.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from faults import plays_lab as lab
from faults import plays_slurm as slurm
from faults import plays_ssh as ssh
from faults.stage import Seen

PLAYS: Final = 3


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault in words, the cluster on which it is played, and how."""

    key: str
    title: str
    cluster: str
    play: Callable[[Any], Seen]


FAULTS: Final = (
    Fault(key="head", title="kill -9 of `tare run`", cluster="ssh", play=ssh.head_killed),
    Fault(key="service", title="kill -9 of a node's service", cluster="ssh", play=ssh.service_killed),
    Fault(key="sshd", title="kill -9 of a node's sshd (the listener)", cluster="ssh", play=ssh.sshd_killed),
    Fault(key="connection", title="kill -9 of the connection's sshd", cluster="ssh", play=ssh.connection_killed),
    Fault(key="rank", title="kill -9 of a rank", cluster="ssh", play=ssh.rank_killed),
    Fault(key="mpirun", title="kill -9 of mpirun", cluster="ssh", play=ssh.mpirun_killed),
    Fault(key="outage-30s", title="a node unreachable for 30 s", cluster="ssh", play=ssh.outage_of_30_s),
    Fault(key="outage-lease", title="a node unreachable for longer than its lease", cluster="ssh",
          play=ssh.outage_beyond_lease),
    Fault(key="outage-2min", title="the same with the real lease of 90 s: unreachable for 120 s", cluster="ssh",
          play=ssh.outage_of_2_min),
    Fault(key="outage-for-ever", title="a node unreachable for ever", cluster="ssh", play=ssh.outage_for_ever),
    Fault(key="disk", title="disk full on a node", cluster="ssh", play=ssh.disk_full),
    Fault(key="clock", title="the wall clock of the head steps by an hour, forwards and back", cluster="ssh",
          play=ssh.clock_stepped),
    Fault(key="reboot", title="a reboot of the head", cluster="ssh", play=ssh.head_rebooted),
    Fault(key="sigint-twice", title="SIGINT twice", cluster="ssh", play=ssh.interrupted_twice),
    Fault(key="two-runs", title="two runs on one results folder", cluster="ssh", play=ssh.two_on_one_folder),
    Fault(key="lab-head", title="kill -9 of `tare run`", cluster="lab", play=lab.head_killed),
    Fault(key="lab-dockerd", title="kill -9 of a node's dockerd", cluster="lab", play=lab.dockerd_killed),
    Fault(key="lab-rank", title="kill -9 of a rank in a container", cluster="lab", play=lab.rank_killed),
    Fault(key="lab-mpirun", title="kill -9 of mpirun", cluster="lab", play=lab.mpirun_killed),
    Fault(key="lab-memory", title="out of memory of a rank", cluster="lab", play=lab.out_of_memory),
    Fault(key="lab-sigint-twice", title="SIGINT twice", cluster="lab", play=lab.interrupted_twice),
    Fault(key="slurm-controller", title="kill -9 of slurmctld, started again after 8 s", cluster="slurm",
          play=slurm.controller_killed),
    Fault(key="slurm-slurmd", title="kill -9 of a node's slurmd, started again after 3 s", cluster="slurm",
          play=slurm.slurmd_restarted),
    Fault(key="slurm-node", title="kill -9 of a node's slurmd, until Slurm takes the node for dead", cluster="slurm",
          play=slurm.slurmd_gone),
    Fault(key="slurm-limit", title="the time limit ends the allocation amid a round", cluster="slurm",
          play=slurm.time_limit),
    Fault(key="slurm-drained", title="a node is drained during a run", cluster="slurm", play=slurm.drained),
    Fault(key="slurm-preempted", title="preemption of the job", cluster="slurm", play=slurm.preempted),
    Fault(key="slurm-grace", title="preemption of the job with a grace time of 30 s", cluster="slurm",
          play=slurm.preempted_with_grace),
    Fault(key="slurm-cancelled", title="scancel of the job", cluster="slurm", play=slurm.cancelled),
)  # fmt: skip
