"""`intelmpi`: Intel MPI of the Python package index (tools/mpis), over libfabric.

Its own shared memory within a host.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from tare.images import mpi_wheels
from tare.model import Binding, Placement
from tare.mpi.launch import PADDING, Context, Launch
from tare.mpi.launch.job import Job, JobHost, group_contexts
from tare.mpi.launch.mpi import Mpi
from tare.mpi.launch.ways import OWN_WITHIN, TransportSetting, libfabric, variables_of, way_of, with_devices
from tare.networks.wiring import infiniband

TITLE: Final = "Intel MPI"
PROVIDER: Final = "I_MPI_OFI_PROVIDER"
SHARED: Final = TransportSetting(variables={"I_MPI_FABRICS": "shm"})
OVER_LIBFABRIC: Final = TransportSetting(
    variables={"I_MPI_FABRICS": "shm:ofi"},
    devices={"FI_TCP_IFACE": "{interface}", "FI_SOCKETS_IFACE": "{interface}"},
    asks={"I_MPI_DEBUG": "5"},
    tells="Intel MPI",
    cannot=OWN_WITHIN,
)
BY_TCP: Final = replace(OVER_LIBFABRIC, variables={**OVER_LIBFABRIC.variables, PROVIDER: "tcp"})


def _asked_itself(ways: Mapping[str, TransportSetting]) -> dict[str, TransportSetting]:
    """Return libfabric's ways, with Intel MPI's own report of the provider."""
    return {key: replace(way, asks=OVER_LIBFABRIC.asks, tells=OVER_LIBFABRIC.tells) for key, way in ways.items()}


WAYS: Final[Mapping[str, TransportSetting]] = {
    "tcp": BY_TCP,
    "shm": SHARED,
    "ipoib": BY_TCP,
    "ucx": replace(OVER_LIBFABRIC, variables={**OVER_LIBFABRIC.variables, PROVIDER: "mlx"}),
    "verbs": replace(OVER_LIBFABRIC, variables={**OVER_LIBFABRIC.variables, PROVIDER: "verbs"}),
    **_asked_itself(libfabric(one=OVER_LIBFABRIC.plus(variables={PROVIDER: "{detail}"}), free=OVER_LIBFABRIC)),
}
"""Intel MPI reaches UCX through a libfabric provider, `mlx`, which needs a Mellanox adapter."""


class IntelMpi(Mpi):
    """Launch with `mpiexec.hydra`, whose option names differ from MPICH's."""

    name = "intelmpi"
    family = "mpich"
    inside = str(mpi_wheels.program("intelmpi", "mpiexec.hydra"))
    title = TITLE
    ways = WAYS

    def probe(self) -> str | None:
        return mpi_wheels.probe(self.name)

    def lacks(self, transport: str) -> str | None:
        way_of(WAYS, transport, TITLE)
        return infiniband.probe(transport) if transport == "ucx" else None  # mlx supports no other transport

    def version(self) -> str:
        number = mpi_wheels.version(self.name)
        return f"Intel MPI {number}" if number else ""

    def launch(self, job: Job) -> Launch:
        return hydra_of_intel(job.wiring.launcher or self.inside, job, way_of(WAYS, job.wiring.transport, TITLE))

    def foreground(self, cwd: str, *, by_rank: bool) -> tuple[str, ...]:
        return ("-wdir", cwd, *(("-prepend-rank",) if by_rank else ()))

    def listen_on(self, port: int) -> Mapping[str, str]:
        return {"MPIEXEC_PORT_RANGE": f"{port}:{port}", "I_MPI_PORT_RANGE": f"{port}:{port}"}

    def head_environment(self, agent_program: str) -> Mapping[str, str]:
        return {
            "I_MPI_ROOT": str(mpi_wheels.folder(self.name)),
            "I_MPI_HYDRA_BOOTSTRAP_EXEC": agent_program,
            "TMPDIR": str(Path(agent_program).parent),
        }


def hydra_of_intel(program: str, job: Job, way: TransportSetting) -> Launch:
    """Return a launch by Intel MPI's launcher; `way` has the settings that leave the MPI no choice."""
    pinned = {**variables_of(way, job), **_binding(job.placement)}
    launcher = (
        program,
        "-bootstrap", "rsh",
        "-rmk", "user",
        "-iface", job.wiring.control_interface,
        "-genvlist", PADDING,
        *(token for name, value in pinned.items() for token in ("-genv", name, value)),
    )  # fmt: skip
    parts = contexts_by_host(with_devices(way, job.members))
    with_options = tuple(replace(part, options=_options(part)) for part in parts)
    return Launch(head=job.head, launcher=launcher, hosts=job.hosts, contexts=with_options)


def contexts_by_host(members: tuple[JobHost, ...]) -> tuple[Context, ...]:
    """Return a context for each host: Intel MPI takes the ranks of a host only after the host's name."""
    return tuple(context for member in members for context in group_contexts((member,)))


def _options(part: Context) -> tuple[str, ...]:
    carried = (("-env", name, value) for name, value in sorted(part.environment.items()))
    (host,) = part.hosts
    return ("-host", host.name, *(token for variable in carried for token in variable), "-n", str(part.ranks))


def _binding(placement: Placement) -> dict[str, str]:
    return {} if placement.binding is Binding.MPI_DEFAULT else {"I_MPI_PIN": "off"}
