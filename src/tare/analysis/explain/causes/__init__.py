"""The causes that a cost may have: one file for each, and one entry in `CAUSES`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tare.analysis.explain.cause import CausePlugin
from tare.analysis.explain.causes.binding import BindingCause
from tare.analysis.explain.causes.collective import Collective
from tare.analysis.explain.causes.cpu_limit import CpuLimit
from tare.analysis.explain.causes.drop import Drop
from tare.analysis.explain.causes.encapsulation import Encapsulation
from tare.analysis.explain.causes.image import ImageCause
from tare.analysis.explain.causes.interference import Interference
from tare.analysis.explain.causes.limits import LimitsCause
from tare.analysis.explain.causes.memory_limit import MemoryLimit
from tare.analysis.explain.causes.mtu import Mtu
from tare.analysis.explain.causes.names import NamesCause
from tare.analysis.explain.causes.offload import Offload
from tare.analysis.explain.causes.packet_filter import PacketFilter
from tare.analysis.explain.causes.path import Path
from tare.analysis.explain.causes.reorder import Reorder
from tare.analysis.explain.causes.startup import StartUp
from tare.analysis.explain.causes.steering import Steering
from tare.analysis.explain.causes.storage import Storage
from tare.analysis.explain.causes.syscalls import SystemCalls
from tare.analysis.explain.causes.threads import Threads
from tare.analysis.explain.causes.transport import TransportCause

CAUSES: Final[Mapping[str, CausePlugin]] = MappingProxyType(
    {
        cause.name: cause
        for cause in (
            BindingCause(), Threads(), TransportCause(), CpuLimit(), MemoryLimit(), Drop(), Reorder(), Steering(),
            Offload(), Mtu(), PacketFilter(), Encapsulation(), Path(), Collective(), SystemCalls(), NamesCause(),
            LimitsCause(), ImageCause(), StartUp(), Storage(), Interference(),
        )
    }
)  # fmt: skip
"""Every cause by its name; of two that have equal weight the first is named."""
