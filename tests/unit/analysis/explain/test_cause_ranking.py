"""Causes are proven by ablations, planted one at a time, and documented."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import yaml

from counted_calls import count_calls
from factory_explained import SLOW, Behaviour, costs_of, measured, plan_of, slow_plan, summary_of, trials_of
from plants import check
from plants.plants import PLAIN, PLANTED, PLANTS
from tare import study
from tare.analysis.explain import explain, stored_costs
from tare.analysis.explain.ablation import studies_of
from tare.analysis.explain.causes import CAUSES
from tare.analysis.explain.evidence import Evidence
from tare.errors import ResultsError
from tare.model import Environment
from tare.store.results import PLAN, SHARED, TRIALS
from tare.study.plan.cells import expand

FILTER = "runtime: bare, network: bridge, link: {br_netfilter: true, conntrack: track}"
FILTERED = Behaviour(factor=1.3, facts={"conntrack": "track in the pod", "br_netfilter": "on for br0"})


def test_a_cause_is_named_only_after_its_ablation_and_not_if_that_changes_nothing(tmp_path: Path) -> None:
    plan = slow_plan(tmp_path, f"{FILTER}, env: {{A: 1}}")
    trials = trials_of(plan, {"slow": FILTERED})
    (cost,) = explain(plan, trials, summary_of(plan, trials))
    assert cost.suspects[0].name == "packet filter"
    assert cost.named is None
    (ablation,) = studies_of(plan.study, [cost])
    again = expand(ablation.study, lambda *_: None)
    innocent = {each.name: FILTERED for each in again.study.environments if each.name != "plain"}
    proof = measured(again, trials_of(again, innocent, seed=2))
    (cost,) = explain(plan, trials, summary_of(plan, trials), [proof])
    assert cost.named is None
    assert not cost.is_proven("packet filter")
    proof = measured(again, trials_of(again, {"slow": FILTERED}, seed=2))
    (cost,) = explain(plan, trials, summary_of(plan, trials), [proof])
    assert cost.named.name == "packet filter"
    share = cost.shares["packet filter"].share
    assert share.low < 1.0 <= share.high
    assert cost.division.rest.low == 0.0 < cost.division.rest.high


def test_what_costs_nothing_is_not_explained(tmp_path: Path) -> None:
    assert costs_of(slow_plan(tmp_path, FILTER), {"slow": Behaviour(facts=FILTERED.facts)}) == ()


@pytest.mark.parametrize("seed", range(5))
def test_a_cost_without_clues_stays_unexplained(tmp_path: Path, seed: int) -> None:
    plan = slow_plan(tmp_path, "runtime: bare, network: bridge, env: {A: 1}")
    (cost,) = costs_of(plan, {"slow": Behaviour(factor=1.5)}, seed=seed)
    assert cost.suspects == ()
    assert cost.named is None


def test_a_factor_that_is_the_only_difference_is_proven_by_the_copy_of_the_baseline(tmp_path: Path) -> None:
    chosen = "runtime: bare, network: bridge, env: {OMPI_MCA_coll_tuned_allreduce_algorithm: 1}"
    (cost,) = costs_of(slow_plan(tmp_path, chosen), {"slow": Behaviour(factor=1.5)}, metric="allreduce:8")
    assert cost.named.name == "collective"


CASES = {
    "drop": (
        "runtime: bare, network: bridge, link: {rate: 1Gbit, queue: 50}",
        Behaviour(factor=1.4, counters={"qdisc_drops": 300.0, "TcpRetransSegs": 310.0, "TcpExtTCPTimeouts": 2.0}),
    ),
    "reorder": (FILTER.partition(", link")[0] + ", env: {A: 1}",
                Behaviour(factor=1.4, counters={"TcpExtTCPSACKReorder": 900.0, "TcpRetransSegs": 800.0})),
    "steering": ("runtime: bare, network: bridge, link: {rps: all}", Behaviour(factor=1.4, facts={"rps": "0,1"})),
    "mtu": ("runtime: bare, network: bridge, link: {mtu: 900}",
            Behaviour(factor=1.4, counters={"IpFragCreates": 1000.0})),
    "CPU limit": ("runtime: bare, network: bridge, placement: {cpus_per_container: 0.5}",
                  Behaviour(factor=1.4, noise={"throttled_s": 0.4})),
    "memory limit": ("runtime: bare, network: bridge, placement: {memory_per_container: 100MiB}",
                     Behaviour(factor=1.4, counters={"memory_failcnt": 50.0, "page_steals": 4000.0})),
    "interference": ("runtime: bare, network: bridge, env: {A: 1}",
                     Behaviour(factor=1.4, noise={"background_s": 0.9})),
    "packet filter": (FILTER, FILTERED),
    "encapsulation": ("runtime: bare, network: flannel",
                      Behaviour(factor=1.4, facts={"path": "veth, bridge, vxlan"})),
    "path length": ("runtime: bare, network: bridge, env: {A: 1}",
                    Behaviour(factor=1.4, facts={"path": "veth, bridge, veth, bridge"})),
}  # fmt: skip


@pytest.mark.parametrize(("facts", "suspected"), [
    ({"rps of n0": "cores 1", "rps of n1": "cores 2"}, True),
    ({"rps of n0": "cores 1", "rps of n1": "off"}, False),
])  # fmt: skip
def test_hosts_that_spread_packets_over_cores_of_their_own_do_not_differ(
    tmp_path: Path, facts: dict[str, str], suspected: bool
) -> None:
    plan = slow_plan(tmp_path, CASES["steering"][0])
    (cost,) = costs_of(plan, {"slow": Behaviour(factor=1.4, facts=facts)})
    assert ("steering" in {each.name for each in cost.suspects}) is suspected


@pytest.mark.parametrize("name", CASES)
def test_each_cause_is_the_first_suspect_where_its_counters_grew(tmp_path: Path, name: str) -> None:
    slow, behaves = CASES[name]
    (cost,) = costs_of(slow_plan(tmp_path, slow), {"slow": behaves})
    assert cost.suspects[0].name == name
    assert cost.suspects[0].clues
    assert cost.suspects[0].remedy


@pytest.mark.parametrize(
    ("here", "base", "words", "wanted"),
    [
        (("pod-network", "routed"), ("host", ""), "the network host, no runtime class", ("host", "")),
        (("pod-network", ""), ("host", ""), "the network host", ("host", "")),
        (("pod-network", "routed"), ("pod-network", ""), "the network host, no runtime class", ("host", "")),
        (("pod-network", "fast"), ("host", "fast"), "the network host", ("host", "fast")),
        (("pod-network", ""), ("host", "fast"), "the network host, the runtime class fast", ("host", "fast")),
    ],
)
def test_another_network_is_tried_without_the_runtime_class_that_chose_the_first(
    here: tuple[str, str], base: tuple[str, str], words: str, wanted: tuple[str, str]
) -> None:
    def side(network: str, runtime_class: str) -> SimpleNamespace:
        named = Environment(name="e", runtime="kubernetes", network=network, runtime_class=runtime_class)
        return SimpleNamespace(environment=named)

    evidence = SimpleNamespace(here=side(*here), base=side(*base))
    change = CAUSES["path length"].change(cast("Evidence", evidence))
    assert (change.words, change.environment.network, change.environment.runtime_class) == (words, *wanted)


def test_every_cause_has_few_words_and_a_row_in_the_table() -> None:
    assert all(len(cause.words.split()) <= 5 for cause in CAUSES.values())
    assert all(name == cause.name for name, cause in CAUSES.items())
    table = PAGE.partition("## The causes")[2].partition("\n## ")[0]
    assert re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)[1:] == list(CAUSES)


def test_twice_the_costs_of_twice_the_cells_take_twice_the_calls(tmp_path: Path) -> None:
    def calls_for(workloads: int) -> int:
        text = SLOW.format(slow=f"{FILTER}, env: {{A: 1}}", placement="2x1")
        named = ", ".join(f"w{number}: {{kernels: [latency]}}" for number in range(workloads))
        plan = plan_of(tmp_path, text.replace("messages: {kernels: [latency]}", named))
        trials = trials_of(plan, {"slow": FILTERED})
        summary = summary_of(plan, trials)
        found: list[int] = []
        calls = count_calls(lambda: found.append(len(explain(plan, trials, summary))))
        assert found == [workloads]
        return calls

    calls_for(1)
    assert calls_for(40) < 2.2 * calls_for(20)


START = """
baseline: bare
environments:
  bare:
  bare+image:
  apptainer:
workloads: {start: {startup: warm}}
repetition: {rounds: 8}
"""


def test_of_several_proven_causes_the_one_that_explains_most_is_named(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, START)
    for of_image, of_container, named in ((6.0, 1.3, "image"), (1.3, 6.0, "start-up")):
        behave = {"bare+image": Behaviour(factor=of_image), "apptainer": Behaviour(factor=of_image * of_container)}
        image, container = costs_of(plan, behave, metric="pods")
        assert [each.name for each in container.suspects[:2]] == ["start-up", "image"]
        assert {each.name for each in container.proven} == {"start-up", "image"}
        assert container.named.name == named
        assert image.named.name == "image"
        assert "the same without an image" in str(image.named.change)


@pytest.mark.parametrize("name", PLANTS)
def test_a_plant_is_a_study_with_one_difference(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "_library_folder", lambda library: f"/usr/lib/{library}")
    file = tmp_path / f"{name}.yaml"
    file.write_text(yaml.safe_dump(check.study_of(PLANTS[name], 1)))
    plan = expand(study.load(file), lambda *_: None)
    assert {cell.environment.name for cell in plan.cells} == {PLAIN, f"{PLAIN} (A/A)", PLANTED}
    assert PLANTS[name].causes <= set(CAUSES)


def test_thirteen_kinds_and_nothing_are_planted() -> None:
    assert sum(bool(plant.causes) for plant in PLANTS.values()) == 13
    assert [name for name, plant in PLANTS.items() if not plant.causes] == ["nothing"]


PAGE = (Path(__file__).parents[4] / "docs" / "explaining.md").read_text()


def test_no_ablation_is_read_twice_through_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of somebody else's with a thousand links to itself would be read a thousand times."""
    read: list[str] = []

    def refuse(path: Path, **_: object) -> None:
        read.append(path.name)
        raise ResultsError("no results")

    monkeypatch.setattr(stored_costs, "read_only", refuse)
    for place in (tmp_path, tmp_path / "explain/own", tmp_path / "explain/second"):
        place.mkdir(parents=True, exist_ok=True)
        for name in (PLAN, TRIALS, SHARED):
            (place / name).touch()
    for number in range(20):
        (tmp_path / f"explain/to-itself-{number}").symlink_to("..")
        (tmp_path / f"explain/to-another-{number}").symlink_to("own")
        (tmp_path / f"explain/with-links-{number}").mkdir()
        (tmp_path / f"explain/with-links-{number}" / PLAN).touch()
        (tmp_path / f"explain/with-links-{number}" / TRIALS).symlink_to(f"../../{TRIALS}")
    assert stored_costs.ablations_of(tmp_path) == ()
    assert read == ["own", "second"]
