"""A cost is first divided into kinds of time, and a cause that can take none of what was added is not suspected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from factory_explained import Behaviour, costs_of, plan_of, summary_of, trials_of
from tare.analysis.explain import Explained, explain
from tare.analysis.explain.causes import CAUSES
from tare.analysis.explain.kinds import TimeKind, spent_by
from tare.model import Completed, RankPlace, Trial, Work

STUDY = """
environments:
  bare: {{runtime: bare, network: host}}
  slow: {{runtime: docker, network: {network}}}
workloads: {{app: {{command: [./resolve]}}}}
placements: [2x1]
repetition: {{rounds: 8}}
"""
SCALE = 5e4
"""Made-up metrics are of ten microseconds; the program takes half a second."""
OF_DOCKER = {"conntrack": "on", "br_netfilter": "on", "path": "veth, veth, bridge"}
OF_NODE = {"conntrack": "off", "br_netfilter": "off", "path": "veth"}


def spending(trial: Trial, wall_s: float, core_s: float, queued_s: float = 0.0) -> Trial:
    """Return a launch of two ranks that took so long, of which each was so long on its core."""
    used = {"on_cpu_s": core_s, "run_delay_s": queued_s}
    assert isinstance(trial.outcome, Completed)
    metrics = tuple(
        replace(each, message_bytes=None, value=SCALE * each.value, median_s=SCALE * (each.median_s or 0.0))
        for each in trial.outcome.metrics
    )
    return replace(
        trial,
        elapsed_s=wall_s + 0.1,
        startup_s={"launch_s": 0.12, "mpi_init_s": 0.02},
        node_counters={"n0": used, "n1": used},
        outcome=replace(trial.outcome, metrics=metrics),
    )


def rank(number: int, **rights: str) -> RankPlace:
    return RankPlace(rank=number, host=f"b{number}/n{number}", hostname=f"n{number}", pid=1, cpus=(0,), rights=rights)


def cost_of(
    tmp_path: Path,
    took: Mapping[str, tuple[float, float]],
    rights: Mapping[str, Mapping[str, str]],
    network: str = "overlay",
) -> Explained:
    plan = plan_of(tmp_path, STUDY.format(network=network))
    names = {cell.key: cell.environment.name for cell in plan.cells}
    behave = {
        name: Behaviour(
            factor=took[name][0] / took["bare"][0],
            facts=OF_NODE if name == "bare" else OF_DOCKER,
            ranks=[rank(number, **rights[name]) for number in (0, 1)],
        )
        for name in took
    }
    made = trials_of(plan, behave, metric="wall")
    trials = [spending(each, *took.get(names[each.key.cell], took["bare"])) for each in made]
    (cost,) = explain(plan, trials, summary_of(plan, trials))
    return cost


def test_ten_seconds_of_sleep_are_no_packet_filter_but_perhaps_a_name_server(tmp_path: Path) -> None:
    """moby#34747: a look-up in an overlay; suspected were the tunnel, the filter, the path and other programs."""
    rights = {"bare": {"name_servers": "none"}, "slow": {"name_servers": "127.0.0.11"}}
    cost = cost_of(tmp_path, {"bare": (0.5, 0.4), "slow": (10.5, 0.4)}, rights)
    assert cost.evidence.added.words == "10 s sleeping"
    names = [suspect.name for suspect in cost.suspects]
    assert names[0] == "name resolution"
    assert not {"packet filter", "encapsulation", "path length", "interference"} & set(names)


def test_what_takes_its_cores_for_longer_may_be_the_path_of_packets(tmp_path: Path) -> None:
    rights = {"bare": {"name_servers": "none"}, "slow": {"name_servers": "127.0.0.11"}}
    cost = cost_of(tmp_path, {"bare": (0.5, 0.4), "slow": (1.5, 1.4)}, rights)
    assert cost.evidence.added.words == "1 s on its cores"
    names = {suspect.name for suspect in cost.suspects}
    assert {"packet filter", "encapsulation"} <= names
    assert "name resolution" not in names


@pytest.mark.parametrize(
    ("here", "base", "named"), [("20000", "1024", True), ("1024", "1024", False), ("", "1", False)]
)
def test_limits_that_differ_are_suspected_with_both_values(tmp_path: Path, here: str, base: str, named: bool) -> None:
    """moby#38814: a hundred times slower, because a program closes every file that it may open."""
    rights = {"bare": {"open_files": base}, "slow": {"open_files": here} if here else {}}
    cost = cost_of(tmp_path, {"bare": (0.5, 0.4), "slow": (5.5, 5.4)}, rights, "host")
    found = next((suspect for suspect in cost.suspects if suspect.name == "limits"), None)
    assert (found is not None) is named
    if found is not None:
        assert "20000 open files, the baseline's of 1024 open files" in found.clues[0].text
        assert "--ulimit nofile=1024" in found.remedy


def test_limits_that_ranks_do_not_share_are_no_clue(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, STUDY.format(network="host"))
    apart = [rank(0, open_files="20000"), rank(1, open_files="1024")]
    same = [rank(0, open_files="1024"), rank(1, open_files="1024")]
    behave = {"bare": Behaviour(ranks=same), "slow": Behaviour(factor=2.0, ranks=apart)}
    (cost,) = costs_of(plan, behave, metric="wall")
    assert "limits" not in {suspect.name for suspect in cost.suspects}


def test_launches_that_do_not_record_their_time_have_no_kinds_and_lose_no_suspect(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, STUDY.format(network="overlay"))
    behave = {"bare": Behaviour(facts=OF_NODE), "slow": Behaviour(factor=2.0, facts=OF_DOCKER)}
    assert spent_by(trials_of(plan, behave, metric="wall")) == {}
    (cost,) = costs_of(plan, behave, metric="wall")
    assert cost.evidence.added.words == ""
    assert "packet filter" in {suspect.name for suspect in cost.suspects}


def test_time_that_is_not_that_of_the_metric_says_nothing_of_its_kind(tmp_path: Path) -> None:
    """A launch may take longer where the figure of its program says another thing."""
    rights = {"bare": {"name_servers": "none"}, "slow": {"name_servers": "none"}}
    cost = cost_of(tmp_path, {"bare": (0.5, 0.4), "slow": (1.5, 0.4)}, rights)
    assert cost.evidence.added.words == "1 s sleeping"
    small = replace(cost.evidence.here, spent=dict.fromkeys(TimeKind, 0.01))
    assert replace(cost.evidence, here=small).added.fits(frozenset({TimeKind.CORE}))
    assert replace(cost.evidence, here=small).added.words == ""


@pytest.mark.parametrize(
    ("stolen_s", "words"),
    [
        (0.0, "1 s sleeping"),
        (1.8, "900 ms stolen by the hypervisor, 100 ms sleeping"),
        (2.0, "1 s stolen by the hypervisor"),
    ],
)
def test_what_a_hypervisor_steals_is_no_sleep(tmp_path: Path, stolen_s: float, words: str) -> None:
    plan = plan_of(tmp_path, STUDY.format(network="overlay"))
    behave = {"bare": Behaviour(), "slow": Behaviour(factor=3.0, noise={"steal_s": stolen_s}, ranks=[rank(0), rank(1)])}
    behave["bare"] = replace(behave["slow"], factor=1.0, noise={})
    took = {each.key: (1.5 if "slow" in each.key else 0.5, 0.4) for each in plan.cells}
    trials = [spending(each, *took[each.key.cell]) for each in trials_of(plan, behave, metric="wall")]
    (cost,) = explain(plan, trials, summary_of(plan, trials))
    assert cost.evidence.added.words == words


def test_every_cause_says_which_kinds_of_time_it_takes() -> None:
    assert all(cause.takes and cause.takes <= set(TimeKind) for cause in CAUSES.values())


@pytest.mark.parametrize(
    ("created", "cores", "named"), [(1.0, (1, 2), True), (0.0, (1, 2), False), (1.0, (1, 1), False)]
)
def test_more_threads_than_cores_are_suspected_where_the_baseline_has_enough(
    tmp_path: Path, created: float, cores: tuple[int, int], named: bool
) -> None:
    """A rank with two threads that wait for each other takes forty times as long on one core."""
    plan = plan_of(tmp_path, STUDY.format(network="host"))
    slow, enough = ([replace(rank(n), cpus=tuple(range(count))) for n in (0, 1)] for count in cores)
    behave = {"bare": Behaviour(ranks=enough), "slow": Behaviour(factor=4.0, ranks=slow)}
    made = trials_of(plan, behave, metric="wall")
    trials = [replace(each, work=Work(threads=2 * created)) for each in made]
    (cost,) = explain(plan, trials, summary_of(plan, trials))
    found = next((suspect for suspect in cost.suspects if suspect.name == "threads"), None)
    assert (found is not None) is named
    assert found is None or "2 threads for 1 core, in the baseline for 2" in found.clues[0].text


@pytest.mark.parametrize(
    ("cause", "settings", "words"),
    [
        ("threads", "env: {MAPS: core}", "the baseline's variables"),
        ("limits", "env: {MAPS: core}", "the baseline's variables"),
        ("storage", "binds: [/tmp:/data]", "the baseline's folders"),
        ("threads", "binds: [/tmp:/data]", ""),
        ("storage", "env: {MAPS: core}", ""),
    ],
)
def test_what_a_study_can_take_from_the_baseline_is_measured(
    tmp_path: Path, cause: str, settings: str, words: str
) -> None:
    text = STUDY.format(network=f"host, {settings}").replace("bare: {runtime: bare", "base: {runtime: docker")
    plan = plan_of(tmp_path, f"baseline: base\n{text}")
    (cost,) = costs_of(plan, {"slow": Behaviour(factor=2.0)}, metric="wall")
    change = CAUSES[cause].change(cost.evidence)
    assert (change.words if change else "") == words
    if change is not None:
        base = cost.evidence.base.cell.environment
        assert replace(change.environment, name=base.name) == base
