"""Define as data how each MPI is made to use a transport: each MPI family has a table of ways. Pure.

Every family leaves the library as little choice as possible. A library that cannot use the claimed transport then fails
with an error instead of falling back to TCP silently. `needs` are the parts of a build that a way requires; they are
checked before a launch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tare.errors import RefusedError
from tare.mpi.launch.job import Job, JobHost
from tare.networks.wiring.transports import read

WITH_UCX: Final = {"UCX_LOG_LEVEL": "info"}
WITH_LIBFABRIC: Final = {"FI_LOG_LEVEL": "info"}
UCX_DEVICES: Final = "UCX_NET_DEVICES"
OWN_WITHIN: Final = {"shm": "within a host it moves messages itself: use transport: shm"}
LIBFABRIC_DEVICES: Final = {"FI_TCP_IFACE": "{interface}", "FI_SOCKETS_IFACE": "{interface}"}
EAGER: Final = {"UCX_RNDV_THRESH": "inf"}
"""Without CMA, UCX sends rendezvous messages between neighbours over TCP, through `lo`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportSetting:
    """How an MPI is made to use a transport.

    `parameters` are the launcher's options for the MPI itself (MCA), `variables` those of the ranks' environment. Their
    texts may contain {subnet} (of the data network), {port} (the adapter's port, `mlx5_0:1`), {adapter} and {detail}
    (the study's text after the colon). `alone` are variables for a job on one host, `crowded` those for several hosts
    with several ranks each; `apart` are parameters for a job on several hosts, `roce` those for ports whose link is
    Ethernet. `devices` are variables set for each host separately; {device} in them is the host's interface or port.
    `needs` are required parts of a build (`btl openib`). `asks` are variables, `asks_parameters` parameters, that make
    the library report the selected transport; `tells` is the library that reports it. `by_network` ways send messages
    between neighbours over the network too. `cannot` are unsupported details, each with the reason.
    """

    parameters: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    alone: Mapping[str, str] = field(default_factory=dict)
    crowded: Mapping[str, str] = field(default_factory=dict)
    apart: Mapping[str, str] = field(default_factory=dict)
    roce: Mapping[str, str] = field(default_factory=dict)
    devices: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    asks: Mapping[str, str] = field(default_factory=dict)
    asks_parameters: Mapping[str, str] = field(default_factory=dict)
    tells: str = ""
    by_network: bool = False
    cannot: Mapping[str, str] = field(default_factory=dict)

    def plus(
        self, *, parameters: Mapping[str, str] | None = None, variables: Mapping[str, str] | None = None
    ) -> TransportSetting:
        """Return the way with further parameters and variables."""
        return replace(
            self,
            parameters={**self.parameters, **(parameters or {})},
            variables={**self.variables, **(variables or {})},
        )


def way_of(ways: Mapping[str, TransportSetting], transport: str, title: str) -> TransportSetting:
    """Return the way for a transport: an exact match, else that of `NAME:` with any detail, or of the name alone.

    Raises `RefusedError` if the family has none.
    """
    wanted = read(transport)
    keys = (transport, f"{wanted.name}:") if wanted.detail else (transport,)
    way = next((ways[key] for key in keys if key in ways), None)
    if way is None:
        raise RefusedError(f"{title} has no transport {transport!r} here: {', '.join(list_transports(ways))}")
    return way


def list_transports(ways: Mapping[str, TransportSetting]) -> tuple[str, ...]:
    """Return the transports of a table as a user writes them, each name once."""
    return tuple(dict.fromkeys(key.partition(":")[0] for key in ways))


def fill_in(texts: Mapping[str, str], job: Job) -> dict[str, str]:
    """Return settings with the placeholders replaced by values of a job's networks."""
    port, wiring = job.members[0].port, job.wiring
    detail = read(wiring.transport).detail
    values = {"subnet": wiring.data_subnet, "port": port, "adapter": port.partition(":")[0], "detail": detail}
    return {name: text.format(**values) for name, text in texts.items()}


def parameters_of(way: TransportSetting, job: Job) -> dict[str, str]:
    """Return the parameters of a way in a job, including those that make the library report if it is asked."""
    wiring = job.wiring
    apart = way.apart if len(job.hosts) > 1 else {}
    more = {**(way.roce if wiring.roce else {}), **(way.asks_parameters if wiring.asks else {})}
    return fill_in({**way.parameters, **apart, **more}, job)


def variables_of(way: TransportSetting, job: Job) -> dict[str, str]:
    """Return the variables of a way in a job that are the same on all hosts."""
    several = len(job.hosts) > 1
    more = way.alone if not several else way.crowded if any(host.ranks > 1 for host in job.hosts) else {}
    return fill_in({**way.variables, **more, **(way.asks if job.wiring.asks else {})}, job)


def with_devices(way: TransportSetting, members: tuple[JobHost, ...]) -> tuple[JobHost, ...]:
    """Return a job's hosts with the variables for the device that the library may use there.

    Libraries select by interface name, not by subnet, and the names differ between pods. Given all names, a library
    would pick one.
    """
    if not way.devices or not all(part.interface for part in members):
        return members
    answers = []
    for part in members:
        device = ",".join(name for name in (part.port, part.interface) if name)
        values = {"interface": part.interface, "port": part.port, "device": device}
        devices = {name: text.format(**values) for name, text in way.devices.items()}
        answers.append(replace(part, environment={**part.environment, **devices}))
    return tuple(answers)


def ucx(way: TransportSetting, within: str) -> dict[str, TransportSetting]:
    """Return the ways of a family that has UCX; `within` are its transports within a host, `way` holds shared settings.

    If UCX may choose, it gets all transports that reach other hosts: it names those that are missing, and uses TCP.
    """

    def made(between: str, device: str) -> TransportSetting:
        variables = {**way.variables, "UCX_TLS": f"{within},{between}"}
        return replace(way, variables=variables, devices={UCX_DEVICES: device}, asks=WITH_UCX, tells="UCX")

    return {
        "ucx": made("ib,tcp", "{device}"),
        "ucx:tcp": made("tcp", "{interface}"),
        "ucx:": made("{detail}", "{port}"),
        "verbs": made("rc", "{port}"),
        "verbs:": made("{detail}", "{port}"),
    }


def libfabric(one: TransportSetting, free: TransportSetting) -> dict[str, TransportSetting]:
    """Return the ways of a family that has libfabric: `one` provider is named, or it is `free` to choose among them.

    Each TCP provider has its own variable for the interface.
    """
    both = {"ofi": free, "ofi:": one}
    return {
        name: replace(way, devices=LIBFABRIC_DEVICES, asks=WITH_LIBFABRIC, tells="libfabric")
        for name, way in both.items()
    }
