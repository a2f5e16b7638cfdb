"""Two results are compared cell by cell; what differs between them must be declared, and could explain changes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import factory_across as folders
from factory_across import BW, GROUP, LATENCY
from tare.compare.compare import Across, CellChange, across
from tare.compare.compare_data import compare_data
from tare.compare.differences import check_kinds, differences, refuse_undeclared
from tare.compare.kinds import KINDS, Moves, measured
from tare.compare.reading import CellMetric, read
from tare.compare.wording import notes
from tare.errors import RefusedError, ResultsError, UsageError
from tare.model import Environment, KernelSpec, Study, Workload

OLD = Path(__file__).parents[2] / "data" / "results-0.1.0"


def compared(*paths: Path) -> Across:
    readings = [read(path) for path in paths]
    return across(readings, "ABCDE"[: len(paths)], differences(readings), frozenset())


def between(tmp_path: Path, second: Mapping[str, Any], first: Mapping[str, Any] | None = None) -> Across:
    """Return the comparison of two results that are written with these options."""
    return compared(
        folders.write(tmp_path / "a", **(first or {})), folders.write(tmp_path / "b", **{"seed": 2, **second})
    )


def change_of(result: Across, environment: str, metric: str = LATENCY, pair: int = 0) -> CellChange:
    (found,) = [
        change
        for change in result.pairs[pair].changes
        if change.place == CellMetric(group=GROUP, environment=environment, metric=metric)
    ]
    return found


def words_of(result: Across, environment: str) -> tuple[str | None, str | None]:
    change = change_of(result, environment)
    return change.cost and change.cost.word, change.overhead and change.overhead.word


def test_two_results_of_the_same_machine_have_no_differences_and_no_changes(tmp_path: Path) -> None:
    result = between(tmp_path, {})
    assert result.differences == ()
    assert not any(change.changed or change.could for change in result.pairs[0].changes)


@pytest.mark.parametrize(
    ("dockers", "machines", "bare", "docker"),
    [
        ((1.0, 1.0), (1.0, 1.0), ("same", None), ("same", "same")),
        ((1.5, 1.5), (1.0, 1.3), ("slower", None), ("slower", "same")),
        ((1.5, 1.5), (1.3, 1.0), ("faster", None), ("faster", "same")),
        ((1.1, 1.3), (1.0, 1.0), ("same", None), ("slower", "slower")),
        ((1.5, 1.0), (1.0, 1.5), ("slower", None), ("same", "faster")),
    ],
)
def test_a_slower_machine_moves_costs_and_a_costlier_container_overheads(
    tmp_path: Path, dockers: tuple[float, float], machines: tuple[float, float], bare: tuple[str, str | None],
    docker: tuple[str, str],
) -> None:  # fmt: skip
    first, second = (
        {"factors": {"docker": factor}, "machine": machine} for factor, machine in zip(dockers, machines, strict=True)
    )
    result = between(tmp_path, second, first)
    assert words_of(result, "bare") == bare
    assert words_of(result, "docker") == docker


def test_ratios_and_figures_of_a_change_are_those_of_the_costs(tmp_path: Path) -> None:
    first, second = ({"factors": {"docker": factor}, "spread": 0.0001} for factor in (1.1, 1.3))
    overhead = change_of(between(tmp_path, second, first), "docker").overhead
    assert overhead.ratio.value == pytest.approx(1.3 / 1.1 - 1, abs=0.001)
    assert (overhead.first, overhead.second) == ("+10 %", "+30 %")
    cost = change_of(between(tmp_path / "slower", {"machine": 1.3}), "docker").cost
    assert cost.ratio.low < 0.3 < cost.ratio.high


def test_a_rate_that_halved_is_slower_and_is_shown_as_a_rate(tmp_path: Path) -> None:
    cost = change_of(between(tmp_path, {"machine": 2.0}), "bare", BW).cost
    assert cost.word == "slower"
    assert cost.ratio.value == pytest.approx(1.0, abs=0.03)
    assert cost.first.endswith("GB/s")


def test_few_rounds_get_no_verdict_and_one_has_no_ratio(tmp_path: Path) -> None:
    cost = change_of(between(tmp_path, {"machine": 3.0}, {"rounds": 5}), "bare").cost
    assert cost.word == "undecided"
    assert "at least 6 rounds" in cost.reason
    assert cost.n == (5, 10)
    assert change_of(between(tmp_path / "one", {}, {"rounds": 1}), "bare").cost is None


def test_a_ratio_whose_interval_has_no_end_is_not_estimated(tmp_path: Path) -> None:
    wide = {"rounds": 2, "spread": 3.0}
    result = between(tmp_path, wide, wide)
    assert change_of(result, "bare").cost is None
    assert any("not estimated: the interval of its ratio" in text for text in notes(result.pairs[0], result))


def test_several_results_are_compared_with_the_first_and_adjusted_together(tmp_path: Path) -> None:
    paths = [folders.write(tmp_path / str(n), seed=n, machine=[1.0, 1.0, 1.4][n]) for n in range(3)]
    result = compared(*paths)
    assert [(pair.first, pair.second) for pair in result.pairs] == [(0, 1), (0, 2)]
    same, slower = (change_of(result, "bare", pair=pair).cost for pair in (0, 1))
    assert (same.word, slower.word) == ("same", "slower")
    tests = sum(
        each is not None for pair in result.pairs for change in pair.changes for each in (change.cost, change.overhead)
    )
    assert tests == 12
    assert slower.p_holm > slower.p_value
    assert same.p_holm >= same.p_value


def test_no_pair_of_equal_results_is_wrongly_called_changed_too_often(tmp_path: Path) -> None:
    study = replace(folders.STUDY, margin=0.0001)  # nothing can be called the same, so only the tests decide
    paths = [folders.write(tmp_path / str(n), seed=n + 40, study=study, spread=0.05) for n in range(40)]
    readings = [read(path) for path in paths]
    wrong = sum(
        any(change.changed for change in across(pair, "AB", (), frozenset()).pairs[0].changes)
        for pair in zip(readings[::2], readings[1::2], strict=True)
    )
    assert wrong <= 4  # 5 % of 20 tables is one; four or fewer with a probability of 99.7 %


def test_results_without_a_common_cell_are_refused_with_the_cells_of_each(tmp_path: Path) -> None:
    other = replace(folders.STUDY, workloads=(replace(folders.STUDY.workloads[0], name="other"),))
    with pytest.raises(RefusedError) as refused:
        between(tmp_path, {"study": other})
    text = str(refused.value)
    assert "no cell with a metric in common" in text
    assert "A has micro / 2n x 1r / bare, micro / 2n x 1r / docker" in text
    assert "B has other / 2n x 1r / bare, other / 2n x 1r / docker" in text
    assert refused.value.exit_code == 2


def test_cells_of_one_result_alone_are_listed(tmp_path: Path) -> None:
    fewer = replace(folders.STUDY, environments=folders.STUDY.environments[:1])
    result = between(tmp_path, {"study": fewer})
    assert {place.environment for place in result.pairs[0].only[0]} == {"docker"}
    assert result.pairs[0].only[1] == ()


def test_failed_launches_are_said(tmp_path: Path) -> None:
    result = between(tmp_path, {"fails": {"bare": 2}}, {"fails": {"docker": 9}})
    assert change_of(result, "docker").cost is None
    assert change_of(result, "docker").missing[0].startswith("no figures: 9 of 10 launches failed")
    assert change_of(result, "bare").missing == ("", "2 of 10 launches have no figure")


def test_a_reason_that_cells_share_is_said_once(tmp_path: Path) -> None:
    result = between(tmp_path, {"fails": {"bare": 2, "docker": 2}})
    said = notes(result.pairs[0], result)
    cells = "; ".join(f"{each} in {GROUP} (latency 8 B, bw 1 MiB)" for each in ("bare", "docker"))
    assert said == [f"{cells}: B: 2 of 10 launches have no figure", f"{cells}: n = 10 and 8 rounds"]


def test_other_baselines_leave_no_overhead_to_compare(tmp_path: Path) -> None:
    other = replace(folders.STUDY, baseline="docker")
    result = between(tmp_path, {"study": other})
    assert all(change.overhead is None for change in result.pairs[0].changes)
    assert [each.name for each in result.differences] == ["baseline"]


def test_an_earlier_release_is_read_and_unknown_kinds_of_differences_are_refused() -> None:
    reading = read(OLD)
    assert reading.rounds == 6
    assert {place.environment for place in reading.costs} == {"bare", "bare+bridge"}
    assert reading.facts["tare"].text == "0.1.0"
    assert compared(OLD, OLD).differences == ()
    with pytest.raises(UsageError) as refused:
        check_kinds(["cpus"])
    assert "--expect cpus" in str(refused.value)
    assert all(kind in str(refused.value) for kind in KINDS)


def test_a_damaged_line_is_named_and_the_rest_is_used(tmp_path: Path) -> None:
    path = folders.write(tmp_path / "a")
    lines = (path / "trials.jsonl").read_bytes().splitlines(keepends=True)
    lines[4] = b'{"type":"Trial", garbage\n'
    (path / "trials.jsonl").write_bytes(b"".join(lines))
    reading = read(path)
    assert "trials.jsonl:5" in reading.caveats[0]
    assert len(reading.costs) == 4
    assert reading.costs[CellMetric(group=GROUP, environment="docker", metric=LATENCY)].logs.size == 9


def test_a_folder_without_launches_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="no launches yet"):
        read(folders.write(tmp_path / "a", rounds=0))


@pytest.mark.parametrize(
    "facts", [{}, {"identity": {}, "processor": [], "versions": "x", "allocations": {"1": 5}, "images": {"a": 1}}]
)
def test_facts_of_any_shape_are_read(tmp_path: Path, facts: dict[str, object]) -> None:
    assert read(folders.write(tmp_path / "a", facts=facts)).facts["cluster"].text == "lab"


@pytest.mark.parametrize(
    ("path", "value", "kind", "name"),
    [
        (("identity", "kernel"), "6.2.0", "kernel", "kernel"),
        (("identity", "cpu"), "EPYC", "cpu", "CPU"),
        (("identity", "mpi"), {"openmpi": "Open MPI 5.0.1"}, "mpi", "MPI: openmpi"),
        (("identity", "kernels"), "k2", "tare", "compiled kernels"),
        (("memory_bytes",), 32 << 30, "memory", "memory"),
        (("os",), "Debian GNU/Linux 13", "libraries", "os"),
        (("processor", "microcode"), "0x2", "cpu", "processor: microcode"),
        (("processor", "mitigations", "meltdown"), "PTI", "mitigations", "mitigations: meltdown"),
        (("sysctls", "net.core.rmem_max"), "4194304", "sysctls", "net.core.rmem_max"),
        (("versions", "dockerd"), "24.0.0", "runtime", "dockerd"),
        (("versions", "compiler"), "13.1.0", "compiler", "compiler"),
        (("nodes", "with a daemon", "iptables rules"), 99, "filter", "nodes: with a daemon for docker: iptables rules"),
        (
            ("nodes", "with a daemon", "offloads", "tso"),
            "off",
            "link",
            "nodes: with a daemon for docker: offloads: tso",
        ),
        (("processor", "MHz"), "2599.9", "", "the clock rate of the moment"),
        (("versions", "podman"), "5.0.0", "", "a runtime that no environment uses"),
        (("memory_bytes",), (16 << 30) + 4096, "", "some pages of memory"),
    ],
)
def test_a_fact_that_differs_has_a_kind_if_it_matters(
    path: tuple[str, ...], value: object, kind: str, name: str, tmp_path: Path
) -> None:
    found = between(tmp_path, {"facts": folders.changed(*path, value=value)}).differences
    assert [(each.kind, each.name) for each in found] == ([(kind, name)] if kind else [])


def test_a_fact_that_one_result_lacks_is_no_difference(tmp_path: Path) -> None:
    without = {key: value for key, value in folders.FACTS.items() if key != "processor"}
    assert between(tmp_path, {"facts": without}).differences == ()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"seed": 9, "name": "another", "limit": 0.5, "margin": 0.05}, []),
        ({"workloads": (replace(folders.STUDY.workloads[0], mpi="mpich"),)}, ["workload micro: mpi"]),
        ({"cluster": "local"}, ["cluster"]),
    ],
)
def test_parts_of_the_study_differ_if_they_change_what_is_measured(
    change: dict[str, object], expected: list[str], tmp_path: Path
) -> None:
    other = replace(folders.STUDY, **change)  # type: ignore[arg-type]
    assert [each.name for each in between(tmp_path, {"study": other}).differences] == expected


def renamed(name: str, *more: Environment) -> Study:
    bare, docker = folders.STUDY.environments
    return replace(folders.STUDY, environments=(bare, replace(docker, name=name, network="host"), *more))


def test_two_spellings_of_an_environment_are_one(tmp_path: Path) -> None:
    found = between(tmp_path, {"study": renamed("docker+host")}, {"study": renamed("docker")})
    assert change_of(found, "docker+host").cost is not None
    assert found.differences == ()
    with pytest.raises(ValueError, match="not enough"):  # a name that the study gave is no spelling
        change_of(
            between(tmp_path / "own", {"study": renamed("docker+host")}, {"study": renamed("mine")}), "docker+host"
        )


def test_what_tares_own_daemon_adds_to_its_nodes_is_no_difference_between_other_environments(tmp_path: Path) -> None:
    more = Environment(name="docker+bridge", runtime="docker", network="bridge", image="debian-openmpi")
    rules = folders.changed("nodes", "with a daemon", "iptables rules", value=99)
    assert between(tmp_path / "1", {"study": renamed("docker", more), "facts": rules}).differences == ()
    alike = {"study": renamed("docker", more)}
    (found,) = between(tmp_path / "2", {**alike, "facts": rules}, alike).differences
    assert (found.kind, found.environments) == ("filter", {"docker+host", "docker+bridge"})


def test_facts_of_launches_differ_over_common_cells(tmp_path: Path) -> None:
    (found,) = between(tmp_path, {"launched": {"docker": {"mtu": "9000", "port": "7"}}}).differences
    assert (found.kind, found.name, found.values) == ("link", "launches of docker: mtu", ("1500", "9000"))
    assert found.environments == {"docker"}


def test_of_long_values_the_words_that_differ_are_shown(tmp_path: Path) -> None:
    texts = [f"BOOT_IMAGE=/vmlinuz root=/dev/sda1 console=ttyS0 isolcpus={n} {'quiet ' * 8}" for n in (1, 2)]
    first, second = ({"facts": folders.changed("system", "command line", value=text)} for text in texts)
    (found,) = between(tmp_path, second, first).differences
    assert found.kind == "boot"
    assert found.short == ("isolcpus=1", "isolcpus=2")


def test_undeclared_differences_are_refused_with_the_options_that_declare_them(tmp_path: Path) -> None:
    facts = folders.changed("identity", "kernel", value="6.2.0")
    found = between(tmp_path, {"facts": facts, "study": folders.with_link(mtu=9000)}).differences
    with pytest.raises(RefusedError) as refused:
        refuse_undeclared(found, check_kinds(["link"]), "AB", ["a", "b"])
    assert "kernel: kernel: A 6.1.0-1, B 6.2.0" in str(refused.value)
    assert "`--expect kernel`, or `--expect all`" in str(refused.value)
    assert "mtu" not in str(refused.value)
    refuse_undeclared(found, check_kinds(["link", "kernel"]), "AB", ["a", "b"])
    refuse_undeclared(found, check_kinds(["all"]), "AB", ["a", "b"])


@pytest.mark.parametrize(
    ("environment", "second", "kinds"),
    [
        ("docker", {"factors": {"docker": 1.5}}, {"kernel", "link", "runtime"}),
        ("docker", {"factors": {"docker": 1.2}, "machine": 1.4}, {"kernel"}),  # the baseline changed alike
        ("bare", {"factors": {"docker": 1.2}, "machine": 1.4}, {"kernel"}),  # it has no container
    ],
)
def test_what_could_be_the_cause_is_what_moves_messages_of_all_that_changed(
    tmp_path: Path, environment: str, second: dict[str, object], kinds: set[str]
) -> None:
    facts = folders.changed("identity", "kernel", value="6.2.0")
    facts["versions"] = {**facts["versions"], "dockerd": "24.0.0", "compiler": "13.1.0"}
    changes = {"facts": facts, "study": folders.with_link(mtu=9000), **second}
    result = between(tmp_path, changes, {"factors": {"docker": 1.2}})
    assert {each.kind for each in change_of(result, environment).could} == kinds


@pytest.mark.parametrize(
    ("workload", "moves"),
    [
        (Workload(name="w", kernels=(KernelSpec(kernel="latency"),)), Moves.MESSAGES),
        (Workload(name="w", kernels=(KernelSpec(kernel="halo"),)), Moves.MESSAGES | Moves.COMPUTING),
        (Workload(name="w", program="osu_latency"), Moves.MESSAGES),
        (Workload(name="w", program="hpcg"), Moves.MESSAGES | Moves.COMPUTING),
        (Workload(name="w", miniapp="net-tcp-stream"), Moves.MESSAGES),
        (Workload(name="w", command=("./app",)), Moves.MESSAGES | Moves.COMPUTING),
    ],
)
def test_metrics_are_made_of_what_their_workload_does(workload: Workload, moves: Moves) -> None:
    assert measured(workload) == moves


def test_network_settings_move_messages_and_compilers_computing() -> None:
    assert {KINDS[each].moves for each in ("sysctls", "link")} == {Moves.MESSAGES}
    assert KINDS["compiler"].moves & Moves.COMPUTING
    assert not KINDS["compiler"].moves & Moves.MESSAGES
    assert all(KINDS[each].moves & Moves.START_UP for each in ("mpi", "kernel", "cpu"))


def test_what_is_compared_is_valid_json(tmp_path: Path) -> None:
    data = json.loads(json.dumps(compare_data(between(tmp_path, {"machine": 1.3})), allow_nan=False))
    (change,) = [
        each for each in data["pairs"][0]["changes"] if (each["environment"], each["metric"]) == ("bare", LATENCY)
    ]
    assert change["cost"]["verdict"] == "slower"
    assert change["cost"]["ratio"]["low"] < 1.3 < change["cost"]["ratio"]["high"]
    assert change["cost"]["n"] == [10, 10]
    assert math.isclose(data["margin"], 0.02)
