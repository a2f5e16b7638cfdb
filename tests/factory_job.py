"""Jobs for tests of MPIs: hosts that all run one program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tare.model import Placement
from tare.mpi.launch import Host
from tare.mpi.launch.job import Job, JobHost, MpiWiring

WIRING = MpiWiring(control_subnet="10.213.0.0/16", data_subnet="10.214.0.0/24")


def job_of(
    hosts: Sequence[Host],
    placement: Placement,
    wiring: MpiWiring = WIRING,
    *,
    head: tuple[str, ...] = (),
    programs: Sequence[tuple[str, ...]] = (("app",),),
    environments: Sequence[Mapping[str, str]] = ({},),
    interfaces: Sequence[str] = ("",),
    ports: Sequence[str] = ("",),
) -> Job:
    """Return a job; of each sequence the last value is for all further hosts."""

    members = tuple(
        JobHost(
            host=host,
            program=programs[min(number, len(programs) - 1)],
            environment=environments[min(number, len(environments) - 1)],
            interface=interfaces[min(number, len(interfaces) - 1)],
            port=ports[min(number, len(ports) - 1)],
        )
        for number, host in enumerate(hosts)
    )
    return Job(head=head, members=members, placement=placement, wiring=wiring)
