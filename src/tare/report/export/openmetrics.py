"""OpenMetrics text, for Prometheus and other monitoring: gauges of every comparison and counts of every cell.

All are gauges, also those that only carry labels: the node exporter's textfile collector does not know the type `info`.

The text has no time stamps: what scrapes or pushes it adds them. Each estimate has three samples, with `bound`
`point`, `low` and `high`; `tare_rounds` has the number of rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from tare import __version__
from tare.model import Comparison, Estimate, Summary
from tare.model.text import printable
from tare.report.export.format import TextFormat
from tare.report.frames import TABLES, Frame, Source
from tare.report.frames.cells import OUTCOMES
from tare.report.frames.comparisons import CellComparison, cell_comparisons

LONGEST_LABEL: Final = 500
UNITS: Final = ("_seconds", "_ratio")


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A family of gauges and their samples, each with the labels and the value; a name may end in a unit."""

    name: str
    help: str
    samples: list[tuple[dict[str, str], float]] = field(default_factory=list)

    def text(self) -> Iterator[str]:
        """Yield the family's lines."""
        yield f"# TYPE {self.name} gauge"
        if self.name.endswith(UNITS):
            yield f"# UNIT {self.name} {self.name.rpartition('_')[2]}"
        yield f"# HELP {self.name} {escape(self.help)}"
        for labels, value in self.samples:
            pairs = ",".join(f'{name}="{escape(text_)}"' for name, text_ in labels.items())
            yield f"{self.name}{{{pairs}}} {number(value)}"


Estimates = tuple[tuple[str, str, Callable[[CellComparison], Estimate | None]], ...]
ESTIMATES: Final[Estimates] = (
    ("tare_typical_cost_seconds", "Cost of the typical launch.", lambda each: each.comparison.absolute_s),
    ("tare_mean_cost_seconds", "Mean cost.", lambda each: each.comparison.mean_absolute_s),
    (
        "tare_baseline_typical_cost_seconds",
        "Cost of the baseline's typical launch, to which the overhead refers.",
        lambda each: each.base.absolute_s if each.base and each.comparison.overhead else None,
    ),
    (
        "tare_baseline_mean_cost_seconds",
        "Mean cost of the baseline, to which the overhead of the mean refers.",
        lambda each: each.base.mean_absolute_s if each.base and each.comparison.mean else None,
    ),
    (
        "tare_typical_overhead_ratio",
        "Overhead of the typical launch; 0.5 is 50 % slower than the baseline.",
        lambda each: each.comparison.overhead,
    ),
    (
        "tare_mean_overhead_ratio",
        "Overhead of the mean, to which the study's limit refers.",
        lambda each: mean.overhead if (mean := each.comparison.mean) else None,
    ),
    ("tare_typical_added_seconds", "Added time of the typical launch.", lambda each: each.comparison.added_s),
)
COUNTS: Final[tuple[tuple[str, str, Callable[[Comparison], float | None]], ...]] = (
    ("tare_over_limit", "1 if the overhead is above the study's limit.", lambda item: float(item.over_limit)),
    (
        "tare_launches",
        "Launches of which failures are counted.",
        lambda item: f.launches if (f := item.failures) else None,
    ),
    (
        "tare_failed_launches",
        "Launches that failed or timed out.",
        lambda item: f.failed if (f := item.failures) else None,
    ),
)


def text(source: Source) -> str:
    """Return the document."""
    summary = source.summary
    compared = list(cell_comparisons(source))
    families = [*_study(summary), _cells(source), *_outcomes(source), _verdicts(compared), *_estimates(compared)]
    families += [_counts(compared, name, help_, value) for name, help_, value in COUNTS]
    lines = (line for family in families if family.samples for line in family.text())
    return "\n".join((*lines, "# EOF")) + "\n"


def _study(summary: Summary) -> Iterator[Family]:
    labels = {
        "study": summary.name,
        "cluster": summary.cluster,
        "baseline": summary.baseline,
        "machine": summary.machine,
        "version": __version__,
    }
    yield Family(name="tare_study_info", help="The study.", samples=[(labels, 1)])
    facts = (
        ("tare_rounds_done", "Rounds in which every group has a whole block.", summary.rounds_done),
        ("tare_exit_code", "Exit code of the study.", summary.exit_code),
        ("tare_warnings", "Warnings of the report.", len(summary.warnings)),
        ("tare_confidence_ratio", "Confidence of the intervals.", summary.confidence),
        ("tare_limit_ratio", "Limit of the study.", summary.limit),
    )
    for name, help_, value in facts:
        if value is not None:
            yield Family(name=name, help=help_, samples=[({"study": summary.name}, value)])


def _cells(source: Source) -> Family:
    shown = ("group", "environment", "role", "placement", "reason")
    samples = [
        ({name: row[name] for name in shown} | {"available": str(row["is_available"]).lower()}, 1.0)
        for row in Frame(TABLES["cells"], source)
    ]
    return Family(name="tare_cell_info", help="Every planned cell, with the reason if it did not run.", samples=samples)


def _outcomes(source: Source) -> Iterator[Family]:
    samples = [
        ({"group": row["group"], "environment": row["environment"], "outcome": word}, float(row[word]))
        for row in Frame(TABLES["cells"], source)
        for word in OUTCOMES
    ]
    yield Family(name="tare_cell_launches", help="Launches of each cell by outcome.", samples=samples)


def _verdicts(compared: Iterable[CellComparison]) -> Family:
    samples = [
        (_labels(each) | {"verdict": each.comparison.verdict.value, "reason": each.comparison.reason}, 1.0)
        for each in compared
    ]
    return Family(name="tare_comparison_info", help="Verdict on every comparison.", samples=samples)


def _estimates(compared: Iterable[CellComparison]) -> Iterator[Family]:
    rounds = Family(name="tare_rounds", help="Rounds from which an estimate is computed, by the name of its family.")
    for name, help_, value in ESTIMATES:
        family = Family(name=name, help=help_)
        for each in compared:
            estimate = value(each)
            if estimate is None:
                continue
            labels = _labels(each)
            bounds = ("point", estimate.value), ("low", estimate.low), ("high", estimate.high)
            family.samples.extend((labels | {"bound": bound}, number_) for bound, number_ in bounds)
            rounds.samples.append((labels | {"estimate": name}, estimate.n))
        yield family
    yield rounds


def _counts(
    compared: Iterable[CellComparison], name: str, help_: str, value: Callable[[Comparison], float | None]
) -> Family:
    samples = [(_labels(each), found) for each in compared if (found := value(each.comparison)) is not None]
    return Family(name=name, help=help_, samples=samples)


def _labels(each: CellComparison) -> dict[str, str]:
    return {
        "group": each.cell.group,
        "environment": each.comparison.environment,
        "metric": each.info.key if each.info else "",
    }


def escape(text_: str) -> str:
    r"""Return a label's value or a help text: one line, with `\\`, `\n` and `\"` as OpenMetrics wants them."""
    short = printable(text_, lines=True)[:LONGEST_LABEL]
    return short.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def number(value: float) -> str:
    """Return a number as OpenMetrics writes it."""
    if math.isfinite(value):
        return repr(float(value))
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


OPENMETRICS: Final = TextFormat(suffix=".prom", meaning="OpenMetrics text, for Prometheus", text=text)
