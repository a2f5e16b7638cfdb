"""The causes that a cost may have: one file for each, and one entry in `CAUSES`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tare.explain.cause import CausePlugin
from tare.explain.causes.binding import Binding
from tare.explain.causes.collective import Collective
from tare.explain.causes.cpu_limit import CpuLimit
from tare.explain.causes.drop import Drop
from tare.explain.causes.encapsulation import Encapsulation
from tare.explain.causes.image import Image
from tare.explain.causes.interference import Interference
from tare.explain.causes.limits import Limits
from tare.explain.causes.memory_limit import MemoryLimit
from tare.explain.causes.mtu import Mtu
from tare.explain.causes.names import Names
from tare.explain.causes.offload import Offload
from tare.explain.causes.packet_filter import PacketFilter
from tare.explain.causes.path import Path
from tare.explain.causes.reorder import Reorder
from tare.explain.causes.startup import StartUp
from tare.explain.causes.steering import Steering
from tare.explain.causes.storage import Storage
from tare.explain.causes.syscalls import SystemCalls
from tare.explain.causes.threads import Threads
from tare.explain.causes.transport import Transport

CAUSES: Final[Mapping[str, CausePlugin]] = MappingProxyType(
    {
        cause.name: cause
        for cause in (
            Binding(), Threads(), Transport(), CpuLimit(), MemoryLimit(), Drop(), Reorder(), Steering(), Offload(),
            Mtu(), PacketFilter(), Encapsulation(), Path(), Collective(), SystemCalls(), Names(), Limits(), Image(),
            StartUp(), Storage(), Interference(),
        )
    }
)  # fmt: skip
"""Every cause by its name; of two that have equal weight the first is named."""
