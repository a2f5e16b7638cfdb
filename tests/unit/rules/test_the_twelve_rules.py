"""No study and no result makes tare break one of the twelve rules (Hoefler and Belli, SC'15; docs/method.md).

Each rule is a check of what is printed, or of what the code computes from random results. A second test takes away the
code that keeps the rule, and the check then fails: so no check is one that cannot fail.

It is one file because a reader looks for a rule by its number, and most rules use the same random results.
"""

from __future__ import annotations

import importlib
import math
import re
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import tare.analysis.stats
import tare.report.cells
import tare.report.html
import tare.report.pages.metrics
import tare.report.plots.overhead as overhead_plots
import tare.report.remarks
import tare.report.terminal
import tare.workloads.plugin
from tare.errors import ResultsError
from tare.model import Comparison, Completed, Failed, LabSpec, MetricKind, RankPlace, Role, Trial, Verdict
from tare.report import units, view
from tare.report.html import figures_of
from tare.report.pages.sizes import link_bytes_per_s
from tare.report.plots.charts import NEUTRAL, Band, Box, Dots, Line, Ranges, Rule
from tare.report.plots.figures import Drawing
from tare.store import codec
from tare.store.writer import Store
from tare.workloads import WORKLOADS, WorkloadPlugin
from tare.workloads.programs import PROGRAMS
from tare.workloads.programs.adapter import ProgramAdapter
from unit.rules.made import ABSOLUTE, INTERVAL, RATIO, Made, Page, Shape, check_headline, results, tables_of
from unit.summaries import NoSamples, change, make_plan, make_trial

headline = importlib.import_module("tare.analysis.summary.headline")
compare = importlib.import_module("tare.analysis.summary.compare")
T = TypeVar("T")
some = settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
COMPARED = (Verdict.COSTS, Verdict.GAINS, Verdict.NO_COST, Verdict.INCONCLUSIVE)
NOT_MEASURED = ("no value", "not estimated", "invalid", "unavailable", "not planned")


def known(
    factors: dict[str, float], *, rounds: int = 10, kind: MetricKind = MetricKind.COST, mean: float = 1.2,
    cost: Callable[[str, int], float] = lambda name, r: 1.0, metrics: int = 1,
) -> Made:  # fmt: skip
    """Return a result of known costs: `cost` multiplies the cost of an environment in a round."""
    plan = make_plan(*factors, limit=0.05)
    shapes = [
        Shape(key=f"m:{8 << number}", label=f"metric {number}", base_s=1e-5, kind=kind, mean_of_typical=mean)
        for number in range(metrics)
    ]
    rng = np.random.default_rng(3)
    trials = []
    for r in range(rounds):
        for cell in plan.cells:
            name = cell.environment.name
            factor = factors.get(name, 1.0) * cost(name, r) * math.exp(rng.normal(0, 0.003))
            made = tuple(replace(one.metric(one.base_s * factor), message_bytes=int(one.key[2:])) for one in shapes)
            trials.append(make_trial(cell, r, Completed(metrics=made)))
    return Made(plan=plan, trials=trials)


COSTLY = {"docker": 1.3, "overlay": 4.0, "podman": 1.0}


def check_bases(made: Made) -> None:
    """Each column with a ratio has the baseline's value in its unit, in the same table."""
    tables = [*Page(made.page).named("first"), *tables_of(made.terminal()), *tables_of(made.terminal(all_metrics=True))]
    assert tables
    for table in tables:
        for number in range(1, len(table.heads)):
            column = table.column(number)
            base = next(text for name, text in column.items() if re.match(r"bare(?! \(A/A\))", name))
            others = [text for text in column.values() if text != base]
            if any(RATIO.search(text) for text in others):
                assert ABSOLUTE.search(base), (table.heads[number], base)


def check_cells(made: Made) -> None:
    """Every planned cell has a row on the page with its outcome, and one that has no figures its reason."""
    page, terminal = Page(made.page), " ".join(made.terminal().split())
    (listed,) = [table for table in page.tables if table.heads[:2] == ["environment", "group"]]
    rows = {(row[0], row[1], row[2]): row for row in listed.rows}
    for cell in made.plan.cells:
        name = "bare (A/A)" if cell.role is Role.SELF else cell.environment.name
        row = rows[name, cell.group, cell.placement.label]
        reason = made.plan.unavailable.get(cell.key)
        if reason is not None:
            assert row[4] == "unavailable"
            assert reason in row[5]
            assert reason in terminal
        assert row[4]
        assert all(name in table.column(0) for table in tables_of(made.terminal()) if table.heads)
    assert len(listed.rows) == len(made.plan.cells)
    for item in made.summary.comparisons:
        if item.verdict in (Verdict.INVALID, Verdict.UNAVAILABLE):
            assert item.reason
            assert item.reason.split(";")[0] in terminal


def check_means(made: Made) -> None:
    """Costs are averaged arithmetically, rates harmonically: the work of all rounds over the time of all rounds."""
    summary = made.summary
    for group in view.groups(summary):
        for column in group.columns:
            for item in column.cells.values():
                if item.absolute_s is None:
                    continue
                costs = np.array(item.values_s)
                amount = column.info.done_per_sample
                shown = column.shown(item.absolute_s.value)
                if column.info.kind is MetricKind.RATE:
                    rates = amount / costs
                    assert shown == pytest.approx(rates.size / np.sum(1 / rates)), "harmonic"
                else:
                    assert shown == pytest.approx(np.mean(costs)), "arithmetic"


def test_rule_3_a_metric_without_a_kind_does_not_exist() -> None:
    from tare.model import Metric, MetricInfo

    with pytest.raises(TypeError, match="kind"):
        Metric(key="a", label="a", value=1.0)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="kind"):
        MetricInfo(key="a", label="a", statistic="", group="")  # type: ignore[call-arg]


def paired_costs(made: Made, item: Comparison) -> tuple[list[float], list[float]]:
    """Return the costs of a cell and of the baseline in the rounds that both have."""
    cells = {(one.group, one.metric, one.environment): one for one in made.summary.comparisons}
    base = cells[item.group, item.metric, "bare"]
    costs, bases = (dict(zip(one.rounds, one.values_s, strict=True)) for one in (item, base))
    common = sorted(costs.keys() & bases.keys())
    return [costs[r] for r in common], [bases[r] for r in common]


def log_ratios(made: Made, item: Comparison) -> list[float]:
    return [math.log(cost / base) for cost, base in zip(*paired_costs(made, item), strict=True)]


def check_no_average_of_ratios(made: Made) -> None:
    """An overhead is the geometric mean of its rounds, and is named so; nothing averages over metrics or rows."""
    for item in made.summary.comparisons:
        if item.overhead is None or item.adjusted_for:
            continue
        assert item.overhead.value == pytest.approx(math.expm1(float(np.mean(log_ratios(made, item)))), abs=1e-9)
        if item.added_s is not None:
            added_s = np.mean(np.subtract(*paired_costs(made, item)))
            assert item.added_s.value == pytest.approx(added_s, rel=1e-6, abs=1e-15)


def test_rule_4_the_page_says_which_mean_each_figure_is() -> None:
    page = known(COSTLY).page
    (table, *_) = Page(page).named("first")
    assert "added time (arithmetic mean over 10 rounds)" in table.name
    assert "overhead (geometric mean)" in table.name
    assert "Overheads are geometric means of paired ratios per round" in page
    assert not re.search(r"average (overhead|ratio)|mean (over|of all) (environments|metrics|workloads)", page)


ALONE = {
    "at most (one-sided)",
    "mean at most (one-sided)",
    "adjusted interval",
    "p (Holm)",
    "rounds",
    "verdict",
    "remarks",
    "environment",
}
"""Columns of a table of values that are bounds, tests or words, and no estimates."""


def check_values(page: Page) -> None:
    """Each value of a metric's page has its interval and its n."""
    for table in page.named("plain figures Typical"):
        for row in table.rows:
            cells = dict(zip(table.heads, row, strict=False))
            for head, text in cells.items():
                if head not in ALONE and re.search(r"\d", text) and len(row) == len(table.heads):
                    assert INTERVAL.search(text), (head, text)
                    assert cells["rounds"].isdigit()


def check_intervals(made: Made) -> None:
    """Each cell with a figure has an interval or a bound; each value of a metric's page its interval and its n."""
    page, terminal = Page(made.page), made.terminal()
    for table in [*page.named("first"), *tables_of(terminal)]:
        for number in range(1, len(table.heads)):
            for name, text in table.column(number).items():
                if re.search(r"\d", text.partition(" ")[2]) and not any(word in text for word in NOT_MEASURED):
                    assert INTERVAL.search(text) or "failed" in text, (name, text)
    check_values(page)
    rounds = made.summary.rounds_done
    assert re.search(rf"n = {rounds} rounds?; intervals 95 %", terminal)
    text = " ".join(terminal.split())
    for item in made.summary.comparisons:
        n = item.overhead.n if item.overhead else rounds
        if n != rounds and item.verdict in COMPARED:
            assert re.search(rf"{item.environment}[^:]*: n = {n}, not {rounds}", text), (item.environment, n)
    check_headline(made.summary)


def check_normality(made: Made) -> None:
    """Where log ratios do not look normal, the reason says so with a rank test; ratios of medians are always there."""
    for item in made.summary.comparisons:
        if item.overhead is None or item.adjusted_for or item.verdict is Verdict.NOISE_FLOOR:
            continue
        assert item.median_ratio is not None, "a ratio of medians with a bootstrap interval assumes no distribution"
        logs = log_ratios(made, item)
        p = tare.analysis.stats.normality_p(logs) if len(logs) >= tare.analysis.stats.MIN_ROUNDS else None
        assert ("do not look normal" in item.reason) == (p is not None and p < 0.01), (p, item.reason)
        if p is not None and p < 0.01:
            assert "rank test: p = " in item.reason


@given(results(fewest=6))
@some
def test_rule_6_normality_is_looked_at_and_a_rank_test_stands_beside_what_is_not_normal(made: Made) -> None:
    check_normality(made)


def check_pairing(made: Made) -> None:
    """A verdict of a cost or gain is an interval of the effect without zero; what a round does to all cancels."""
    for item in made.summary.comparisons:
        if item.verdict in (Verdict.COSTS, Verdict.GAINS):
            assert item.overhead is not None
            assert (item.simultaneous.low > 0) is (item.verdict is Verdict.COSTS)
            assert (item.simultaneous.high < 0) is (item.verdict is Verdict.GAINS)
        if item.p_value is not None:
            assert item.overhead is not None, "no p value without an effect"
    shifted = made.with_trials([slower(trial, 1.0 + 3.0 * ((trial.key.round * 7) % 5)) for trial in made.trials])
    before, after = (
        {(i.group, i.metric, i.environment): i.overhead for i in one.summary.comparisons} for one in (made, shifted)
    )
    for key, effect in before.items():
        other = after[key]
        assert (effect is None) is (other is None)
        if effect is not None and other is not None:
            for name in ("value", "low", "high"):
                assert getattr(other, name) == pytest.approx(getattr(effect, name), rel=1e-6, abs=1e-7), key


def slower(trial: Trial, factor: float) -> Trial:
    """Return a trial whose costs are multiplied, as a machine that is slower in one round does."""
    if not isinstance(trial.outcome, Completed):
        return trial
    metrics = tuple(
        replace(one, value=one.value * factor, median_s=one.median_s * factor, p99_s=one.p99_s * factor)
        for one in trial.outcome.metrics
    )
    return replace(trial, outcome=Completed(metrics=metrics))


def check_distribution(made: Made) -> None:
    """Each metric's page has the 99th percentile, and a column with two modes a warning with both of them."""
    for text in (made.page, " ".join(made.terminal().split())):
        assert "has several modes (dip test over" in text
        assert len(re.findall(r"\d+% of launches at", text)) >= 2
    for table in Page(made.page).named("plain figures Typical"):
        assert "p99" in table.heads
        assert all(INTERVAL.search(text) for text in table.column(table.heads.index("p99")).values())


MANIFEST = ("kernel", "cpu", "cores", "topology", "governor", "sysctls", "networks", "images", "versions", "identity")
IDENTITY = ("kernel", "cpu", "cores", "mpi", "kernels", "image")


def check_manifest(plan: Any, found: dict[str, Any]) -> None:
    """What a study records of its machine has every part, and the order and seed are in the plan."""
    assert [name for name in MANIFEST if name not in found] == []
    assert [name for name in IDENTITY if name not in found["identity"]] == []
    assert isinstance(plan.study.seed, int)


def facts_of() -> tuple[Any, dict[str, Any]]:
    from tare.cli import session
    from tare.run import facts
    from tare.study.feasibility.study_files import make_files
    from unit.runs import known_study

    plan = session.make_plan(known_study())
    return plan, facts.facts(plan, make_files(plan))


def test_rule_9_a_study_records_its_machine_its_software_and_its_seed() -> None:
    check_manifest(*facts_of())


def test_rule_9_a_trial_keeps_its_order_its_binding_its_network_and_its_libraries() -> None:
    place = RankPlace(
        rank=0, host="b/n0", hostname="n0", pid=3, cpus=(0, 1), rights={"limits": "cpus=2"}, libraries=("libucp.so.0",)
    )
    plan = make_plan("docker")
    trial = replace(
        make_trial(plan.cells[0], 0, Completed(metrics=())), position=3, ranks=(place,), argv=("mpirun", "app"),
        facts={"mtu": "1450", "tso": "off"}, mpi_library="Open MPI 4.1.4",
    )  # fmt: skip
    kept = codec.decode(Trial, codec.encode(trial))
    assert kept == trial


@pytest.mark.parametrize("name", IDENTITY)
def test_rule_9_results_of_another_machine_are_not_mixed_silently(tmp_path: Path, name: str) -> None:
    plan = make_plan("docker")
    identity: dict[str, Any] = dict.fromkeys(IDENTITY, "one")
    Store.create_or_open(tmp_path, plan, {"identity": identity}).close()
    Store.create_or_open(tmp_path, plan, {"identity": dict(identity)}).close()
    with pytest.raises(ResultsError, match=name):
        Store.create_or_open(tmp_path, plan, {"identity": {**identity, name: "other"}})


DECLARED = ("timer", "synchronisation", "reduction")


@pytest.mark.parametrize("name", [*WORKLOADS, *PROGRAMS])
def test_rule_10_every_workload_declares_timer_synchronisation_and_reduction(name: str) -> None:
    member = WORKLOADS.get(name) or PROGRAMS[name]
    for declaration in DECLARED:
        assert getattr(member, declaration).strip()


@pytest.mark.parametrize("base", [WorkloadPlugin, ProgramAdapter])
@pytest.mark.parametrize("missing", DECLARED)
def test_rule_10_one_that_does_not_declare_them_does_not_load(base: type, missing: str) -> None:
    declared = dict.fromkeys(DECLARED, "the program's own")
    type("Whole", (base,), declared)
    with pytest.raises(TypeError, match=f"Lacking does not declare {missing}"):
        type("Lacking", (base,), {name: text for name, text in declared.items() if name != missing})
    with pytest.raises(TypeError, match=f"Empty does not declare {missing}"):
        type("Empty", (base,), {**declared, missing: ""})


def drawings(made: Made, link_bps: int = 0) -> list[Drawing]:
    """Return every figure of a report that needs no samples, with its chart, which the page has as SVG only."""
    summary = made.summary
    if link_bps:
        linked = tuple(replace(one, link=replace(one.link, rate_bps=link_bps)) for one in summary.environments)
        summary = replace(summary, environments=linked)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Drawing, "drawn", lambda self: self)
        return [figure for _, figure in figures_of(summary, made.trials, NoSamples())]


def marks_of(figure: Drawing, kind: type[T]) -> list[T]:
    return [mark for mark in figure.chart.marks if isinstance(mark, kind)]


def check_bounds(made: Made) -> None:
    """Overheads are drawn against the baseline, the margin, the limit and the noise floor."""
    forests = [figure for figure in drawings(made) if figure.ident.startswith("forest")]
    assert forests
    summary = made.summary
    for figure in forests:
        assert figure.chart is not None
        rules = sorted(round(rule.at, 6) for rule in marks_of(figure, Rule) if rule.upright)
        wanted = [-summary.margin, 0.0, summary.margin, *([summary.limit] if summary.limit else [])]
        shown = [1 + value if figure.chart.x.log else 100 * value for value in wanted]
        assert rules == sorted(round(value, 6) for value in shown)
        assert marks_of(figure, Band), "the noise floor"


def check_link(made: Made) -> None:
    """Each plot of bandwidths has the rate of the link: 8 Gbit/s are 1 GB/s."""
    plots = drawings(made, link_bps=8_000_000_000)
    rates = [one for one in plots if one.ident.startswith("sizes") and "overhead" not in one.ident]
    assert rates
    for figure in rates:
        assert [line for line in marks_of(figure, Line) if line.dash == "dot" and line.colour == NEUTRAL]
        assert "rate of the link, 1.00 GB/s" in figure.caption


def test_rule_11_the_link_of_a_lab_bounds_every_environment() -> None:
    made = known(COSTLY, kind=MetricKind.RATE, metrics=2)
    study = replace(made.plan.study, lab=LabSpec(link_rate_bps=8_000_000_000))
    summary = Made(plan=replace(made.plan, study=study), trials=made.trials).summary
    assert link_bytes_per_s(made.summary) == 0
    assert link_bytes_per_s(summary) == 1e9


def check_lines(made: Made) -> None:
    """A line is drawn along numbers in ascending order only, and never from one environment to another."""
    figures = drawings(made)
    assert figures
    for figure in figures:
        lines, dots, ranges = (marks_of(figure, kind) for kind in (Line, Dots, Ranges))
        if figure.ident.startswith(("forest", "launches")):
            assert lines == [], f"the rows of {figure.ident} are environments, which have no order"
        if figure.ident.startswith("launches"):
            assert len(marks_of(figure, Box)) == len(dots), "every launch is a point of its box"
        for line in lines:
            assert list(line.x) == sorted(line.x)
        if figure.ident.startswith("sizes"):
            sizes = [tuple(one.x) for one in dots]
            assert all(len(set(one)) == len(one) for one in sizes), "one point for each size: one environment a line"
        if figure.ident.startswith(("forest", "sizes")):
            for one in dots:
                at = list(one.y if figure.ident.startswith("forest") else one.x)
                assert any(list(bars.at) == at and bars.colour == one.colour for bars in ranges), "its interval"


@given(results())
@some
def test_rule_1_rule_2_and_rule_5_hold_for_what_is_printed_of_any_result(made: Made) -> None:
    for check in (check_bases, check_cells, check_intervals):
        check(made)


@given(results(fewest=2))
@some
def test_rule_3_rule_4_rule_7_and_rule_12_hold_for_what_is_computed_and_drawn_of_any_result(made: Made) -> None:
    for check in (check_means, check_no_average_of_ratios, check_pairing, check_lines):
        check(made)


def costly(**options: Any) -> Made:
    return known(COSTLY, metrics=2, **options)


def some_missing() -> Made:
    """Return a result without the overlay, which is not installed."""
    plan = make_plan("docker", "overlay", unavailable={"overlay": "overlay is not installed"})
    outcome = Completed(metrics=(Shape(key="m0:8", label="metric 0", base_s=1e-5).metric(1e-5),))
    cells = [cell for cell in plan.cells if cell.key not in plan.unavailable]
    return Made(plan=plan, trials=[make_trial(cell, r, outcome) for r in range(6) for cell in cells])


def one_failed() -> Made:
    made = costly()
    return made.with_trials(change(made.trials, "overlay", lambda r: Failed(reason="status 1") if r == 4 else None))


def two_modes() -> Made:
    slow = lambda name, r: (1.0, 1.8)[zlib.crc32(f"{name} {r}".encode()) % 2]  # noqa: E731
    return known({"docker": 1.0, "podman": 1.0}, rounds=20, cost=slow)


def not_normal() -> Made:
    return known(COSTLY, cost=lambda name, r: 30.0 if (name, r) == ("docker", 7) else 1.0)


def varying(kind: MetricKind = MetricKind.COST) -> Made:
    return known(COSTLY, kind=kind, cost=lambda name, r: 1.0 + r)


def paired_by_two() -> Made:
    return known(COSTLY, cost=lambda name, r: (2.0, 0.5)[r % 2] if name == "docker" else 1.0)


def rates(metrics: int = 2) -> Made:
    return known(COSTLY, kind=MetricKind.RATE, metrics=metrics)


def returning(**fields: str) -> Callable[..., Any]:
    """Return what has a function return its value with other fields."""
    return lambda whole: lambda *a, **k: replace(whole(*a, **k), **fields)


def without_overlay(whole: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *a: tuple(one for one in whole(*a) if "overlay" not in str(one))


def harmonic(whole: Callable[..., Any]) -> Callable[..., Any]:
    return lambda values, *rest: replace(whole(values, *rest), value=1 / float(np.mean(1 / np.asarray(values))))


def shifted(whole: Callable[..., Any]) -> Callable[..., Any]:
    return lambda d, confidence: (logs := whole(d, confidence)) and replace(logs, value=logs.value + 0.25)


def unpaired(whole: Callable[..., Any]) -> Callable[..., Any]:
    return lambda one, base: whole(one, dict(zip(base, [*base.values()][::-1], strict=True)))


def always(value: Any) -> Callable[..., Any]:
    return lambda whole: lambda *a, **k: value


def connected(whole: Callable[..., Any]) -> Callable[..., Any]:
    """Draw a line from one environment to another."""
    line = lambda mark: [Line(x=mark.x, y=mark.y, colour=mark.colour)] if isinstance(mark, Dots) else []  # noqa: E731
    return lambda *a: [one for mark in whole(*a) for one in [*line(mark), mark]]


def without_ranges(whole: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *a: [mark for mark in whole(*a) if not isinstance(mark, Ranges)]


METRICS = tare.report.pages.metrics
TAKEN_AWAY = [
    (check_bases, costly, tare.report.cells, "_baseline_cell",
     returning(lead="baseline", lead_bounds="", second="")),
    (check_cells, some_missing, tare.report.html, "cell_rows", without_overlay),
    (check_cells, some_missing, tare.report.remarks, "notes", without_overlay),
    (check_means, varying, tare.analysis.stats, "mean_cost", harmonic),
    (check_means, lambda: varying(MetricKind.RATE), tare.analysis.stats, "mean_cost", harmonic),
    (check_no_average_of_ratios, paired_by_two, tare.analysis.stats, "paired_t", shifted),
    (check_intervals, one_failed, units, "overhead_interval", returning(bounds="")),
    (check_intervals, one_failed, tare.report.remarks, "_fewer_rounds", always(())),
    (check_intervals, one_failed, headline, "_figure", always("16 % more time")),
    (check_intervals, one_failed, METRICS, "_p99", lambda whole: lambda cell: units.seconds(cell.p99_s)),
    (check_normality, not_normal, compare, "_normality_note", always("")),
    (check_pairing, lambda: known(COSTLY), tare.analysis.stats, "pair_rounds", unpaired),
    (check_distribution, two_modes, tare.report.remarks, "_modes", always("")),
    (check_distribution, two_modes, METRICS, "_p99", always("")),
    (check_bounds, lambda: known(COSTLY), overhead_plots, "_bounds", always([])),
    (check_bounds, lambda: known({"docker": 1.1}), overhead_plots, "_bounds", always([])),
    (check_link, rates, tare.report.pages.sizes, "link_bytes_per_s", always(0.0)),
    (check_lines, lambda: known(COSTLY), overhead_plots, "_intervals", connected),
    (check_lines, lambda: known(COSTLY), overhead_plots, "_intervals", without_ranges),
]  # fmt: skip


@pytest.mark.parametrize(("check", "make", "module", "name", "other"), TAKEN_AWAY)
def test_a_check_passes_and_fails_without_the_code_that_keeps_its_rule(
    monkeypatch: pytest.MonkeyPatch, check: Callable[[Made], None], make: Callable[[], Made], module: Any, name: str,
    other: Callable[..., Any],
) -> None:  # fmt: skip
    check(make())
    monkeypatch.setattr(module, name, other(getattr(module, name)))
    with pytest.raises((AssertionError, KeyError)):
        check(make())


def test_rule_8_and_rule_12_hold_where_there_are_two_modes_and_several_message_sizes() -> None:
    check_distribution(two_modes())
    for kind in MetricKind:
        made = known(COSTLY, kind=kind, metrics=4)
        assert [one for one in drawings(made) if one.ident.startswith("sizes")]
        check_lines(made)


def test_the_page_of_the_method_lists_the_twelve_rules_that_have_a_test() -> None:
    root = Path(__file__).parents[3]
    text = (root / "docs/method.md").read_text().partition("## The twelve rules")[2].partition("\n## ")[0]
    names = re.findall(r"^def (test_rule_\w+)", Path(__file__).read_text(), re.MULTILINE)
    tests = {number for name in names for number in re.findall(r"rule_(\d+)_", name)}
    assert re.findall(r"^\| (\d+) \|", text, re.MULTILINE) == [str(number) for number in range(1, 13)]
    assert tests == {str(number) for number in range(1, 13)}
