"""What is not a cost of an environment is told apart: disturbance by others, gaps in the proof, the daemon's part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tare.agent.geometry import on_daemon_nodes
from tare.agent.probe import probe
from tare.analysis.summary import summarise
from tare.analysis.summary.allocations import KEY, allocation_caveats, node_hours, rounds_of
from tare.analysis.summary.daemon import KIND, daemon_findings
from tare.analysis.summary.disturbance import is_disturbed, repeats_left, share, wants_repeat
from tare.errors import StudyError
from tare.images import DEFAULT
from tare.model import (
    Comparison,
    Completed,
    Environment,
    Estimate,
    Interrupted,
    Invalid,
    LabSpec,
    MetricInfo,
    MetricKind,
    Placement,
    Plan,
    ProofGap,
    Study,
    Summary,
    Trial,
    TrialKey,
    Verdict,
)
from tare.model import Workload as Work
from tare.report.html import render_html
from tare.report.terminal import render_text
from tare.run.proof import LOWER_BOUND_ONLY
from tare.run.site import needs
from tare.runtimes import RUNTIMES
from tare.study import environment, parse
from tare.study.plan import cells
from tare.study.plan.cells import expand
from tare.study.plan.composition import refuse
from unit.store_blocks import ledger_of
from unit.study_texts import WORK
from unit.summaries import NoSamples, change, make_plan, make_trials, scaled


def trial(elapsed_s: float = 2.0, **noise: float) -> Trial:
    key = TrialKey(cell="c", round=0, block=0, attempt=0)
    outcome = Completed(metrics=())
    return Trial(key=key, position=0, started_unix_s=0.0, elapsed_s=elapsed_s, outcome=outcome, noise=noise)


def test_the_share_is_that_of_others_in_all_cores_and_unknown_before_a_start() -> None:
    one = trial(cores=4.0, job_s=3.0, background_s=0.5, steal_s=0.3, softirq_s=9.0)
    assert share(one) == pytest.approx(0.1)
    assert not is_disturbed(one)
    assert is_disturbed(trial(cores=4.0, job_s=3.0, background_s=1.0, steal_s=0.3))
    assert share(trial(elapsed_s=0.0, cores=2.0, job_s=1.0, background_s=1.0)) is None


@pytest.mark.parametrize(
    "noise", [{}, {"background_s": 9.0, "job_s": 1.0}, {"cores": 2.0, "background_s": 9.0, "job_s": 0.0}]
)
def test_an_unknown_state_is_no_disturbance(noise: dict[str, float]) -> None:
    assert share(trial(**noise)) is None
    assert not is_disturbed(trial(**noise))


@pytest.mark.parametrize(("elapsed_s", "wanted"), [(0.1, True), (2.0, True), (2.1, False)])
def test_only_a_short_launch_is_worth_a_repeat(elapsed_s: float, wanted: bool) -> None:
    assert wants_repeat(trial(elapsed_s, cores=1.0, job_s=1.0, background_s=elapsed_s)) == wanted
    assert wants_repeat(trial(elapsed_s, cores_elsewhere=0.5)) == wanted


@pytest.mark.parametrize(
    ("elsewhere", "wanted"), [(0.0, False), (0.19, False), (0.2, True), (0.8, True), (0.81, False)]
)
def test_vcpus_that_were_at_one_place_throughout_call_for_no_repeat(elsewhere: float, wanted: bool) -> None:
    assert wants_repeat(trial(0.5, core_hand_over_s=152e-9, cores_elsewhere=elsewhere, core_counting_s=2e-6)) == wanted


@pytest.mark.parametrize(
    ("launches", "repeats", "planned", "left"),
    [(0, 0, 40, 0), (1, 0, 40, 1), (4, 1, 40, 0), (5, 1, 40, 1), (12, 0, 40, 3), (40, 3, 40, 7), (99, 0, 40, 10),
     (99, 12, 40, 0), (3, 0, 3, 0)],
)  # fmt: skip
def test_repeats_are_at_most_a_quarter_of_the_launches_so_far_and_of_the_planned_ones(
    launches: int, repeats: int, planned: int, left: int
) -> None:
    one = trial()
    made = [replace(one, key=replace(one.key, round=i)) for i in range(launches)]
    again = [replace(one, key=replace(one.key, round=i, repeat=1)) for i in range(repeats)]
    broken = [replace(one, outcome=Interrupted())] * 9
    ledger = ledger_of([*made, *again, *broken])
    assert repeats_left(ledger.launches, ledger.repeated, planned) == left


UNPROVEN = "treatment not proven: the counters of <data0> of n0 cannot be read (permission denied)"
PLAN = make_plan("overlay", "fast")
Statements = Callable[[Trial], dict[str, str]]


def stated(statements: Statements, plan: Plan = PLAN) -> list[Trial]:
    return [replace(trial, **statements(trial)) for trial in make_trials(plan)]  # type: ignore[arg-type]


def overlay_unproven(trial: Trial) -> dict[str, str]:
    if trial.key.cell.endswith("/overlay"):
        return {"unproven": UNPROVEN}
    return {"partly_proven": LOWER_BOUND_ONLY} if trial.key.cell.endswith("/fast") and trial.key.round < 4 else {}


TRIALS = stated(overlay_unproven)


@pytest.fixture(scope="module")
def summary() -> Summary:
    return summarise(PLAN, TRIALS, {})


def test_statements_are_counted_by_cell_and_change_no_verdict(summary: Summary) -> None:
    (group,) = {cell.group for cell in PLAN.cells}
    assert summary.proof_gaps == (
        ProofGap(group=group, environment="overlay", text=UNPROVEN, partly=False, launches=10, of=10),
        ProofGap(group=group, environment="fast", text=LOWER_BOUND_ONLY, partly=True, launches=4, of=10),
    )
    plain = summarise(PLAN, make_trials(PLAN), {})
    assert summary.comparisons == plain.comparisons
    assert (summary.exit_code, summary.headline) == (plain.exit_code, plain.headline)
    assert plain.proof_gaps == ()
    invalid = change(TRIALS, "overlay", lambda r: Invalid(reason="another network") if r < 3 else None)
    (gap, _) = summarise(PLAN, invalid, {}).proof_gaps
    assert (gap.launches, gap.of) == (7, 7)

    def sent(trial: Trial) -> dict[str, str]:
        node = "n0" if trial.key.round < 7 else "n1"
        text = f"treatment not proven: lo of {node} carried {72769040 + trial.key.round} bytes"
        return {"unproven": text} if trial.key.cell.endswith("/overlay") else {}

    gaps = summarise(PLAN, stated(sent), {}).proof_gaps
    assert [(gap.text.rsplit(" ", 2)[0], gap.launches) for gap in gaps] == [
        ("treatment not proven: lo of n0 carried", 7),
        ("treatment not proven: lo of n1 carried", 3),
    ]


@pytest.mark.parametrize("ascii_only", [True, False])
def test_the_terminal_shows_it_below_the_name_and_the_statement_below_the_table(
    summary: Summary, ascii_only: bool
) -> None:
    text = render_text(summary, width=120, ascii_only=ascii_only)
    lines = text.splitlines()
    (row,) = [number for number, line in enumerate(lines) if line.startswith("overlay ")]
    assert lines[row + 1].startswith("not proven")
    assert any(line.startswith("partly proven") for line in lines)
    assert f"! overlay: {UNPROVEN}" in text
    assert f"! fast: {LOWER_BOUND_ONLY} (in 4 of 10" in text


def test_the_page_shows_it_in_the_row_below_the_table_and_with_the_cell(summary: Summary) -> None:
    page = render_html(summary, TRIALS, NoSamples())
    row = page[page.index('data-environment="2" data-verdict="costs') :]
    name = row[row.index("<th") : row.index("</th>")]
    assert name.endswith('>overlay</a><small class="v-inconclusive">treatment not proven</small>')
    assert '>fast</a><small class="v-inconclusive">treatment partly proven</small></th>' in page
    assert ">bare</a><small>baseline, absolute</small></th>" in page
    escaped = UNPROVEN.replace("<", "&lt;").replace(">", "&gt;")
    assert UNPROVEN not in page
    assert f"<b>overlay</b>: {escaped}" in page
    assert page.count(escaped) >= 2


BARE, CONTROL, HOST = (environment(name) for name in ("bare", "bare+dockerd", "docker+host"))
BRIDGE = environment("docker+bridge")
LATENCY = MetricInfo(key="latency:8", label="latency 8 B", kind=MetricKind.COST, statistic="mean", group="g")


@pytest.mark.parametrize(
    ("name", "image", "network"),
    [("bare+dockerd", "", "host"), ("bare+dockerd+bridge", "", "bridge"), ("bare+dockerd+image", DEFAULT, "host")],
)
def test_the_name_says_that_the_node_has_a_daemon(name: str, image: str, network: str) -> None:
    assert environment(name) == Environment(name=name, runtime="bare", network=network, image=image, daemon="docker")


def test_a_study_states_it_as_a_key_too() -> None:
    study = parse(f"environments: {{bare: , other: {{runtime: bare, daemon: docker}}}}{WORK}")
    assert [item.daemon for item in study.environments] == ["", "docker"]
    with pytest.raises(StudyError, match="unknown daemon 'podman'"):
        parse(f"environments: {{bare: , other: {{runtime: bare, daemon: podman}}}}{WORK}")


def test_a_daemon_control_runs_where_docker_runs_and_is_unavailable_for_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert [on_daemon_nodes(item) for item in (BARE, CONTROL, HOST)] == [False, True, True]
    study = Study(
        name="s", cluster="lab", lab=LabSpec(), baseline="bare", environments=(BARE, CONTROL),
        placements=(Placement(),), workloads=(Work(name="w", command=("app",)),),
    )  # fmt: skip
    assert needs(expand(study, lambda *_: None)).docker
    assert not needs(expand(replace(study, environments=(BARE,)), lambda *_: None)).docker
    monkeypatch.setattr(type(RUNTIMES["docker"]), "probe", lambda _: "dockerd is not installed")
    assert probe(CONTROL) == "dockerd is not installed"
    assert probe(BARE) != "dockerd is not installed"
    assert refuse(CONTROL, Placement()) is None
    assert "anyway" in (refuse(replace(HOST, daemon="docker"), Placement()) or "")
    fake = Environment(name="f", runtime="fake", network="fake", mpi="fake", daemon="docker")
    assert "no nodes with a daemon" in (refuse(fake, Placement()) or "")


def test_results_from_before_the_key_are_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed = []
    dumps = cells.json.dumps
    monkeypatch.setattr(cells.json, "dumps", lambda value, **how: hashed.append(value) or dumps(value, **how))
    cells.digest(parse(f"environments: [bare, bare+dockerd]{WORK}"))
    assert [item.get("daemon") for item in hashed[0]["environments"]] == [None, "docker"]


def cell(name: str, cost: float, verdict: Verdict = Verdict.COSTS, metric: str = "latency:8") -> Comparison:
    """Return a comparison over six rounds in which the machine's speed differs, and the cost does not."""
    return Comparison(
        metric=metric, environment=name, group="g", verdict=verdict,
        overhead=Estimate(value=cost, low=cost - 0.02, high=cost + 0.02, n=6),
        rounds=tuple(range(6)), values_s=tuple((1 + cost) * (1 + 0.1 * number) for number in range(6)),
    )  # fmt: skip


def test_the_control_explains_only_environments_on_its_own_network_and_needs_values() -> None:
    cells = (cell("bare+dockerd", 0.15), cell("docker+host", 0.16))
    (finding,) = daemon_findings((BARE, CONTROL, HOST), (LATENCY,), cells, 0.95)
    assert (finding.environment, finding.group, finding.kind) == ("docker+host", "g", KIND)
    assert (finding.launches, finding.of) == (6, 6)
    assert finding.text == (
        "latency 8 B +16 %: the daemon's packet filter causes +15 % [+13, +17] (bare+dockerd), "
        "the container adds +0.9 % [+0.9, +0.9]"
    )
    cells = (cell("bare+dockerd", 0.15), cell("docker+bridge", 0.4))
    assert daemon_findings((BARE, CONTROL, BRIDGE), (LATENCY,), cells, 0.95) == ()
    control = environment("bare+dockerd+bridge")
    cells = (cell("bare+dockerd+bridge", 0.39), cell("docker+bridge", 0.4))
    (finding,) = daemon_findings((BARE, control, BRIDGE), (LATENCY,), cells, 0.95)
    assert "(bare+dockerd+bridge)" in finding.text
    cells = (cell("docker+host", 0.16),)
    assert daemon_findings((BARE, HOST), (LATENCY,), cells, 0.95) == ()
    assert daemon_findings((BARE, CONTROL, HOST), (LATENCY,), cells, 0.95) == ()
    unjudged = (cell("bare+dockerd", 0.15), cell("docker+host", 0.16))
    assert daemon_findings((BARE, CONTROL, HOST), (replace(LATENCY, judged=False),), unjudged, 0.95) == ()


@pytest.mark.parametrize("verdict", [Verdict.NO_COST, Verdict.GAINS, Verdict.INCONCLUSIVE])
def test_no_cost_is_not_divided(verdict: Verdict) -> None:
    cells = (cell("bare+dockerd", 0.15), cell("docker+host", 0.16, verdict))
    assert daemon_findings((BARE, CONTROL, HOST), (LATENCY,), cells, 0.95) == ()


def test_a_summary_has_the_finding() -> None:
    plan = make_plan("docker+host", "bare+dockerd")
    daemons = {"docker+host": HOST, "bare+dockerd": CONTROL}
    cells = [replace(item, environment=daemons.get(item.environment.name, item.environment)) for item in plan.cells]
    environments = tuple(daemons.get(item.name, item) for item in plan.study.environments)
    plan = replace(plan, cells=tuple(cells), study=replace(plan.study, environments=environments))
    trials = make_trials(plan)
    for name in daemons:
        trials = scaled(trials, name, lambda _: 1.3)
    summary = summarise(plan, trials, {})
    (finding,) = (item for item in summary.findings if item.kind == KIND)
    assert finding.environment == "docker+host"
    assert "(bare+dockerd)" in finding.text


@pytest.mark.parametrize(
    "stated", [7, [], {"1": 7}, {"1": {"rounds": 3}}, {"1": {"rounds": {"a": 1}, "node hours": "x"}}]
)
def test_allocations_of_any_shape_are_passed_over(stated: object) -> None:
    facts = {KEY: stated}
    assert rounds_of(facts) == {}
    assert list(allocation_caveats(facts)) == []
    assert node_hours(facts) == 0.0
