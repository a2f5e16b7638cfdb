"""Add what the workers of MPIJobs have counted to what a deployment's pods count: each job has pods of its own. Pure.

The pods of the deployment stand all the time and carry none of the jobs' messages. What is read of a node's network,
and of the node itself, is read there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tare.clusters.pods.mpi_jobs.script import WorkerCounts
from tare.system.counters import tcp
from tare.system.counters.interfaces import Counts
from tare.system.counters.monitor import key_of
from tare.system.counters.values import CounterValues, Key
from tare.system.node import Pod

JOBS: Final = "MPIJobs"
"""The source of the workers' counters, beside those of cgroups and namespaces."""
UNTOLD: Final = "its MPIJob ended before its worker could be asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCounts:
    """What the workers of all jobs so far have counted; `unread` are the interfaces of the last job that are not known.

    `protocols` are by machine and host.
    """

    interfaces: Mapping[Key, Counts] = field(default_factory=dict)
    protocols: Mapping[tuple[str, str], Mapping[str, int]] = field(default_factory=dict)
    unread: Mapping[Key, str] = field(default_factory=dict)
    cpu_s: float = 0.0

    @classmethod
    def of(cls, pods: Sequence[Pod]) -> JobCounts:
        """Return that no job has counted anything yet, for the hosts that have a network of their own."""
        own = [pod for pod in pods if pod.own_network]
        return cls(protocols={_place(pod): dict.fromkeys(tcp.NAMES, 0) for pod in own})

    def plus(self, pods: Sequence[Pod], counted: Mapping[str, WorkerCounts]) -> JobCounts:
        """Return the counts with those of another job, by the names of hosts."""
        interfaces, protocols, unread = dict(self.interfaces), dict(self.protocols), dict[Key, str]()
        for pod in pods:
            own = counted.get(pod.host, WorkerCounts())
            if not pod.own_network:
                continue
            for watch in pod.endpoint.watches:
                key = key_of(pod.node, watch)
                if watch.pid != pod.number:
                    continue  # it is the node's, which counts it itself
                if watch.interface in own.interfaces:
                    interfaces[key] = _sum(interfaces.get(key, (0, 0, 0, 0)), own.interfaces[watch.interface])
                else:
                    unread[key] = UNTOLD
            before = protocols.get(_place(pod), {})
            protocols[_place(pod)] = {name: value + own.protocols.get(name, 0) for name, value in before.items()}
        cpu_s = self.cpu_s + sum(counted[pod.host].cpu_s for pod in pods if pod.host in counted)
        return JobCounts(interfaces=interfaces, protocols=protocols, unread=unread, cpu_s=cpu_s)

    def added_to(self, values: CounterValues) -> CounterValues:
        """Return values with these counts."""
        read = {
            key: _sum(counts, self.interfaces.get(key, (0, 0, 0, 0)))
            for key, counts in values.interfaces.items()
            if key not in self.unread
        }
        growing = {(machine, host, JOBS): grown for (machine, host), grown in self.protocols.items()}
        return replace(
            values,
            interfaces=read,
            unread={**values.unread, **self.unread},
            growing={**values.growing, **growing},
            job_s=values.job_s + self.cpu_s,
        )

    def settled(self) -> JobCounts:
        """Return the counts once they have been read: what is not known of one job says nothing about the next."""
        return replace(self, unread={})


def _place(pod: Pod) -> tuple[str, str]:
    return pod.node.machine, pod.host or pod.node.name


def _sum(first: Counts, more: Counts) -> Counts:
    return first[0] + more[0], first[1] + more[1], first[2] + more[2], first[3] + more[3]
