"""Studies and results of every kind, for the twelve rules: random environments, costs, units, failures, gaps."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html.parser import HTMLParser

from hypothesis import strategies as st

from tare.analysis.summary import summarise
from tare.model import Cell, Completed, Failed, Invalid, Metric, MetricKind, Outcome, Placement, Plan, Summary, Trial
from tare.report import render_html, render_text
from unit.summaries import MICRO, NoSamples, make_plan, make_trial

RATIO = re.compile("[+\u2212-]?\\d[\\d.,]* ?%|×\\d")
ABSOLUTE = re.compile("\\d[\\d.,]* ?(ns|µs|us|ms|s|min|h|[kMGT]?B/s)\\b")
INTERVAL = re.compile("\\[[^\\]]*,[^\\]]*\\]")
SAID = re.compile(r"(\d[\d.,]*)( %| times) (more|less|the) time")
"""A difference in the headline, whose figure, interval and base are in the tables."""
PLACEMENTS = (Placement(), Placement(nodes=1, ranks_per_node=2))


class Made:
    """A study with its trials and the summary that tare makes of them; `story` says how it was drawn.

    No data class: hypothesis would print every trial.
    """

    def __init__(self, *, plan: Plan, trials: Sequence[Trial], story: str = "") -> None:
        self.plan, self.trials, self.story = plan, trials, story

    def with_trials(self, trials: Sequence[Trial]) -> Made:
        return Made(plan=self.plan, trials=trials, story=self.story)

    def __repr__(self) -> str:
        return f"Made({self.story})"

    @cached_property
    def summary(self) -> Summary:
        return summarise(self.plan, self.trials, {})

    def terminal(self, **options: bool) -> str:
        return render_text(self.summary, width=80, **options)  # type: ignore[arg-type]

    @cached_property
    def page(self) -> str:
        return render_html(self.summary, self.trials, NoSamples()).replace("\u00a0", " ").replace("&#39;", "'")


@st.composite
def results(draw: st.DrawFn, fewest: int = 1) -> Made:
    """Return a result: one to three environments of any cost, of any unit, and whatever can go wrong with each."""
    names = ("docker", "overlay", "podman")[: draw(st.integers(1, 3))]
    fates = {
        name: draw(st.sampled_from(("runs", "runs", "some fail", "all fail", "invalid", "missing"))) for name in names
    }
    factors = {name: draw(st.sampled_from((0.5, 0.97, 1.0, 1.01, 1.3, 4.0, 25.0))) for name in names}
    plan = make_plan(
        *names,
        unavailable={name: f"{name} is not installed" for name in names if fates[name] == "missing"},
        placements=PLACEMENTS[: draw(st.integers(1, 2))],
        workload=replace(MICRO, time_limit_s=30.0),
        limit=draw(st.sampled_from((None, 0.05))),
    )
    shapes = [
        Shape(
            key=f"m{number}:8", label=f"metric {number}", base_s=10.0 ** draw(st.integers(-8, 2)),
            kind=draw(st.sampled_from(tuple(MetricKind))), mean_of_typical=draw(st.sampled_from((1.0, 1.2))),
        )
        for number in range(draw(st.integers(1, 8)))
    ]  # fmt: skip
    spread = draw(st.sampled_from((0.0005, 0.01, 0.2)))
    count, seed = draw(st.integers(fewest, 12)), draw(st.integers(0, 2**16))
    trials = [
        make_trial(cell, r, outcome_of(cell, r, shapes, fates, factors, spread, seed))
        for r in range(count)
        for cell in plan.cells
        if cell.key not in plan.unavailable
    ]
    story = f"{fates}, {factors}, {count} rounds, spread {spread}, seed {seed}, {shapes}"
    return Made(plan=plan, trials=trials, story=story)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A metric: its cost on bare, and how much larger the mean launch is than the typical one."""

    key: str
    label: str
    base_s: float
    kind: MetricKind = MetricKind.COST
    mean_of_typical: float = 1.0

    def metric(self, cost_s: float) -> Metric:
        rate = 1e6 if self.kind is MetricKind.RATE else 0.0
        return Metric(
            key=self.key, label=self.label, kind=self.kind, value=cost_s * self.mean_of_typical, median_s=cost_s,
            p99_s=3 * cost_s, samples=100, message_bytes=8, done_per_sample=rate,
        )  # fmt: skip


def outcome_of(
    cell: Cell, r: int, shapes: Sequence[Shape], fates: Mapping[str, str], factors: Mapping[str, float], spread: float,
    seed: int,
) -> Outcome:  # fmt: skip
    name = cell.environment.name
    fate = fates.get(name, "runs")
    if fate == "all fail" or (fate == "some fail" and r % 3 == 1):
        return Failed(reason="status 1: out of luck", status=1)
    if fate == "invalid":
        return Invalid(reason="ranks share a core")
    draws = random.Random(f"{seed} {cell.key} {r}")
    factor = factors.get(name, 1.0) * (1 + 0.1 * (r % 3))
    return Completed(
        metrics=tuple(one.metric(one.base_s * factor * math.exp(draws.gauss(0, spread))) for one in shapes)
    )


@dataclass(slots=True)
class Table:
    """A table as printed: its name (of a class, a caption or a line), its heads, and the cells of its rows."""

    name: str
    heads: list[str]
    rows: list[list[str]]

    def column(self, number: int) -> dict[str, str]:
        """Return the cells of a column by the first word or words of their rows."""
        return {row[0]: row[number] for row in self.rows if number < len(row)}


class Page(HTMLParser):
    """The tables of a page, with the text of their cells; titles and scripts are left out."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: list[Table] = []
        self._in: list[str] = []
        self._cell: list[str] | None = None
        self.feed(re.sub(r"<(script|style).*?</\1>", "", text, flags=re.DOTALL))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.tables.append(Table(name=dict(attrs).get("class") or "", heads=[], rows=[]))
        elif tag == "tr" and self.tables:
            self.tables[-1].rows.append([])
        elif tag in ("td", "th", "caption") and self.tables:
            self._cell = []

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th", "caption") and self._cell is not None:
            text = " ".join("".join(self._cell).split())
            self._cell = None
            if tag == "caption":
                self.tables[-1].name += f" {text}"
            elif not self.tables[-1].rows[-1:] or tag:
                self.tables[-1].rows[-1].append(text)
        elif tag == "thead":
            self.tables[-1].heads = self.tables[-1].rows.pop()

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.append(data + " ")

    def named(self, part: str) -> list[Table]:
        return [table for table in self.tables if part in table.name]


def tables_of(terminal: str) -> list[Table]:
    """Return the tables of the terminal's report; a row of lines is joined, the rule gives the columns."""
    tables: list[Table] = []
    lines = terminal.splitlines()
    for number, line in enumerate(lines):
        if not re.fullmatch("─+( ─+)+", line.strip()):
            continue
        spans = [(match.start(), match.end()) for match in re.finditer("─+", line)]
        heads = [" ".join(lines[at][a:b].strip() for at in (number - 2, number - 1)).strip() for a, b in spans]
        rows: list[list[str]] = []
        for later in lines[number + 1 :]:
            if not later.strip() or later.startswith("HTML report only"):
                break
            cells = [later[a:b].strip() for a, b in spans]
            if cells[0] and not later.startswith(" ") and (len(cells) < 2 or cells[1]):
                rows.append(cells)
            elif rows:
                rows[-1] = [" ".join(filter(None, pair)) for pair in zip(rows[-1], cells, strict=True)]
        tables.append(Table(name="terminal", heads=heads, rows=rows))
    return tables


def check_headline(summary: Summary) -> None:
    """Hold each difference of the headline to a cell of an environment that it names; it is short and plain."""
    assert len(summary.headline.split()) <= 40, summary.headline
    assert not re.search(r"[\[\]()]", summary.headline), summary.headline
    known = [item for item in summary.comparisons if item.overhead is not None]
    for number, unit, word in SAID.findall(summary.headline):
        said = float(number.replace(",", ""))
        cells = [
            (100 * abs(one.value), 100 * (one.high - one.low)) if unit == " %" else (1 + one.value, one.high - one.low)
            for item in known
            if (one := item.overhead) and word != ("less" if one.value > 0 else "more")
        ]
        assert any(abs(said - value) <= width / 2 + 5e-3 * value for value, width in cells), (summary.headline, cells)
