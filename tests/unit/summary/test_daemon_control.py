"""`bare+dockerd` runs bare on a node with the daemon; the daemon's part of a cost is derived from it (ADR 4)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tare.errors import StudyError
from tare.images import DEFAULT
from tare.model import (
    Comparison,
    Completed,
    Environment,
    Estimate,
    LabSpec,
    MetricInfo,
    MetricKind,
    Placement,
    Study,
    Trial,
    Verdict,
)
from tare.model import Workload as Work
from tare.node_service.geometry import on_daemon_nodes
from tare.node_service.probe import probe
from tare.plan import cells
from tare.plan.cells import expand
from tare.plan.composition import refuse
from tare.run.site import needs
from tare.runtimes import RUNTIMES
from tare.study import environment, parse
from tare.summary import summarise
from tare.summary.daemon import KIND, daemon_findings
from unit.study_texts import WORK
from unit.summaries import make_plan, make_trials

BARE, CONTROL, HOST = (environment(name) for name in ("bare", "bare+dockerd", "docker+host"))
BRIDGE = environment("docker+bridge")
LATENCY = MetricInfo(key="latency:8", label="latency 8 B", kind=MetricKind.COST, statistic="mean", group="g")


@pytest.mark.parametrize(
    ("name", "image", "network"),
    [
        ("bare+dockerd", "", "host"),
        ("bare+dockerd+bridge", "", "bridge"),
        ("bare+dockerd+image", DEFAULT, "host"),
    ],
)
def test_the_name_says_that_the_node_has_a_daemon(name: str, image: str, network: str) -> None:
    assert environment(name) == Environment(name=name, runtime="bare", network=network, image=image, daemon="docker")


def test_a_study_states_it_as_a_key_too() -> None:
    study = parse(f"environments: {{bare: , other: {{runtime: bare, daemon: docker}}}}{WORK}")
    assert [item.daemon for item in study.environments] == ["", "docker"]
    with pytest.raises(StudyError, match="unknown daemon 'podman'"):
        parse(f"environments: {{bare: , other: {{runtime: bare, daemon: podman}}}}{WORK}")


def test_it_runs_where_docker_runs_and_needs_its_daemon() -> None:
    assert [on_daemon_nodes(item) for item in (BARE, CONTROL, HOST)] == [False, True, True]
    study = Study(
        name="s", cluster="lab", lab=LabSpec(), baseline="bare", environments=(BARE, CONTROL),
        placements=(Placement(),), workloads=(Work(name="w", command=("app",)),),
    )  # fmt: skip
    assert needs(expand(study, lambda *_: None)).docker
    assert not needs(expand(replace(study, environments=(BARE,)), lambda *_: None)).docker


def test_it_is_unavailable_for_the_reason_that_docker_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(RUNTIMES["docker"]), "probe", lambda _: "dockerd is not installed")
    assert probe(CONTROL) == "dockerd is not installed"
    assert probe(BARE) != "dockerd is not installed"


def test_environments_that_have_the_daemon_anyway_or_no_nodes_are_refused() -> None:
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


# --- what of a cost is the daemon's -------------------------------------------------------------------------------


def cell(name: str, cost: float, verdict: Verdict = Verdict.COSTS, metric: str = "latency:8") -> Comparison:
    """Return a comparison over six rounds in which the machine's speed differs, and the cost does not."""
    return Comparison(
        metric=metric, environment=name, group="g", verdict=verdict,
        overhead=Estimate(value=cost, low=cost - 0.02, high=cost + 0.02, n=6),
        rounds=tuple(range(6)), values_s=tuple((1 + cost) * (1 + 0.1 * number) for number in range(6)),
    )  # fmt: skip


def test_the_daemons_and_the_containers_parts_of_a_cost_are_stated() -> None:
    cells = (cell("bare+dockerd", 0.15), cell("docker+host", 0.16))
    (finding,) = daemon_findings((BARE, CONTROL, HOST), (LATENCY,), cells, 0.95)
    assert (finding.environment, finding.group, finding.kind, finding.launches, finding.of) == (
        "docker+host",
        "g",
        KIND,
        6,
        6,
    )
    assert finding.text == (
        "latency 8 B +16 %: the daemon's packet filter causes +15 % [+13, +17] (bare+dockerd), "
        "the container adds +0.9 % [+0.9, +0.9]"
    )


def test_the_control_explains_only_environments_on_its_own_network() -> None:
    cells = (cell("bare+dockerd", 0.15), cell("docker+bridge", 0.4))
    assert daemon_findings((BARE, CONTROL, BRIDGE), (LATENCY,), cells, 0.95) == ()
    control = environment("bare+dockerd+bridge")
    cells = (cell("bare+dockerd+bridge", 0.39), cell("docker+bridge", 0.4))
    (finding,) = daemon_findings((BARE, control, BRIDGE), (LATENCY,), cells, 0.95)
    assert "(bare+dockerd+bridge)" in finding.text


@pytest.mark.parametrize("verdict", [Verdict.NO_COST, Verdict.GAINS, Verdict.INCONCLUSIVE])
def test_no_cost_is_not_divided(verdict: Verdict) -> None:
    cells = (cell("bare+dockerd", 0.15), cell("docker+host", 0.16, verdict))
    assert daemon_findings((BARE, CONTROL, HOST), (LATENCY,), cells, 0.95) == ()


def test_without_a_control_or_its_values_there_is_no_finding() -> None:
    cells = (cell("docker+host", 0.16),)
    assert daemon_findings((BARE, HOST), (LATENCY,), cells, 0.95) == ()
    assert daemon_findings((BARE, CONTROL, HOST), (LATENCY,), cells, 0.95) == ()
    unjudged = (cell("bare+dockerd", 0.15), cell("docker+host", 0.16))
    assert daemon_findings((BARE, CONTROL, HOST), (replace(LATENCY, judged=False),), unjudged, 0.95) == ()


def test_a_summary_has_the_finding() -> None:
    plan = make_plan("docker+host", "bare+dockerd")
    daemons = {"docker+host": HOST, "bare+dockerd": CONTROL}
    cells = tuple(
        replace(item, environment=daemons.get(item.environment.name, item.environment)) for item in plan.cells
    )
    environments = tuple(daemons.get(item.name, item) for item in plan.study.environments)
    plan = replace(plan, cells=cells, study=replace(plan.study, environments=environments))
    base = make_trials(plan)

    def slower(trial: Trial) -> Trial:
        if not isinstance(trial.outcome, Completed) or "docker" not in trial.key.cell:
            return trial
        dear = tuple(
            replace(item, value=item.value * 1.3, median_s=item.median_s * 1.3) for item in trial.outcome.metrics
        )
        return replace(trial, outcome=Completed(metrics=dear))

    summary = summarise(plan, [slower(trial) for trial in base], {})
    (finding,) = (item for item in summary.findings if item.kind == KIND)
    assert finding.environment == "docker+host"
    assert "(bare+dockerd)" in finding.text
