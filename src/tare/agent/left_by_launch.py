"""Find, name and end what a launch left behind on a node; what a killed run left is removed by `tare.agent.clean`.

Neither the name, the environment, the session nor the parent of a process decides: a program can choose all of them.
What was there when the pods had been made is kept, by number and start time; the rest, where launches run, is theirs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tare.agent import upkeep
from tare.agent.pod_cgroups import groups_of, held_containers
from tare.errors import InfrastructureError
from tare.runtimes import RUNTIMES
from tare.system.namespaces import processes_beside
from tare.system.node import Node, Pod, marked_processes
from tare.system.node.cgroups import Group
from tare.system.node.process_stat import parent_of, start_time
from tare.system.node.stragglers import named
from tare.system.process import run

BRIEF_S: Final = 0.2
"""How long what remains of a launch may take to end by itself."""
LONG_S: Final = 2.0
"""How long the daemons of an MPI and the clients of runtimes may take, which end after the launcher."""
DAEMONS: Final = (
    "orted", "prte", "mpi", "hydra", "pmi", "slurmstepd", "srun", "sshd", "conmon", "crun", "runc", "nsenter",
    "starter", "containerd", *(client for runtime in RUNTIMES.values() for client in runtime.clients),
)  # fmt: skip
"""How their names begin."""
PAUSE_S: Final = 0.002
END_ALL: Final = (
    "for entry in /proc/[0-9]*; do pid=${entry#/proc/}; "
    'case " $0 $$ " in *" $pid "*) ;; *) kill -KILL "$pid" 2> /dev/null ;; esac; done'
)
"""Kills all processes of a container but its own shell and those of these numbers."""


@dataclass(slots=True, kw_only=True)
class LeftByLaunches:
    """What launches leave behind on a node; `folder` is the run's there, `kept` what is no launch's, by start time.

    `kills` are how many processes of each container the kernel had killed for exceeding its memory limit.
    """

    node: Node
    folder: Path
    kept: dict[int, int] = field(default_factory=dict)
    kills: dict[Group, int] = field(default_factory=dict)

    def keep(self, pods: Collection[Pod]) -> None:
        """Keep what is there now, while no launch runs; `pods` are those of all deployments."""
        self.kept = {pid: started for pid in self._there(pods) if (started := start_time(pid))}
        self.kills = upkeep.memory_kills(pods)

    def memory_hit(self, pods: Collection[Pod]) -> str:
        """Return a sentence that names the container that has hit its memory limit since it was last asked, or ""."""
        hit = upkeep.memory_hit(pods, self.kills) or ""
        self.kills |= upkeep.memory_kills(pods)
        return hit

    def end(self, pods: Sequence[Pod], spare: Collection[int]) -> Mapping[str, int]:
        """Kill what launches left in these pods; return how many processes by name.

        `spare` are the processes that keep any pod up. One that does not end is named so, and kept from now on.
        """
        if not self._after_grace(pods, spare):
            return {}
        counted = marked_processes.end_all(lambda: self.find(pods, spare), lambda: self._kill_groups(pods, spare))
        for pid, name in named(self.find(pods, spare)).items():
            self.kept[pid] = start_time(pid)
            counted[name] -= 1
            counted[f"{name} (does not end)"] += 1
        return dict(+counted)

    def find(self, pods: Sequence[Pod], spare: Collection[int] = ()) -> set[int]:
        """Return the processes that launches have left in these pods.

        The daemons of a node start processes for other pods at any time. So on a node with cgroups, what is not in
        those of these pods counts only if no process that is kept has started it.
        """
        found = set[int]()
        for _ in range(marked_processes.LOOKS):
            started = {pid: start_time(pid) for pid in self._there(pods) - set(spare)}
            found = {pid for pid, at in started.items() if at not in (0, self.kept.get(pid))}
            if found or all(started.values()):  # else one has just ended, and may have started another
                break
        if not found or not self.node.group.hierarchies:
            return found
        own = {pid for pod in pods for group, _ in groups_of(pod) for pid in group.pids()}
        return {pid for pid in found if pid in own or not self._is_kept_child(pid)}

    def _is_kept_child(self, pid: int) -> bool:
        while (pid := parent_of(pid)) and pid != self.node.pid:
            if pid in self.kept:
                return True
        return False

    def _there(self, pods: Collection[Pod]) -> set[int]:
        """Return the processes that are where the launches of these pods run."""
        if self.node.group.hierarchies:
            return self.node.group.pids()
        if not self.node.is_machine:
            return {pid for pod in pods if pod.pid for pid in processes_beside(pod.pid)}
        found = marked_processes.below_us() | self.node.launches.pids()
        if self.node.machine:  # others start what runs here: an sshd, Slurm, a kubelet
            found |= marked_processes.pids_of_launches(self.folder)
        if any(RUNTIMES[pod.runtime].by_cluster for pod in pods):
            return found | _in_our_pod(self.folder)
        return found | {
            pid for first in held_containers(pods) if first for pid in marked_processes.container_pids(first)
        }

    def _after_grace(self, pods: Sequence[Pod], spare: Collection[int]) -> bool:
        """Return whether something is left that does not end by itself in time.

        Pauses are counted, not the clock: while the machine stands still, nothing can end.
        """
        pauses = 0
        while found := self.find(pods, spare):
            patient = any(name.startswith(DAEMONS) for name in named(found).values())
            if pauses * PAUSE_S > (LONG_S if patient else BRIEF_S):
                return True
            time.sleep(PAUSE_S)
            pauses += 1
        return False

    def _kill_groups(self, pods: Sequence[Pod], spare: Collection[int]) -> None:
        """Kill what is in the cgroups of pods; in containers of other users too, which have numbers of their own."""
        if self.node.is_machine:
            for pod in pods:
                self._end_in_container(pod)
            if self.node.launches.hierarchies:
                with suppress(InfrastructureError):
                    self.node.launches.kill(deadline_s=marked_processes.DEADLINE_S / 2)
            return
        for group, keepers in (pair for pod in pods if pod.group.hierarchies for pair in groups_of(pod)):
            with suppress(InfrastructureError):
                group.kill(spare=keepers.union(spare), deadline_s=marked_processes.DEADLINE_S / 2)

    def _end_in_container(self, pod: Pod) -> None:
        holds_containers = RUNTIMES[pod.runtime].holds_containers
        for enter in (pod.enter, *(each.enter for each in pod.containers)) if holds_containers else ():
            if not enter:  # the service is in the pod itself
                continue
            kept = " ".join(filter(None, map(_number_inside, self.kept)))
            what = f"ending processes in {pod.name}"
            run((*enter, "/bin/sh", "-c", END_ALL, kept), check=False, timeout_s=20, what=what)


def keepers_of(pods: Collection[Pod]) -> frozenset[int]:
    """Return the processes that keep pods up, including their sshds."""
    return frozenset(pid for pod in pods for _, keepers in groups_of(pod) for pid in keepers)


def _in_our_pod(folder: Path) -> set[int]:
    """Return the processes in this process's pid namespace, but those that a runtime has started and no launch has.

    Shells wait in a pod for the next launch; their parent is outside.
    """
    launched = marked_processes.pids_of_launches(folder)
    return {pid for pid in processes_beside(os.getpid()) if pid in launched or parent_of(pid)} - {os.getpid()}


def _number_inside(pid: int) -> str:
    """Return a process's number in its own pid namespace, "" if it has ended."""
    try:
        return Path(f"/proc/{pid}/status").read_text().partition("NSpid:")[2].partition("\n")[0].split()[-1]
    except (OSError, IndexError):
        return ""
