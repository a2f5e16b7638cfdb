"""Tell how much of the cost of a Docker container is caused by the daemon. Pure.

A Docker daemon makes the kernel track the connections of its node (docs/adr/0004-docker-on-twins.md). This costs time
to containers on the node's own network, and also to a program without a container there (`bare+dockerd`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from tare.analysis import stats
from tare.analysis.summary.costs import costs_of
from tare.model import Comparison, Environment, Estimate, Finding, MetricInfo, Verdict
from tare.model.text import three_digits

KIND: Final = "daemon"
Cells = Mapping[tuple[str, str, str], Comparison]


def daemon_findings(
    environments: Sequence[Environment],
    infos: Sequence[MetricInfo],
    comparisons: Sequence[Comparison],
    confidence: float,
) -> tuple[Finding, ...]:
    """Return a finding for each environment with a daemon that costs something, if the study has its control.

    The control has the same network, MPI and transport, the daemon, and no container. A finding names the metric on
    which the environment costs most; the container's part is paired over the rounds of both.
    """
    cells = {(cell.group, cell.environment, cell.metric): cell for cell in comparisons}
    findings = []
    for environment in environments:
        control = _control_of(environment, environments)
        for group in dict.fromkeys(info.group for info in infos) if control else ():
            judged = [info for info in infos if info.group == group and info.judged]
            compared = [cells[key] for info in judged if (key := (group, environment.name, info.key)) in cells]
            labels = {info.key: info.label for info in judged}
            most = max(filter(_costs, compared), key=_size, default=None)
            text = _text(most, control.name, cells, labels[most.metric], confidence) if control and most else ""
            if text:
                n = max(cell.overhead.n for cell in compared if cell.overhead)
                findings.append(
                    Finding(group=group, environment=environment.name, kind=KIND, text=text, launches=n, of=n)
                )
    return tuple(findings)


def _control_of(environment: Environment, environments: Sequence[Environment]) -> Environment | None:
    """Return the environment that has the same daemon and network as this one, and no container."""

    def parts(of: Environment) -> tuple[object, ...]:
        return of.network, of.mpi, of.transport, of.sides, of.link

    candidates = (candidate for candidate in environments if candidate.daemon == environment.runtime)
    return next((candidate for candidate in candidates if parts(candidate) == parts(environment)), None)


def _costs(cell: Comparison) -> bool:
    return cell.verdict is Verdict.COSTS and cell.overhead is not None


def _size(cell: Comparison) -> float:
    return cell.overhead.value if cell.overhead else -math.inf


def _text(cell: Comparison, control: str, cells: Cells, label: str, confidence: float) -> str:
    """Return how a cost is divided between the daemon and the container, "" if the control has no figure."""
    base = cells.get((cell.group, control, cell.metric))
    if base is None or base.overhead is None or cell.overhead is None:
        return ""
    container = _between(cell, base, confidence)
    container_text = f", the container adds {_signed(container)}" if container else ""
    daemon_text = f"the daemon's packet filter causes {_signed(base.overhead)} ({control})"
    return f"{label} {_percent(cell.overhead.value)} %: {daemon_text}{container_text}"


def _between(cell: Comparison, base: Comparison, confidence: float) -> Estimate | None:
    """Return the cost of an environment against its control, paired over the rounds that both have."""
    logs, base_logs = (costs_of(each).logs() for each in (cell, base))
    common = sorted(logs.keys() & base_logs.keys())
    return stats.estimated(stats.paired_t([logs[number] - base_logs[number] for number in common], confidence))


def _signed(estimate: Estimate) -> str:
    return f"{_percent(estimate.value)} % [{_percent(estimate.low)}, {_percent(estimate.high)}]"


def _percent(fraction: float) -> str:
    return three_digits(round(100 * fraction, 1 if abs(fraction) < 0.1 else 0), "+")
