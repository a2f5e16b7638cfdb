"""Tabulate the traffic of a workload's launches and the additional values that they reported: means, no verdict.

Number, mean size and rate of packets explain a cost better than the workload's name, because a container adds its cost
to each packet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from tare.model import InterfaceTraffic
from tare.report import units
from tare.report.frames.source import NumberedTrial
from tare.system.counters.values import MACHINE
from tare.system.node import SILENT_ROLE

_AS_SIZE: Final = "B"
_AS_TIME: Final = "s"
OF_MACHINE: Final = " (machine)"
"""Marks what is only counted for a whole machine, with whatever else runs there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleTraffic:
    """Traffic of one kind of interface of an environment: means per launch and node, both directions combined."""

    environment: str
    role: str
    packets: float
    volume_bytes: float
    packet_bytes: float
    packets_per_s: float

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the values as text: packets, volume, mean packet size, packets per second."""
        return (
            count(self.packets),
            units.size(round(self.volume_bytes)),
            units.size(round(self.packet_bytes)),
            count(self.packets_per_s),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTable:
    """A table of texts: its columns, and its rows, each with its name."""

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficTables:
    """The tables of a group that have no verdicts.

    `reported` has a row per environment, of what its launches reported in addition to their metrics. `counters` has a
    column per environment, and a row per counter of the kernel that grew in one of them.
    """

    group: str
    ident: str
    traffic: tuple[RoleTraffic, ...]
    reported: TextTable
    counters: TextTable = TextTable()


def traffic_tables(
    group: str, ident: str, environments: Sequence[str], runs: Sequence[NumberedTrial]
) -> TrafficTables | None:
    """Return the tables of a group, None if its launches have no data for them."""
    launches = [run for run in runs if run.group == group and run.completed]
    tables = TrafficTables(
        group=group,
        ident=ident,
        traffic=mean_traffic(environments, launches),
        reported=reported_values(environments, launches),
        counters=mean_counters(environments, launches),
    )
    return tables if tables.traffic or tables.reported.columns or tables.counters.rows else None


def mean_traffic(environments: Sequence[str], runs: Iterable[NumberedTrial]) -> tuple[RoleTraffic, ...]:
    """Return the mean traffic of each kind of interface that must carry messages, by environment."""
    by_role: dict[tuple[str, str], list[tuple[InterfaceTraffic, float]]] = {}
    for run in runs:
        for item in run.trial.traffic:
            if item.role != SILENT_ROLE:
                by_role.setdefault((run.environment, item.role), []).append((item, run.trial.elapsed_s))
    order = {name: number for number, name in enumerate(environments)}
    keys = sorted(by_role, key=lambda key: order.get(key[0], len(order)))
    return tuple(_role_traffic(*key, by_role[key]) for key in keys)


def _role_traffic(environment: str, role: str, items: Sequence[tuple[InterfaceTraffic, float]]) -> RoleTraffic:
    packets = [item.packets for item, _ in items]
    volumes = [item.volume_bytes for item, _ in items]
    rates = [number / elapsed_s for number, (_, elapsed_s) in zip(packets, items, strict=True) if elapsed_s > 0]
    return RoleTraffic(
        environment=environment,
        role=role,
        packets=fmean(packets),
        volume_bytes=fmean(volumes),
        packet_bytes=sum(volumes) / sum(packets) if sum(packets) else 0.0,
        packets_per_s=fmean(rates) if rates else 0.0,
    )


def reported_values(environments: Sequence[str], runs: Iterable[NumberedTrial]) -> TextTable:
    """Return the mean of each reported value over the launches that count, by environment."""
    labels: dict[str, str] = {}
    values: dict[str, dict[str, list[tuple[float, str]]]] = {}
    for run in runs:
        for figure in run.trial.figures:
            labels.setdefault(figure.key, figure.label)
            values.setdefault(run.environment, {}).setdefault(figure.key, []).append((figure.value, figure.unit))
    rows = tuple((name, _means(values[name], labels)) for name in environments if name in values)
    return TextTable(columns=tuple(labels.values()), rows=rows)


def _means(figures: Mapping[str, Sequence[tuple[float, str]]], labels: Mapping[str, str]) -> tuple[str, ...]:
    texts = []
    for key in labels:
        values = figures.get(key, ())
        texts.append(value_text(fmean(value for value, _ in values), values[0][1]) if values else "")
    return tuple(texts)


def mean_counters(environments: Sequence[str], runs: Iterable[NumberedTrial]) -> TextTable:
    """Return the mean growth of each counter per launch, summed over hosts, and apart over whole machines."""
    totals: dict[str, dict[str, float]] = {}
    launches: dict[str, int] = {}
    for run in runs:
        if not run.trial.node_counters:
            continue
        launches[run.environment] = launches.get(run.environment, 0) + 1
        for place, values in run.trial.node_counters.items():
            suffix = OF_MACHINE if place.startswith(f"{MACHINE} ") else ""
            for name, value in values.items():
                of_counter = totals.setdefault(name + suffix, {})
                of_counter[run.environment] = of_counter.get(run.environment, 0.0) + value
    columns = tuple(name for name in environments if name in launches)
    rows = tuple(
        (name, tuple(count(values.get(each, 0.0) / launches[each]) for each in columns))
        for name, values in sorted(totals.items(), key=lambda item: (item[0].endswith(OF_MACHINE), item[0]))
        if any(values.get(each) for each in columns)
    )
    return TextTable(columns=columns, rows=rows)


def value_text(value: float, unit: str) -> str:
    """Return a value with its unit: times and sizes in a readable unit, others unchanged."""
    if unit == _AS_TIME:
        return units.seconds(value)
    if unit == _AS_SIZE:
        return units.size(round(value))
    plain = count(value) if value == round(value) else units.significant(value, 4)
    if (plain == "0" and value != 0) or (value and abs(value) < 1e-3):
        plain = f"{value:.3g}"
    return f"{plain} {unit}".rstrip()


def count(value: float) -> str:
    """Return a count with thousands separators; a mean below 100 keeps three significant digits."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == round(value) else units.significant(value)
