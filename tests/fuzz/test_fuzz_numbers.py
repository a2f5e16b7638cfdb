"""Whatever launches cost, no report shows a number that cannot be: read from what is printed, in every format.

Results of 2 to 40 rounds are made up (heavy tails, modes, a machine under load, differences of zero and below, a mean
that differs from itself, launches that fail), and the terminal, HTML, Markdown, CSV and JSON are read back.
"""

from __future__ import annotations

import csv as csv_reader
import io
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from fuzz.fuzzing import fuzz
from tare.analysis.stats import MIN_ROUNDS, SELF_ALPHA, share_of_look
from tare.model import Completed, Failed, Metric, MetricKind, Outcome, Repetition, Trial
from tare.report import render_html, render_text
from tare.report.export import csv, junit, markdown, openmetrics
from tare.report.export import json as json_format
from tare.report.frames import TABLES, Source
from tare.store.results import Results
from unit.rules.made import Page, check_headline, tables_of
from unit.summaries import BARE, MICRO, SELF, NoSamples, make_plan, make_trial

USUAL_BUDGET_S = 20.0
HUNDREDFOLD = 100 * (1 + 1e-6)
NAMES = ("docker", "overlay", "podman")

# --- results that are made up ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Costs:
    """What the launches of an environment cost: a factor, and what varies between them."""

    factor: float = 1.0
    spread: float = 0.02
    tail: float = 0.0
    """The share of launches that take `tail_factor` times as long."""
    tail_factor: float = 1.0
    mean_factor: float = 1.0
    mean_spread: float = 0.0
    fails: float = 0.0


@dataclass(frozen=True)
class World:
    """A study: its rounds, the costs of environments and of A/A, and the state of the machine."""

    rounds: int
    seed: int
    base_s: float
    kind: MetricKind
    costs: Mapping[str, Costs]
    drift: float
    """The spread of what a round does to all its launches."""
    distance_spread: float | None
    """The spread of the vCPUs' distance within a block; None if it is unknown."""
    distance_effect: float
    looked: bool
    limit: float | None


def costs_strategy(*, is_self: bool = False) -> st.SearchStrategy[Costs]:
    factors = (1.0,) if is_self else (1.0, 1.0, 0.999, 1.02, 1.15, 0.9, 0.3, 2.5, 30.0, 1e-3)
    return st.builds(
        Costs,
        factor=st.sampled_from(factors),
        spread=st.sampled_from((0.0, 0.003, 0.02, 0.02, 0.1, 0.5, 1.5)),
        tail=st.sampled_from((0.0, 0.0, 0.05, 0.3, 0.5)),
        tail_factor=st.sampled_from((1.5, 10.0, 0.3, 1000.0)),
        mean_factor=st.sampled_from((1.0, 1.0, 1.03, 0.6, 1.8)),
        mean_spread=st.sampled_from((0.0, 0.05, 0.4, 2.0)),
        fails=st.sampled_from((0.0, 0.0, 0.2, 0.7, 1.0)),
    )


@st.composite
def worlds(draw: st.DrawFn) -> World:
    names = NAMES[: draw(st.integers(1, 3))]
    base = draw(costs_strategy(is_self=True))
    same = replace(base, fails=0.0)
    return World(
        rounds=draw(st.integers(2, 12) | st.integers(2, 40)),
        seed=draw(st.integers(0, 1 << 20)),
        base_s=10.0 ** draw(st.integers(-8, 2)),
        kind=draw(st.sampled_from(tuple(MetricKind)[:2])),
        costs={
            BARE: replace(base, fails=draw(st.sampled_from((0.0, 0.0, 0.2)))),
            SELF: draw(st.just(same) | costs_strategy(is_self=True)),
            **{name: draw(costs_strategy() | st.just(same)) for name in names},
        },
        drift=draw(st.sampled_from((0.0, 0.05, 0.8))),
        distance_spread=draw(st.sampled_from((None, 0.051, 0.1, 0.8))),
        distance_effect=draw(st.sampled_from((0.0, 0.3, 1.0))),
        looked=draw(st.booleans() | st.just(True)),
        limit=draw(st.sampled_from((None, 0.05))),
    )


class Printed:
    """A world's study as it is printed, and the values behind it."""

    def __init__(self, world: World) -> None:
        self.looked = world.looked
        rounds = world.rounds if world.looked else 2 * world.rounds
        names = [name for name in world.costs if name not in (BARE, SELF)]
        self.plan = make_plan(
            *names, workload=replace(MICRO, time_limit_s=30.0), limit=world.limit,
            repetition=Repetition(rounds=rounds, max_rounds=rounds),
        )  # fmt: skip
        self.trials = list(launches(world, self.plan.cells))
        results = SimpleNamespace(
            plan=self.plan, trials=self.trials, facts={}, looks=(), caveats=(), damaged=(), path=Path("results")
        )
        self.source = Source(cast("Results", results))

    @cached_property
    def terminal(self) -> str:
        return render_text(self.source.summary, all_metrics=True)

    @cached_property
    def page(self) -> str:
        text = render_html(self.source.summary, self.trials, NoSamples())
        return text.replace("\u00a0", " ").replace("&#39;", "'")

    @cached_property
    def markdown(self) -> str:
        text = re.sub(r"<!--.*?-->", "", markdown.text(self.source)).replace("\\", "")
        return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")

    @cached_property
    def rows(self) -> list[dict[str, str]]:
        file, table = io.BytesIO(), TABLES["comparisons"]
        csv.write_rows(file, table.columns, table.rows(self.source))
        return list(csv_reader.DictReader(io.StringIO(file.getvalue().decode())))

    @cached_property
    def document(self) -> dict[str, Any]:
        return cast("dict[str, Any]", json.loads(json_format.text(self.source)))


def launches(world: World, cells: Sequence[Any]) -> Iterator[Trial]:
    rng = np.random.default_rng(world.seed)
    for r in range(world.rounds):
        shared = rng.normal(0.0, world.drift)
        for cell in cells:
            costs = world.costs[cell.environment.name]
            log = shared + math.log(costs.factor) + rng.normal(0.0, costs.spread)
            log += math.log(costs.tail_factor) * (rng.random() < costs.tail)
            noise = {}
            if world.distance_spread is not None:
                away = rng.normal(0.0, world.distance_spread)
                log += world.distance_effect * away
                noise = {"core_hand_over_s": 40e-9 * math.exp(away)}
            of_mean = costs.mean_factor * math.exp(rng.normal(0.0, costs.mean_spread))
            outcome: Outcome = Completed(metrics=metrics(world, math.exp(log), of_mean))
            if rng.random() < costs.fails:
                outcome = Failed(reason="it ended with status 9", status=9)
            yield replace(make_trial(cell, r, outcome), noise=noise)


def metrics(world: World, factor: float, of_mean: float) -> tuple[Metric, ...]:
    """Return a metric that varies, and one of the other kind that varies less and has back-to-back operations."""
    cost_s = world.base_s * factor
    one = Metric(
        key="m0:8", label="metric 0", kind=world.kind, value=cost_s * of_mean, median_s=cost_s, p99_s=3 * cost_s,
        samples=100, message_bytes=8, done_per_sample=1e6 if world.kind is MetricKind.RATE else 0.0,
    )  # fmt: skip
    other_s = world.base_s * factor**0.2
    other = replace(
        one, key="m1:8", label="metric 1", kind=MetricKind.COST, done_per_sample=0.0, value=1.2 * other_s,
        median_s=other_s, loop_s=0.9 * other_s,
    )  # fmt: skip
    return one, other


# --- readers --------------------------------------------------------------------------------------------------------

NUMBER = r"[+\-−]?(?:\d[\d,]*(?:\.\d+)?|∞|n/a|nan|inf)"
READING = re.compile(
    rf"(?P<times>×)?(?P<value>{NUMBER}) ?(?P<unit>%|[nµm]?s|[kMGT]?B/s)? \[(?P<low>{NUMBER}), ?(?P<high>{NUMBER})\]"
)
CANNOT_BE = re.compile(r"∞|\bn/a\b|\bnan\b|\binf\b|[+−\-]?inf\b|e[+-]\d\d")


@dataclass(frozen=True)
class Reading:
    """A value with its interval, as a reader takes it from a text."""

    value: float
    low: float
    high: float
    unit: str
    signed: bool
    half: float
    """Half a unit of the last digit of the value: what rounding hides."""
    high_text: str

    @property
    def is_share(self) -> bool:
        return self.unit in ("%", "×")


def number_of(text: str) -> float:
    return float(text.replace(",", "").replace("−", "-"))


def half_of(text: str) -> float:
    digits = text.replace(",", "").lstrip("+-−")
    places = len(digits.partition(".")[2])
    whole = len(digits.partition(".")[0])
    return 0.5 * 10.0 ** (-places if places or whole <= 3 else 0) * (1 + 1e-6)


def readings(text: str) -> list[Reading]:
    return [
        Reading(
            value=number_of(found["value"]), low=number_of(found["low"]), high=number_of(found["high"]),
            unit="×" if found["times"] else found["unit"] or "", signed=found["value"][0] in "+−-",
            half=half_of(found["value"]), high_text=found["high"],
        )
        for found in READING.finditer(text)
    ]  # fmt: skip


def check_cell(row: str, text: str, where: str) -> None:
    """Hold one cell of a table against what numbers can be."""
    told = f"{where}: {row}: {text}"
    assert not CANNOT_BE.search(text), told
    found = readings(text)
    for one in found:
        assert one.low <= one.value + one.half, told
        assert one.value <= one.high + one.half, told
        if one.unit == "%":
            assert min(one.low, one.value) > -100, told
        elif one.unit == "×" or row == BARE or one.unit.endswith("B/s"):
            assert min(one.low, one.value) > 0, told
    at_most = re.findall(r"at most (\S+)", text)
    assert not any(bound.startswith(("−", "-")) for bound in (*at_most, *re.findall(r"≤ ?(\S+)", text))), told
    typical = [one for one in readings(re.sub(r"(?:mean|loop).*", "", text)) if one.is_share]
    for bound in at_most:
        assert [one.high_text.lstrip("+") for one in typical] == [bound.lstrip("+×")], told
    assert not ("≤" in text and typical), told


def check_finite(printed: Printed) -> None:
    for text in (printed.terminal, printed.page, printed.markdown, junit.text(printed.source)):
        assert "∞" not in text
        assert "n/a" not in text
    assert not re.search(r" (?:NaN|[+-]Inf)$", openmetrics.text(printed.source), re.MULTILINE)


def check_tables(printed: Printed) -> None:
    page = Page(printed.page)
    for table in (*tables_of(printed.terminal), *page.named("first")):
        for number in range(1, len(table.heads)):
            if table.heads[number].startswith("metric"):
                for row, text in table.column(number).items():
                    check_cell(row.removesuffix(" partly proven").removesuffix(" not proven"), text, table.name)
    for line in printed.markdown.splitlines():
        if line.startswith("| ") and not line.startswith(("| environment", "| ---")):
            row, *cells = (cell.strip() for cell in line.strip("|").split(" | "))
            for cell in cells:
                check_cell(row.strip(), cell.replace("<br>", " "), "markdown")
    for table in page.named("plain figures Typical"):
        for row in table.rows:
            for head, text in zip(table.heads, row, strict=False):
                assert head == "remarks" or not CANNOT_BE.search(text), (head, text)
                for one in readings(text):
                    assert one.low - one.half <= one.value <= one.high + one.half, (head, text)
                    assert head == "added" or one.unit == "%" or one.low > 0, (head, text)
                    assert one.unit != "%" or one.low > -100, (head, text)


# --- what is stored in tables ---------------------------------------------------------------------------------------

COSTS = ("cost_s", "base_cost_s", "rate", "base_rate", "mean_cost_s", "base_mean_cost_s", "loop_s", "base_loop_s")
OVERHEADS = ("overhead", "adjusted_overhead", "mean_overhead")


def triple(row: Mapping[str, Any], name: str) -> tuple[float, float, float] | None:
    """Return value and interval of a figure; None if it is not estimated."""
    stem, unit = (name.removesuffix("_s"), "_s") if name.endswith("_s") else (name, "")
    parts = [row[name], row[f"{stem}_low{unit}"], row[f"{stem}_high{unit}"]]
    if parts[0] in ("", None):
        assert set(parts) <= {"", None}, (name, parts)
        return None
    value, low, high = (float(part) for part in parts)
    assert all(map(math.isfinite, (value, low, high))), (name, parts)
    assert low <= value <= high, (name, parts)
    return value, low, high


def check_row(row: Mapping[str, Any]) -> None:
    for name in COSTS:
        if found := triple(row, name):
            value, low, high = found
            assert low > 0, (name, found)
            assert high / HUNDREDFOLD <= value <= HUNDREDFOLD * low, (name, found)
    for name in OVERHEADS:
        if found := triple(row, name):
            value, low, high = found
            assert low > -1, (name, found)
            assert 1 + high <= HUNDREDFOLD * (1 + value), (name, found)
    added, base = triple(row, "added_s"), triple(row, "base_cost_s")
    if added and base and row["added_n"] == row["base_cost_n"]:
        assert added[1] > -base[0] * (1 + 1e-6), (added, base)
    for name in ("at_most", "mean_at_most"):
        assert row[name] in ("", None) or 0 <= float(row[name]) < math.inf, (name, row[name])


def check_data(printed: Printed) -> None:
    for rows in (printed.rows, printed.document["comparisons"]):
        assert rows
        for row in rows:
            check_row(row)
    assert "Infinity" not in json.dumps(printed.document["summary"])


# --- headline, covariates, A/A --------------------------------------------------------------------------------------


def check_covariates(printed: Printed) -> None:
    effects = printed.document["summary"]["state_effects"]
    for effect in effects:
        low, high = effect["effect"]["low"], effect["effect"]["high"]
        assert not low <= 0 <= high, effect
        assert 0 < 1 + high <= 4 * (1 + low) * (1 + 1e-6), effect
    known = {(effect["group"], effect["metric"], effect["state"]) for effect in effects}
    for item in printed.document["summary"]["comparisons"]:
        assert all((item["group"], item["metric"], state) in known for state in item["adjusted_for"]), item


def check_self(printed: Printed) -> None:
    """A/A whose mean differs, by a t test of its own, is said first, and its column has no verdict on means."""
    items = printed.document["summary"]["comparisons"]
    metrics_of = dict.fromkeys(item["metric"] for item in items)
    first = printed.terminal[: printed.terminal.index("In this emulated lab")].replace("\n", " ")
    for key in metrics_of:
        cells = {item["environment"]: item for item in items if item["metric"] == key}
        own, base = cells[SELF], cells[BARE]
        logs = log_ratios(own, base)
        if own["mean"] is None or len(logs) < MIN_ROUNDS or np.std(logs) < 1e-9:
            continue
        p = float(scipy_stats.ttest_1samp(logs, 0.0).pvalue)
        label = key.replace("m", "metric ").partition(":")[0]
        level = SELF_ALPHA * share_of_look(0 if printed.looked else 1)
        if p < 0.9 * level / len(metrics_of):
            assert re.search(rf"differs from itself on [^!]*{label}", " ".join(first.split())), (p, label, first)
            for name, cell in cells.items():
                assert cell["mean"] is None or cell["mean"]["significant"] is (name == SELF) or differs(own), cell
                assert not cell["over_limit"], cell
        assert own["mean"]["significant"] is False or "differs from itself" in first, own


def differs(own: Mapping[str, Any]) -> bool:
    return "the baseline differs from itself" in own["reason"]


def log_ratios(own: Mapping[str, Any], base: Mapping[str, Any]) -> list[float]:
    costs, bases = (dict(zip(item["rounds"], item["means_s"], strict=True)) for item in (own, base))
    return [math.log(costs[r] / bases[r]) for r in sorted(costs.keys() & bases.keys())]


def check_reasons(printed: Printed) -> None:
    """The terminal says why a cell is undecided whose interval excludes zero."""
    text = " ".join(printed.terminal.split())
    for row in printed.rows:
        found = triple(row, "overhead")
        if row["verdict"] == "inconclusive" and found and not found[1] <= 0 <= found[2]:
            assert row["reason"], row
            assert " ".join(row["reason"].split()) in text, row["reason"]


def check(world: World) -> None:
    printed = Printed(world)
    check_data(printed)
    check_finite(printed)
    check_tables(printed)
    check_headline(printed.source.summary)
    check_covariates(printed)
    check_self(printed)
    check_reasons(printed)


def test_no_report_shows_a_number_that_cannot_be() -> None:
    fuzz(worlds(), check, budget_s=float(os.environ.get("TARE_FUZZ_SECONDS") or USUAL_BUDGET_S))
