"""Open a results folder for a notebook."""

from __future__ import annotations

from pathlib import Path

from tare.model import Study, Summary
from tare.report.frames import cells, comparisons, environments, readings, trials
from tare.report.frames.frame import Frame
from tare.report.frames.samples import Samples
from tare.report.frames.source import Explain, Source, unexplained
from tare.store.damage import Damage
from tare.store.results import read_only


class OpenResults:
    """A results folder that was read once; a run that writes to it meanwhile is not disturbed, and not seen.

    The names, types and units of all columns are in docs/notebooks.md; they change only with a new minor version.
    """

    def __init__(self, source: Source) -> None:
        self._source = source

    @property
    def path(self) -> Path:
        """Return the folder."""
        return self._source.results.path

    @property
    def study(self) -> Study:
        """Return the study as it was planned."""
        return self._source.results.plan.study

    @property
    def summary(self) -> Summary:
        """Return everything that the report shows: verdicts, warnings, the headline."""
        return self._source.summary

    @property
    def damaged(self) -> tuple[Damage, ...]:
        """Return the damaged lines of the folder, which were left out."""
        return self._source.results.damaged

    @property
    def trials(self) -> Frame:
        """Return the launches: one row per launch and metric."""
        return Frame(trials.TABLE, self._source)

    @property
    def readings(self) -> Frame:
        """Return what else launches recorded: start-up, counters, noise, traffic, figures."""
        return Frame(readings.TABLE, self._source)

    @property
    def comparisons(self) -> Frame:
        """Return each environment against the baseline, one row per metric."""
        return Frame(comparisons.TABLE, self._source)

    @property
    def cells(self) -> Frame:
        """Return every planned cell, also those that did not run."""
        return Frame(cells.TABLE, self._source)

    @property
    def environments(self) -> Frame:
        """Return the environments of the study."""
        return Frame(environments.TABLE, self._source)

    def samples(self, metric: str = "", *, environment: str = "", group: str = "", counted: bool = True) -> Samples:
        """Return the samples of a metric, an environment or a group; "" is all of them.

        With `counted` False, launches that later ones superseded are included.
        """
        return Samples(self._source, metric=metric, environment=environment, group=group, counted=counted)

    def __repr__(self) -> str:
        return f"<tare results {self.path}: study {self.study.name}, {len(self._source.results.trials)} launches>"


def open_results(path: Path | str, explain: Explain = unexplained) -> OpenResults:
    """Return the results of a folder; damaged lines are left out (`OpenResults.damaged`).

    `explain` returns the causes of what costs something.

    Raises `tare.errors.ResultsError` if it is not a results folder or cannot be read.
    """
    return OpenResults(Source(read_only(Path(path), skip_damaged=True), explain=explain))
