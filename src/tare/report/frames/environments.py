"""The table of environments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tare.model import Environment
from tare.report.frames.columns import Columns, Row, Table, text, truth, values_of
from tare.report.frames.source import Source


class StudiedEnvironment(NamedTuple):
    """An environment of the study, and whether it is the baseline."""

    stated: Environment
    is_baseline: bool


COLUMNS: Final[Columns[StudiedEnvironment]] = {
    text("environment", "name of the environment"): lambda e: e.stated.name,
    truth("is_baseline", "whether the others are compared with it"): lambda e: e.is_baseline,
    text("runtime", "runtime of the containers"): lambda e: e.stated.runtime,
    text("network", "network"): lambda e: e.stated.network,
    text("image", "image; empty for the files of the host"): lambda e: e.stated.image,
    text("transport", "what MPI moves messages over"): lambda e: e.stated.transport,
    text("mpi", "MPI library, unless the workload has another"): lambda e: e.stated.mpi,
    text("launch", "how ranks are started in their containers"): lambda e: e.stated.launch.value,
    text("sides", "the side of a two-node job that runs in the environment"): lambda e: e.stated.sides.value,
    text("control", "network of the launcher's daemons: `own` or `data`"): lambda e: e.stated.control.value,
    text("daemon", "runtime whose daemon runs although the environment does not use it"): lambda e: e.stated.daemon,
    text("pmi", "how srun's ranks find each other"): lambda e: e.stated.pmi,
}


def rows(source: Source) -> Iterator[Row]:
    """Yield the rows in the order of the study."""
    study = source.results.plan.study
    for each in study.environments:
        yield values_of(COLUMNS, StudiedEnvironment(each, each.name == study.baseline))


TABLE: Final = Table(
    name="environments",
    meaning="One row per environment of the study.",
    columns=tuple(COLUMNS),
    rows=rows,
)
