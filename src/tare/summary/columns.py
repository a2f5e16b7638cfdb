"""The columns of the table: per group, every metric of a trial that counts."""

from __future__ import annotations

from tare.model import Cell, Completed, Metric, MetricInfo, MetricKind, Plan
from tare.summary.select import Selection


def metric_infos(plan: Plan, selection: Selection) -> tuple[MetricInfo, ...]:
    """Return the columns: per group, in the order of the plan, every metric of a trial that counts.

    If no launch of a group completed, the group keeps one column, for its workload, so that its cells are still listed
    with their reasons (rule of metrics 2).
    """
    infos: dict[tuple[str, str], MetricInfo] = {}
    for cell in plan.cells:
        for trial in selection.trials[cell.key].values():
            for metric in trial.outcome.metrics if isinstance(trial.outcome, Completed) else ():
                if (cell.group, metric.key) not in infos:
                    infos[cell.group, metric.key] = _info(metric, cell.group)
    for cell in plan.cells:
        if all(group != cell.group for group, _ in infos):
            infos |= _planned_infos(cell)
    order = list(dict.fromkeys(cell.group for cell in plan.cells))
    return tuple(sorted(infos.values(), key=lambda info: order.index(info.group)))


def _info(metric: Metric, group: str) -> MetricInfo:
    return MetricInfo(
        key=metric.key,
        label=metric.label,
        kind=metric.kind,
        statistic=metric.statistic,
        group=group,
        message_bytes=metric.message_bytes,
        done_per_sample=metric.done_per_sample,
        rate_unit=metric.rate_unit,
        added_first=metric.added_first,
        judged=metric.judged,
    )


def _planned_infos(cell: Cell) -> dict[tuple[str, str], MetricInfo]:
    name = cell.workload.name
    info = MetricInfo(key=name, label=name, kind=MetricKind.COST, statistic="no trial completed", group=cell.group)
    return {(cell.group, name): info}
