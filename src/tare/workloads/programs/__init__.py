"""Define the third-party programs that tare knows: how each is started, and how its output becomes metrics.

One file for each family; programs whose results are in single lines are rows of `patterned`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tare.workloads.programs.adapter import ProgramAdapter, Reading
from tare.workloads.programs.graph500 import Graph500
from tare.workloads.programs.hpcc import Hpcc
from tare.workloads.programs.hpcg import Hpcg
from tare.workloads.programs.hpl import Hpl
from tare.workloads.programs.imb import IMB
from tare.workloads.programs.iperf3 import Iperf3
from tare.workloads.programs.kmi import Kmi
from tare.workloads.programs.minife import MiniFe
from tare.workloads.programs.neuron import Neuron
from tare.workloads.programs.npb import Npb
from tare.workloads.programs.osu import OSU
from tare.workloads.programs.patterned import PATTERNED

__all__ = ["PROGRAMS", "ProgramAdapter", "Reading"]

PROGRAMS: Final[Mapping[str, ProgramAdapter]] = {
    **{test.name: test for test in OSU},
    **{part.name: part for part in IMB},
    **{program.name: program for program in PATTERNED},
    "npb": Npb(),
    "hpcg": Hpcg(),
    "hpl": Hpl(),
    "hpcc": Hpcc(),
    "minife": MiniFe(),
    "graph500": Graph500(),
    "kmi": Kmi(),
    "iperf3": Iperf3(),
    "hnn": Neuron(),
}
"""By the name that a study uses (`program: osu_latency`)."""
