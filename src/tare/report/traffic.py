"""Tell what the launches of a workload sent over the network, and what else they told: means, and no verdict.

Packets, bytes, their mean size and rate explain a cost better than the workload's name: what a container adds, it adds
to each packet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from tare.model import Completed, InterfaceTraffic
from tare.node import SILENT_ROLE
from tare.report import units
from tare.report.runs import ShownLaunch

_AS_SIZE: Final = "B"
_AS_TIME: Final = "s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """What one kind of interface of an environment carried: means of a launch on a node, both directions together."""

    environment: str
    role: str
    packets: float
    volume_bytes: float
    packet_bytes: float
    packets_per_s: float

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the figures as they are read: packets, bytes, size of a packet, packets a second."""
        return (
            count(self.packets),
            units.size(round(self.volume_bytes)),
            units.size(round(self.packet_bytes)),
            count(self.packets_per_s),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The figures that the launches of a group told: a column a figure, a row an environment."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """The tables of a group that stand beside its metrics."""

    group: str
    ident: str
    carried: tuple[Carried, ...]
    told: Told


def beside(group: str, ident: str, environments: Sequence[str], runs: Sequence[ShownLaunch]) -> Beside | None:
    """Return the tables of a group, None where its launches have nothing for them."""
    own = [run for run in runs if run.group == group and run.completed]
    tables = Beside(group=group, ident=ident, carried=carried(environments, own), told=told(environments, own))
    return tables if tables.carried or tables.told.columns else None


def carried(environments: Sequence[str], runs: Iterable[ShownLaunch]) -> tuple[Carried, ...]:
    """Return what each kind of interface that must carry the messages carried, by environment."""
    found: dict[tuple[str, str], list[tuple[InterfaceTraffic, float]]] = {}
    for run in runs:
        for item in run.trial.traffic:
            if item.role != SILENT_ROLE:
                found.setdefault((run.environment, item.role), []).append((item, run.trial.elapsed_s))
    order = {name: number for number, name in enumerate(environments)}
    return tuple(_carried(*key, found[key]) for key in sorted(found, key=lambda key: order.get(key[0], len(order))))


def _carried(environment: str, role: str, items: Sequence[tuple[InterfaceTraffic, float]]) -> Carried:
    packets = [item.rx_packets + item.tx_packets for item, _ in items]
    volumes = [item.rx_bytes + item.tx_bytes for item, _ in items]
    rates = [number / elapsed_s for number, (_, elapsed_s) in zip(packets, items, strict=True) if elapsed_s > 0]
    return Carried(
        environment=environment,
        role=role,
        packets=fmean(packets),
        volume_bytes=fmean(volumes),
        packet_bytes=sum(volumes) / sum(packets) if sum(packets) else 0.0,
        packets_per_s=fmean(rates) if rates else 0.0,
    )


def told(environments: Sequence[str], runs: Iterable[ShownLaunch]) -> Told:
    """Return the mean of each figure over the launches that count, by environment."""
    labels: dict[str, str] = {}
    found: dict[str, dict[str, list[tuple[float, str]]]] = {}
    for run in runs:
        for figure in run.trial.outcome.figures if isinstance(run.trial.outcome, Completed) else ():
            labels.setdefault(figure.key, figure.label)
            found.setdefault(run.environment, {}).setdefault(figure.key, []).append((figure.value, figure.unit))
    rows = tuple((name, _means(found[name], labels)) for name in environments if name in found)
    return Told(columns=tuple(labels.values()), rows=rows)


def _means(figures: Mapping[str, Sequence[tuple[float, str]]], labels: Mapping[str, str]) -> tuple[str, ...]:
    texts = []
    for key in labels:
        values = figures.get(key, ())
        texts.append(value_text(fmean(value for value, _ in values), values[0][1]) if values else "")
    return tuple(texts)


def value_text(value: float, unit: str) -> str:
    """Return a figure with its unit: times and sizes in what they are read in, the rest as it stands."""
    if unit == _AS_TIME:
        return units.seconds(value)
    if unit == _AS_SIZE:
        return units.size(round(value))
    plain = count(value) if value == round(value) else units.significant(value, 4)
    if (plain == "0" and value != 0) or (value and abs(value) < 1e-3):
        plain = f"{value:.3g}"
    return f"{plain} {unit}".rstrip()


def count(value: float) -> str:
    """Return a number of things with thousands separators, and no more digits than a mean has."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == round(value) else units.significant(value)
