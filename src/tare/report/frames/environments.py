"""The table of environments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tare.report.frames.columns import Row, Table, text, truth
from tare.report.frames.source import Source

COLUMNS: Final = (
    text("environment", "name of the environment"),
    truth("is_baseline", "whether the others are compared with it"),
    text("runtime", "runtime of the containers"),
    text("network", "network"),
    text("image", "image; empty for the files of the host"),
    text("transport", "what MPI moves messages over"),
    text("mpi", "MPI library, unless the workload has another"),
    text("launch", "how ranks are started in their containers"),
    text("sides", "the side of a two-node job that runs in the environment"),
    text("control", "network of the launcher's daemons: `own` or `data`"),
    text("daemon", "runtime whose daemon runs although the environment does not use it"),
    text("pmi", "how srun's ranks find each other"),
)


def rows(source: Source) -> Iterator[Row]:
    """Yield the rows in the order of the study."""
    study = source.results.plan.study
    for item in study.environments:
        yield (
            item.name,
            item.name == study.baseline,
            item.runtime,
            item.network,
            item.image,
            item.transport,
            item.mpi,
            item.launch.value,
            item.sides.value,
            item.control.value,
            item.daemon,
            item.pmi,
        )


TABLE: Final = Table(
    name="environments",
    meaning="One row per environment of the study.",
    columns=COLUMNS,
    rows=rows,
)
