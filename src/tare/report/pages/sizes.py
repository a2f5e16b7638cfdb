"""Build the HTML report's plots over message sizes, for each benchmark with several sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tare.model import Summary
from tare.report import view
from tare.report.plots import overhead
from tare.report.plots.figures import Drawing
from tare.report.plots.styles import Style
from tare.report.view import MetricColumn, TableGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """The plots of one benchmark over message sizes."""

    name: str
    figures: tuple[Drawing, ...]


def sweeps_of(group: TableGroup, summary: Summary, style: Mapping[str, Style]) -> list[Sweep]:
    """Return the plots of each family of metrics that differ only in the message size."""
    families: dict[str, list[MetricColumn]] = {}
    for column in group.columns:
        if column.info.message_bytes is not None:
            families.setdefault(view.sweep(column.info), []).append(column)
    result: list[Sweep] = []
    for columns in families.values():
        columns.sort(key=lambda column: column.info.message_bytes or 0)
        if len(columns) >= 2:
            figures = (
                overhead.by_size(columns, group.rows, style, link_bytes_per_s(summary)),
                overhead.overhead_by_size(columns, group.rows, summary, style),
            )
            result.append(Sweep(name=_common_label(columns), figures=tuple(figure.drawn() for figure in figures)))
    return result


def link_bytes_per_s(summary: Summary) -> float:
    """Return the rate of the link of all environments in bytes per second, 0 if none is set or they differ.

    An environment may state its own; the others have the lab's.
    """
    stated = summary.manifest.get("link rate, bit/s", 0)
    of_lab = stated if isinstance(stated, int) else 0
    rates = {environment.link.rate_bps or of_lab for environment in summary.environments}
    return rates.pop() / 8.0 if len(rates) == 1 else 0.0


def _common_label(columns: Sequence[MetricColumn]) -> str:
    """Return the common prefix of a family's labels, as `latency` of `latency 8 B` and `latency 64 KiB`."""
    first, *others = [column.info.label.split() for column in columns]
    words = [word for index, word in enumerate(first) if all(other[index : index + 1] == [word] for other in others)]
    return " ".join(words) or view.family(columns[0].info)
