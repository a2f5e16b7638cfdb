"""Find what an environment requires and a machine lacks. It is asked on the machine itself."""

from __future__ import annotations

from tare.daemons import ssh
from tare.model import Environment, Launching
from tare.mpi import MPIS
from tare.networks import find
from tare.networks.wiring import infiniband, link, transports
from tare.runtimes import RUNTIMES
from tare.system import binds, devices
from tare.system.node import gpus


def probe(environment: Environment, *, real: bool = False) -> str | None:
    """Return what an environment requires and this machine lacks, or None; `real`: as a node itself, not for a lab."""
    daemon = (RUNTIMES[environment.daemon],) if environment.daemon else ()
    parts = (RUNTIMES[environment.runtime], *daemon, find(environment.network))
    reasons = (part.probe_machine() if real else part.probe() for part in parts)
    missing = next((reason for reason in reasons if reason), None)
    if environment.launch is Launching.SSH and not environment.image:
        missing = missing or ssh.probe_node()
    elif environment.launch is Launching.SSH:
        missing = missing or RUNTIMES[environment.runtime].probe_sshd()
    missing = missing or devices.probe(environment.devices) or gpus.probe(environment.devices)
    missing = missing or binds.probe(environment.binds)
    mpi = MPIS[environment.mpi]
    if mpi.is_fake:
        return missing
    return (
        missing
        or mpi.probe()
        or (mpi.probe_launcher() if environment.launch is not Launching.SRUN else None)
        or mpi.lacks(environment.transport)
        or _no_fabric(environment)
        or link.probe(environment.link)
    )


def _no_fabric(environment: Environment) -> str | None:
    """Return why this machine has no port or interface for a transport, or None."""
    if environment.transport == "ipoib":
        return infiniband.probe_ipoib()
    if transports.needs_port(environment.transport, environment.devices):
        return infiniband.probe(environment.transport)
    return None
