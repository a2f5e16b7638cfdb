"""Fill in what an environment leaves to its MPI: the transport. An MPI that is left as it is chooses it. Pure."""

from __future__ import annotations

from dataclasses import replace

from tare.model import Environment
from tare.mpi import MPIS
from tare.networks.wiring.transports import CHOSEN_BY_MPI, USUALLY


def with_transport(environment: Environment) -> Environment:
    """Return an environment whose transport is not stated, or was another MPI's, with one that suits its MPI."""
    if MPIS[environment.mpi].pins:
        chosen = environment.transport == CHOSEN_BY_MPI
        return replace(environment, transport=USUALLY) if chosen else environment
    return replace(environment, transport=CHOSEN_BY_MPI)
