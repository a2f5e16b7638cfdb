"""Tell how much of the cost of a Docker container is caused by the daemon. Pure.

A Docker daemon makes the kernel track the connections of its node (docs/adr/0004-docker-on-twins.md). This costs time
to containers on the node's own network, and also to a program without a container there (`bare+dockerd`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from tare import stats
from tare.model import Comparison, Environment, Estimate, Finding, MetricInfo, Verdict
from tare.model.text import three_digits

KIND: Final = "the daemon"
MOST: Final = 2
"""Metrics that one sentence names: those on which the environment costs most."""

Cells = Mapping[tuple[str, str, str], Comparison]


def daemon_findings(
    environments: Sequence[Environment],
    infos: Sequence[MetricInfo],
    comparisons: Sequence[Comparison],
    confidence: float,
) -> tuple[Finding, ...]:
    """Return a finding for each environment with a daemon that costs something, if the study has its control.

    The control has the same network, MPI and transport, the daemon, and no container. A finding names the metrics on
    which the environment costs; the container's part is paired over the rounds of both.
    """
    cells = {(each.group, each.environment, each.metric): each for each in comparisons}
    found = []
    for environment in environments:
        control = _control_of(environment, environments)
        for group in dict.fromkeys(info.group for info in infos) if control else ():
            own = [info for info in infos if info.group == group and info.judged]
            costs = [cells[key] for info in own if (key := (group, environment.name, info.key)) in cells]
            labels = {info.key: info.label for info in own}
            texts = [
                text
                for cell in sorted(filter(_costs, costs), key=_size, reverse=True)[:MOST]
                if control and (text := _text(cell, control.name, cells, labels[cell.metric], confidence))
            ]
            if texts:
                n = max(each.overhead.n for each in costs if each.overhead)
                text = "; ".join(texts)
                found.append(Finding(group=group, environment=environment.name, kind=KIND, text=text, launches=n, of=n))
    return tuple(found)


def _control_of(environment: Environment, environments: Sequence[Environment]) -> Environment | None:
    """Return the environment that has the same daemon and network as this one, and no container."""

    def parts(each: Environment) -> tuple[object, ...]:
        return each.network, each.mpi, each.transport, each.sides, each.link

    same = (each for each in environments if each.daemon == environment.runtime and parts(each) == parts(environment))
    return next(same, None)


def _costs(cell: Comparison) -> bool:
    return cell.verdict is Verdict.COSTS and cell.overhead is not None


def _size(cell: Comparison) -> float:
    return cell.overhead.value if cell.overhead else -math.inf


def _text(cell: Comparison, control: str, cells: Cells, label: str, confidence: float) -> str:
    """Return how a cost is divided between the daemon and the container, "" if the control has no figure."""
    base = cells.get((cell.group, control, cell.metric))
    if base is None or base.overhead is None or cell.overhead is None:
        return ""
    rest = _between(cell, base, confidence)
    left = f", and the container adds {_signed(rest)}" if rest else ""
    part = f"of it the daemon's packet filter {_signed(base.overhead)} ({control})"
    return f"{label} {_percent(cell.overhead.value)} %: {part}{left}"


def _between(cell: Comparison, base: Comparison, confidence: float) -> Estimate | None:
    """Return the cost of an environment against its control, paired over the rounds that both have."""
    own, control = (_by_round(each) for each in (cell, base))
    return stats.paired_t([own[each] - control[each] for each in sorted(own.keys() & control.keys())], confidence)


def _by_round(cell: Comparison) -> dict[int, float]:
    """Return the mean logarithm of the costs of each round."""
    logs = defaultdict(list)
    for number, cost in zip(cell.rounds, cell.values_s, strict=False):
        logs[number].append(math.log(cost))
    return {number: sum(each) / len(each) for number, each in logs.items()}


def _signed(estimate: Estimate) -> str:
    return f"{_percent(estimate.value)} % [{_percent(estimate.low)}, {_percent(estimate.high)}]"


def _percent(fraction: float) -> str:
    return three_digits(round(100 * fraction, 1 if abs(fraction) < 0.1 else 0), "+")
