"""Define `miniapp`: one of tare's mini-applications (miniapps/), which verifies its result and counts its messages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tare.analysis.stats import LaunchStatistics, launch_statistics
from tare.model import Caches, Figure, MetricInfo, MetricKind, Placement, Workload
from tare.store.plausible import LEAST_TIMED_S, MOST_S
from tare.workloads.declared import Choice, choice_of, thinned
from tare.workloads.gate import gate
from tare.workloads.output import BY_TURN, LaunchTiming, OutputError, Parsed, Payload, about, metric_of, number, records
from tare.workloads.plugin import WorkloadPlugin

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RATES: Final[Mapping[str, tuple[float, str]]] = {
    "Mop/s": (1e6, "op/s"),
    "Mflop/s": (1e6, "FLOP/s"),
    "Gflop/s": (1e9, "FLOP/s"),
    "GFLOP/s": (1e9, "FLOP/s"),
    "TEPS": (1.0, "TEPS"),
    "MTEPS": (1e6, "TEPS"),
    "Mb/s": (1e6, "b/s"),
    "MB/s": (1e6, "B/s"),
}
"""The units of the applications' rates, as multiples of those of the model; other units are kept."""

BY_TURNS: Final = "mean over turns of the maximum over ranks"
"""The statistic of a timed section that took turns. Its typical cost is that of the median turn, times its parts: the
bursts of a tenth of a second in which a busy host takes both cores are in some turns and not in others. Launches that
took turns with each other are also compared pass by pass (`tare.run.trial`)."""

MOST_TURNS: Final = 10000
"""Turns of a launch, as in kernels/common/turns.h. All launches of a block are compared turn by turn, in memory."""
MOST_PARTS: Final = 1 << 40
SHORTEST_S: Final = 1e-12
"""A part takes longer; the logarithm of what it took is compared."""

RANK_BYTES: Final = 40 << 20
"""Memory of a rank besides its data: program, MPI and buffers (measured: 25 to 40 MiB with Open MPI 4.1, 2 ranks)."""


class MiniApps(WorkloadPlugin):
    """Run `tare-miniapps` with one application."""

    name = "miniapp"
    timer = "CLOCK_MONOTONIC"
    synchronisation = "a barrier before the timed section"
    reduction = "maximum over ranks of the timed section"

    def serves(self, workload: Workload) -> bool:
        return bool(workload.miniapp)

    def argv(self, workload: Workload, prefix: Path) -> tuple[str, ...]:
        return (str(prefix / "bin" / "tare-miniapps"), workload.miniapp)

    def caches(self, workload: Workload) -> Caches | None:
        choice = choice_of(workload.miniapp)
        return Caches.COLD if choice.app.cold(choice) else None

    def takes_turns(self, workload: Workload) -> bool:
        return choice_of(workload.miniapp).app.divides

    def metrics(self, workload: Workload, placement: Placement) -> tuple[MetricInfo, ...]:
        choice = choice_of(workload.miniapp)
        return (_info(choice, choice.app.rate, choice.app.operations(choice, placement.ranks), workload.name),)

    def parse(self, workload: Workload, stdout: str, began: LaunchTiming | None = None) -> Parsed:
        return gate(lambda: _parsed(choice_of(workload.miniapp), stdout))

    def refuse(self, workload: Workload, placement: Placement) -> str | None:
        choice = choice_of(workload.miniapp)
        return choice.app.refuse(choice, placement.ranks)

    def thin(self, workload: Workload) -> Workload:
        return replace(workload, miniapp=thinned(choice_of(workload.miniapp)).spec)

    def memory_bytes(self, workload: Workload, placement: Placement) -> float:
        choice = choice_of(workload.miniapp)
        return RANK_BYTES + choice.app.memory_bytes(choice, placement.ranks)

    def expected_s(self, workload: Workload, placement: Placement) -> float:
        choice = choice_of(workload.miniapp)
        return choice.pace * choice.app.expected_s(choice, placement.ranks)


def _info(choice: Choice, rate: str, operations: float, group: str = "") -> MetricInfo:
    scale, unit = RATES.get(rate, (1.0, str(rate)))
    return MetricInfo(
        key=choice.spec,
        label=choice.label,
        kind=MetricKind.RATE,
        statistic=MiniApps.reduction,
        group=group,
        done_per_sample=scale * operations,
        rate_unit=unit,
        judged=choice.app.judged,
    )


def _parsed(choice: Choice, stdout: str) -> Parsed:
    all_records = records(stdout)
    result = next((record for record in all_records if record["type"] == "miniapp"), None)
    if result is None:
        raise OutputError(f"{choice.label} printed no result")
    _check_choice(choice, result)
    elapsed_s, operations = number(result["elapsed_s"]), number(result["operations"])
    if not (LEAST_TIMED_S <= elapsed_s < math.inf and 0 < operations < math.inf):
        raise OutputError(f"{choice.label} reports {elapsed_s} s for {operations} operations, which is impossible")
    declared = choice.app.operations(choice, int(result["ranks"]))
    # launches with different amounts of work are compared for the same amount
    cost_s = elapsed_s * declared / operations
    typical: dict[str, Any] = {}
    if by_turn := _by_turn(choice, result):
        typical = {
            "statistic": BY_TURNS, "median_s": cost_s * by_turn.median_s, "p99_s": cost_s * by_turn.p99_s,
        }  # fmt: skip
    metric = metric_of(_info(choice, result["rate_unit"], declared), cost_s, **typical)
    return Parsed(
        metrics=(metric,),
        **about(all_records),
        payload=_payload(result),
        measured_s=elapsed_s,
        wrong=_wrong(choice, result),
        samples=_samples(choice, result),
        figures=_figures(result),
    )


def _by_turn(choice: Choice, result: Mapping[str, Any]) -> LaunchStatistics | None:
    """Return what a part of the timed section took, of which each turn has one value; None without turns.

    As multiples of the mean over all parts, so that the mean of the run times the median is what the typical turn says.
    """
    if (shares := result.get("shares")) is None:
        return None
    parts, elapsed_s = (list(map(number, shares[name])) for name in ("parts", "elapsed_s"))
    possible = 0 < len(parts) == len(elapsed_s) <= MOST_TURNS and all(1 <= done < MOST_PARTS for done in parts)
    if not (possible and all(SHORTEST_S < s / done < MOST_S for s, done in zip(elapsed_s, parts, strict=True))):
        raise OutputError(f"{choice.label} reports turns that are impossible")
    mean_s = sum(elapsed_s) / sum(parts)
    return launch_statistics([taken / done / mean_s for taken, done in zip(elapsed_s, parts, strict=True)])


def _check_choice(choice: Choice, result: Mapping[str, Any]) -> None:
    """Raise `OutputError` if a result is not that of the choice."""
    if result["app"] != choice.app.name or (result["class"] or "") != choice.letter:
        name = f"{result['app']} {result['class'] or ''}".strip()
        raise OutputError(f"the output has a result of {name} in place of {choice.label}")
    usual = {parameter.name: parameter.usual for parameter in choice.app.parameters}
    if usual | dict(result["parameters"]) != dict(choice.values):
        raise OutputError(f"{choice.label} ran with {result['parameters']}, not with {dict(choice.values)}")


def _wrong(choice: Choice, result: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the checks that failed, each with the value and the expected one."""
    failed = tuple(
        f"{check['name']} of {choice.label} ({_value(check['value'])} where {_value(check['expected'])} is expected, "
        f"within {check['tolerance']:g})"
        for check in result["checks"]
        if not check["passed"]
    )
    if not failed and not result["verified"]:
        return (f"{choice.label} (it verified nothing)",)
    return failed


def _value(value: float | None) -> str:
    return "no number" if value is None else f"{value:.14g}"


def _samples(choice: Choice, result: Mapping[str, Any]) -> dict[str, NDArray[np.float64]]:
    """Return the times of single passes, if an application keeps any (searches, round trips)."""
    import numpy as np

    found = {
        f"{choice.spec}/{series['name'].replace(' ', '_')}": np.array(series["values"], dtype=np.float64)
        for series in result.get("series", ())
        if series["unit"] == "s"
    }
    if shares := result.get("shares"):
        found[f"{choice.spec}/{BY_TURN}"] = np.divide(shares["elapsed_s"], shares["parts"])
    return found


def _figures(result: Mapping[str, Any]) -> tuple[Figure, ...]:
    """Return the figures that the application prints besides its rate, and the messages of its timed section."""
    figures = [
        Figure(key=str(figure["name"]), label=str(figure["name"]), value=number(figure["value"]), unit=figure["unit"])
        for figure in result["figures"]
        if figure["value"] is not None
    ]
    sends = [entry for entry in result["messages"] if entry["kind"] == "send"]
    count = sum(int(entry["count"]) for entry in sends)
    if count and result["messages_complete"]:
        mean = sum(int(entry["count"]) * int(entry["bytes"]) for entry in sends) / count
        figures.append(Figure(key="messages sent", label="messages sent", value=float(count)))
        figures.append(Figure(key="mean message", label="mean message", value=mean, unit="B"))
    return tuple(figures)


def _payload(result: Mapping[str, Any]) -> Payload:
    """Return the bounds of the timed section's messages; those before and after it are not counted."""
    payload = result["payload"]
    return Payload(
        low_bytes=int(payload["bytes_min"]),
        high_bytes=int(payload["bytes_max"]),
        messages=int(payload["messages"]),
        known=True,
        more=True,
    )
