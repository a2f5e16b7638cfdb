"""The table of readings: what else each launch recorded, one number a row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tare.report.frames.columns import Row, Table, count, number, text
from tare.report.frames.source import Source

COLUMNS: Final = (
    count("trial", "number of the launch"),
    text("source", "`start-up`, `counters`, `noise`, `traffic`, or `figure` for a value that the program reported"),
    text("name", "name of the reading; for traffic NODE INTERFACE FIELD"),
    number("value", "`unit`", "value"),
    text("unit", "unit: `s` if the name ends in `_s`, `B` if in `_bytes`, that of the figure, otherwise empty"),
)
_UNITS: Final = (("_s", "s"), ("_bytes", "B"))
_TRAFFIC: Final = ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets")


def rows(source: Source) -> Iterator[Row]:
    """Yield the rows launch by launch."""
    for numbered in source.trials:
        trial, trial_number = numbered.trial, numbered.number
        for name, readings in (("start-up", trial.startup_s), ("counters", trial.counters), ("noise", trial.noise)):
            for reading, value in readings.items():
                yield trial_number, name, reading, value, unit_of(reading)
        for item in trial.traffic:
            for field in _TRAFFIC:
                name = f"{item.node} {item.interface} {field}"
                yield trial_number, "traffic", name, float(getattr(item, field)), unit_of(field)
        for figure in trial.figures:
            yield trial_number, "figure", figure.key, figure.value, figure.unit


def unit_of(name: str) -> str:
    """Return the unit that the end of a name states."""
    return next((unit for end, unit in _UNITS if name.endswith(end)), "")


TABLE: Final = Table(
    name="readings",
    meaning="One row per launch and reading: start-up, counters that grew, the machine's state, traffic, figures.",
    columns=COLUMNS,
    rows=rows,
)
