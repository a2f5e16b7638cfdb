"""The Jones 2009 model of the neocortex in hnn-core on NEURON, run by tare's driver (drivers/jones2009.py)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tare.model import Figure, MetricInfo, Placement
from tare.system.packages import script
from tare.workloads.output import OutputError
from tare.workloads.programs.adapter import ProgramAdapter, Reading
from tare.workloads.programs.lines import NUMBER, check_single, known_version, number
from tare.workloads.programs.options import Wrong, keyed, whole_number
from tare.workloads.programs.quantities import Quantity

PLACE: Final = "/opt/tare/programs/hnn"
DRIVER: Final = "jones2009.py"
USUAL: Final = {"tstop": "170", "mesh": "10"}
PRECISION: Final = 1e-6
"""Allowed difference: ten digits of the sum are printed, and two mathematical libraries may differ in the last few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownResult:
    """The result of hnn-core 0.6.1 on NEURON 8.2.7 on any number of ranks: spikes, and the dipole's sum."""

    spikes: int
    dipole_sum: float


KNOWN: Final[Mapping[tuple[int, int], KnownResult]] = {
    (170, 10): KnownResult(spikes=1404, dipole_sum=19.63878203),
    (170, 3): KnownResult(spikes=196, dipole_sum=6.093163464),
    (40, 3): KnownResult(spikes=47, dipole_sum=0.7421563189),
    (20, 10): KnownResult(spikes=2, dipole_sum=-0.1733768187),
}
"""By simulated milliseconds and mesh (10: a grid of 10 x 10, 270 cells), default drives, one trial."""

_FIELDS: Final = ("np", "tstop", "mesh", "import_s", "build_s", "sim_s", "nspikes", "agg_sum", "agg_max")
LINE: Final = re.compile(
    r"^hnn_core (?P<version>\S+) " + " ".join(rf"{field} (?P<{field}>{NUMBER})" for field in _FIELDS) + r"\s*$"
)


class Neuron(ProgramAdapter):
    """The model, with the simulated time and the mesh as arguments."""

    name = "hnn"
    file = "hnn-python"
    describes = "Jones 2009 model (hnn-core on NEURON): arguments tstop= (ms) and mesh=; 170/10, 170/3, 40/3 or 20/10"
    measures = "wall time of the simulation; NEURON exchanges spikes with an allgather each minimum delay"
    versions = "hnn-core 0.6.1"
    timer = "CLOCK_MONOTONIC around building and simulating"
    synchronisation = "a barrier before it"
    reduction = "maximum over ranks of one run"
    places = (f"{PLACE}/bin",)
    brought_by = script("tools/programs hnn")

    def argv(self, arguments: tuple[str, ...], program: str = "") -> tuple[str, ...]:
        values = keyed(arguments, USUAL)
        folder = program.removesuffix("/bin/hnn-python").rstrip("/") or PLACE
        given = ("--tstop", values["tstop"], "--mesh", values["mesh"])
        return (f"{folder}/bin/hnn-python", f"{folder}/{DRIVER}", *given)

    def environment(self, arguments: tuple[str, ...]) -> Mapping[str, str]:
        # One thread a rank; and a container's user may have no home for matplotlib's cache.
        return {
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "MPLCONFIGDIR": "/tmp",
            "MPLBACKEND": "Agg",
            # This library is linked with the cell's MPI; without it mpi4py would load the first MPI that it finds.
            "LD_PRELOAD": "libtare_wall_report.so",
        }

    def refuse(self, arguments: tuple[str, ...], placement: Placement) -> str | None:
        try:
            values = keyed(arguments, USUAL)
            asked = whole_number(values["tstop"], "tstop", 1, 100_000), whole_number(values["mesh"], "mesh", 1, 1000)
        except Wrong as error:
            return f"hnn: {error}"
        if asked not in KNOWN:
            allowed = ", ".join(f"tstop={tstop} mesh={mesh}" for tstop, mesh in KNOWN)
            return f"hnn: tstop={asked[0]} mesh={asked[1]} has no known result to check against (allowed: {allowed})"
        return None

    def metrics(self, arguments: tuple[str, ...], placement: Placement) -> tuple[MetricInfo, ...]:
        return (_quantity(*_asked(arguments)).info(),)

    def thin(self, arguments: tuple[str, ...]) -> tuple[str, ...]:
        tstop, mesh = min(KNOWN, key=lambda known: known[0] * known[1] ** 2)
        return (f"tstop={tstop}", f"mesh={mesh}")

    def expected_s(self, arguments: tuple[str, ...], placement: Placement) -> float:
        tstop, mesh = _asked(arguments)
        return 4.0 + 0.0035 * tstop * mesh * mesh / placement.ranks

    def parse(self, lines: Sequence[str], arguments: tuple[str, ...]) -> Reading:
        results = [match for line in lines if (match := LINE.match(line.strip()))]
        if not results:
            raise OutputError("hnn: the last line, 'hnn_core VERSION np ... agg_max ...', is missing")
        check_single(len(results), "the result of hnn")
        found = results[0]
        known_version(found["version"], ("0.6.1",), what="hnn-core")
        values = {field: number(found[field], f"{field} of hnn") for field in _FIELDS}
        tstop, mesh = _asked(arguments)
        if (values["tstop"], values["mesh"]) != (tstop, mesh):
            raise OutputError(
                f"hnn: the output is of tstop {values['tstop']:g} mesh {values['mesh']:g}, not {tstop} and {mesh}"
            )
        expected = KNOWN[tstop, mesh]
        wrong = []
        if values["nspikes"] != expected.spikes:
            wrong.append(f"hnn: {values['nspikes']:g} spikes, expected {expected.spikes}")
        if not abs(values["agg_sum"] - expected.dipole_sum) <= PRECISION * abs(expected.dipole_sum):
            wrong.append(f"hnn: the dipole's sum is {values['agg_sum']:.10g}, expected {expected.dipole_sum:.10g}")
        figures = (
            Figure(key="hnn.import", label="hnn, importing", value=values["import_s"], unit="s"),
            Figure(key="hnn.spikes", label="hnn, spikes", value=values["nspikes"]),
            Figure(key="hnn.dipole", label="hnn, sum of the dipole", value=values["agg_sum"]),
        )
        metric = _quantity(tstop, mesh).took(values["sim_s"])
        return Reading(metrics=(metric,), figures=figures, wrong=tuple(wrong))


def _asked(arguments: tuple[str, ...]) -> tuple[int, int]:
    values = keyed(arguments, USUAL)
    return int(values["tstop"]), int(values["mesh"])


def _quantity(tstop: int, mesh: int) -> Quantity:
    label = f"Jones 2009, {tstop} ms"
    return Quantity(key=f"hnn:{tstop}:{mesh}", label=label, statistic=Neuron.reduction)
