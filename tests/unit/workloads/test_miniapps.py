"""Mini-applications are chosen, refused, estimated and read before and after they run; nothing is compiled here."""

from __future__ import annotations

import json
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tare.model import Caches, Figure, MetricKind, Placement, Workload
from tare.mpi.fake import PROGRAM
from tare.system.namespaces import plain_python
from tare.workloads import WORKLOADS
from tare.workloads.declared import MINIAPPS, choice_of
from tare.workloads.output import OutputError, Parsed

PLUGIN = WORKLOADS["miniapp"]
CG = Workload(name="cg", miniapp="npb-cg:class=A")


@cache
def said(spec: str = CG.miniapp) -> str:
    """Return what a whole launch says; the fake program speaks as the applications do."""
    argv = (
        plain_python(), "-IS", str(PROGRAM), "--factor", "1", "--hosts", "n0,n1", "--ranks-per-node", "1",
        *PLUGIN.argv(Workload(name="any", miniapp=spec), Path("/opt/tare")),
    )  # fmt: skip
    return subprocess.run(argv, capture_output=True, text=True, check=True, env={}).stdout


def parse(**values: Any) -> Parsed:
    """Return what is read of the launch with some values of its result changed."""
    lines = said().splitlines()
    at = next(i for i, line in enumerate(lines) if '"type": "miniapp"' in line)
    lines[at] = "@tare " + json.dumps(json.loads(lines[at].removeprefix("@tare ")) | values)
    return PLUGIN.parse(CG, "\n".join(lines))


def test_a_choice_is_written_one_way_and_larger_classes_need_more() -> None:
    assert choice_of("npb-cg").spec == choice_of("npb-cg:class=S").spec == "npb-cg:class=S"
    assert choice_of("npb-cg:class=A").label == "npb-cg A"
    for app in (app for app in MINIAPPS.values() if len(app.classes) > 2):
        chosen = [choice_of(f"{app.name}:class={letter}") for letter in app.classes]
        assert [app.operations(c, 1) for c in chosen] == sorted(app.operations(c, 1) for c in chosen)
        assert app.memory_bytes(chosen[-1], 1) >= app.memory_bytes(chosen[0], 1)


@pytest.mark.parametrize(
    ("spec", "caches"),
    [
        ("io-sequential:image=1,cold=1", Caches.COLD),
        ("io-metadata:image=1,cold=1", Caches.COLD),
        ("io-random:image=1", None),
        ("io-random:cold=1", None),
        ("npb-cg", None),
    ],
)
def test_the_machines_caches_are_dropped_for_cold_files_of_the_image_only(spec: str, caches: Caches | None) -> None:
    assert PLUGIN.caches(Workload(name="w", miniapp=spec)) is caches


@pytest.mark.parametrize("name", MINIAPPS)
def test_every_declaration_is_whole(name: str) -> None:
    app = MINIAPPS[name]
    assert app.description
    assert app.timed
    assert app.ranks
    for spec in [f"{name}:class={letter}" for letter in app.classes] or [name]:
        choice = choice_of(spec)
        runnable = [ranks for ranks in range(1, 37) if app.refuse(choice, ranks) is None]
        assert runnable
        for ranks in runnable:
            assert app.memory_bytes(choice, ranks) > 0
            assert app.operations(choice, ranks) > 0
            assert app.expected_s(choice, ranks) > 0
        assert app.refuse(choice, 1 << 40) is None or "allowed" in str(app.refuse(choice, 1 << 40))


@pytest.mark.parametrize(
    ("spec", "operations"),
    [  # official outputs: Mop/s x seconds
        ("npb-ep:class=A", 2**29 / 1e6),
        ("npb-is:class=A", 83.886),
        ("npb-mg:class=A", 3892.3),
        ("npb-cg:class=A", 1496.4),
        ("npb-ft:class=A", 7134.0),
        ("npb-bt:class=A", 168300.0),
        ("npb-sp:class=A", 85000.0),
        ("npb-lu:class=A", 119300.0),
    ],
)
def test_operations_are_those_of_the_official_programs(spec: str, operations: float) -> None:
    choice = choice_of(spec)
    assert choice.app.operations(choice, 2) == pytest.approx(operations, rel=2e-3)


def test_the_official_pace_is_a_percentage_that_every_application_which_calculates_has() -> None:
    choice = choice_of("npb-lu:class=A,pace=official")
    assert choice.spec == "npb-lu:class=A,pace=490"
    assert choice_of(choice.spec) == choice
    assert choice_of("npb-lu:class=A,pace=100").spec == "npb-lu:class=A"
    paced = {app.name for app in MINIAPPS.values() if app.official_pace}
    unpaced = {"kmi", "attempts", *(name for name in MINIAPPS if name.startswith(("net-", "io-")))}
    assert set(MINIAPPS) - paced == unpaced
    for name in paced:
        assert 100 < choice_of(f"{name}:pace=official").values["pace"] < 1000
    with pytest.raises(ValueError, match="kmi has no parameter 'pace'"):
        choice_of("kmi:pace=official")
    paces = [str(app.official_pace) for app in MINIAPPS.values() if app.official_pace]
    order = ("ep", "is", "cg", "mg", "ft", "lu", "bt", "sp")
    named = [str(MINIAPPS[f"npb-{app}"].official_pace) for app in order]
    row = f"| {' | '.join([*named, *paces[len(order) :]])} |"
    assert row in (Path(__file__).parents[3] / "docs" / "workloads.md").read_text()


@pytest.mark.parametrize("text", ["99", "1001", "officially", "1.5"])
def test_a_pace_that_is_not_possible_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(ValueError, match="a whole number from 100 to 1000, or official"):
        choice_of(f"npb-cg:pace={text}")


def test_impossible_ranks_are_refused_and_memory_and_time_shared_out_over_the_others() -> None:
    assert PLUGIN.refuse(CG, Placement(nodes=2, ranks_per_node=2)) is None
    reason = PLUGIN.refuse(CG, Placement(nodes=3))
    assert reason == "npb-cg class A cannot run on 3 ranks; allowed: powers of two"
    one, two = Placement(nodes=1), Placement(nodes=2)
    large = Workload(name="ft", miniapp="npb-ft:class=C")
    assert PLUGIN.memory_bytes(large, one) > 6e9
    assert PLUGIN.memory_bytes(large, two) < 0.6 * PLUGIN.memory_bytes(large, one)
    assert PLUGIN.expected_s(large, two) == pytest.approx(PLUGIN.expected_s(large, one) / 2)
    slowed = Workload(name="ft", miniapp="npb-ft:class=C,pace=official")
    assert PLUGIN.expected_s(slowed, two) == pytest.approx(2.7 * PLUGIN.expected_s(large, two))


def test_the_metric_is_the_time_of_the_timed_section_and_more_work_in_it_costs_less() -> None:
    (metric,) = parse().metrics
    assert (metric.key, metric.label, metric.kind) == ("npb-cg:class=A", "npb-cg A", MetricKind.RATE)
    done = choice_of(CG.miniapp).app.operations(choice_of(CG.miniapp), 2)
    assert (metric.done_per_sample, metric.rate_unit) == (done * 1e6, "op/s")
    assert metric.done_per_sample / metric.value == pytest.approx(10e6 / 0.005, rel=0.1)
    (info,) = PLUGIN.metrics(CG, Placement())
    assert info.done_per_sample == metric.done_per_sample
    assert (info.key, info.label, info.kind, info.statistic) == (
        metric.key, metric.label, metric.kind, metric.statistic,
    )  # fmt: skip
    assert info.rate_unit == metric.rate_unit
    (one,) = parse(elapsed_s=5.0, operations=100.0).metrics
    (two,) = parse(elapsed_s=5.0, operations=200.0).metrics
    assert one.done_per_sample == two.done_per_sample
    assert one.value == pytest.approx(2 * two.value)


def test_the_time_of_attempts_says_nothing_of_a_container_and_is_not_judged() -> None:
    attempts = Workload(name="rights", miniapp="attempts:user=65534")
    (info,) = PLUGIN.metrics(attempts, Placement())
    (metric,) = PLUGIN.parse(attempts, said(attempts.miniapp)).metrics
    assert (info.judged, metric.judged) == (False, False)
    assert (info.key, info.rate_unit) == (attempts.miniapp, "attempts/s")
    assert [each.judged for each in (*PLUGIN.metrics(CG, Placement()), *parse().metrics)] == [True, True]


@pytest.mark.parametrize(
    ("unit", "scale", "shown"),
    [("Gflop/s", 1e9, "FLOP/s"), ("TEPS", 1.0, "TEPS"), ("Mb/s", 1e6, "b/s"), ("queries/s", 1.0, "queries/s")],
)
def test_rates_of_any_unit_are_kept(unit: str, scale: float, shown: str) -> None:
    (metric,) = parse(rate_unit=unit, elapsed_s=2.0).metrics
    assert metric.rate_unit == shown
    assert metric.done_per_sample / metric.value == pytest.approx(scale * 10.0 / 2.0)


def test_a_program_in_turns_costs_what_its_median_turn_does_and_its_mean_is_kept() -> None:
    shares = {"parts": [2, 3, 2, 3, 2], "elapsed_s": [0.2, 0.3, 0.2, 0.33, 0.97]}  # the last in a burst of the host
    (metric,) = parse(elapsed_s=2.0, shares=shares).metrics
    (alone,) = parse(elapsed_s=2.0).metrics
    assert metric.value == alone.value, "the mean is that of the whole run"
    assert metric.typical_s / metric.value == pytest.approx(0.1 * 12 / 2.0)
    assert alone.typical_s == alone.value
    assert metric.p99_s > 4 * metric.typical_s
    assert parse(shares=shares).samples["npb-cg:class=A/part_by_turn"].tolist() == pytest.approx(
        [0.1, 0.1, 0.1, 0.11, 0.485]
    )


def test_figures_messages_payload_and_times_of_single_passes_are_kept() -> None:
    assert parse().figures == (
        Figure(key="pairs", label="pairs", value=3.0),
        Figure(key="messages sent", label="messages sent", value=4.0),
        Figure(key="mean message", label="mean message", value=8.0, unit="B"),
    )
    assert parse(messages_complete=False, figures=[]).figures == ()
    payload = parse(payload={"bytes_min": 5, "bytes_max": 9, "messages": 2}).payload
    assert (payload.low_bytes, payload.high_bytes, payload.messages) == (5, 9, 2)
    assert payload.known
    assert payload.more
    series = [
        {"name": "round trip", "unit": "s", "values": [1e-5, 2e-5, None]},
        {"name": "edges", "unit": "edges", "values": [7, 8]},
    ]
    samples = parse(series=series).samples
    assert list(samples) == ["npb-cg:class=A/round_trip"]
    assert samples["npb-cg:class=A/round_trip"][:2].tolist() == [1e-5, 2e-5]
    assert parse().samples == {}


def test_what_did_not_pass_is_told_with_its_value() -> None:
    check = {"name": "zeta", "value": 17.2, "expected": 17.130235054029, "tolerance": 1e-10, "passed": False}
    (wrong,) = parse(checks=[check], verified=False).wrong
    assert wrong == "zeta of npb-cg A (17.2 where 17.130235054029 is expected, within 1e-10)"
    (wrong,) = parse(checks=[check | {"value": None}], verified=False).wrong
    assert "no number where" in wrong
    assert parse(checks=[], verified=False).wrong == ("npb-cg A (it verified nothing)",)
    assert parse().wrong == ()


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"elapsed_s": 0.0}, "which is impossible"),
        ({"elapsed_s": None}, "a record does not follow the protocol"),
        ({"elapsed_s": float("nan")}, "which is impossible"),
        ({"operations": -1.0}, "which is impossible"),
        ({"app": "npb-is"}, "a result of npb-is A in place of npb-cg A"),
        ({"class": "S"}, "a result of npb-cg S in place of npb-cg A"),
        ({"class": None}, "a result of npb-cg in place of npb-cg A"),
        ({"parameters": {"x": 1}}, "npb-cg A ran with {'x': 1}"),
        ({"type": "other"}, "npb-cg A printed no result"),
        ({"checks": None}, "a record does not follow the protocol"),
        ({"shares": {"parts": [1, 2], "elapsed_s": [0.1]}}, "reports turns that are impossible"),
        ({"shares": {"parts": [1, 0], "elapsed_s": [0.1, 0.1]}}, "reports turns that are impossible"),
        ({"shares": {"parts": [], "elapsed_s": []}}, "reports turns that are impossible"),
        ({"shares": {"parts": [1e300, 1], "elapsed_s": [1e-300, 0.1]}}, "reports turns that are impossible"),
        ({"shares": {"parts": [1, 1], "elapsed_s": [float("nan"), 0.1]}}, "reports turns that are impossible"),
        ({"shares": {"parts": [1], "elapsed_s": [float("inf")]}}, "reports turns that are impossible"),
        ({"shares": {"parts": [1] * 10001, "elapsed_s": [0.1] * 10001}}, "reports turns that are impossible"),
        ({"shares": {"parts": [1]}}, "a record does not follow the protocol"),
    ],
)
def test_what_is_no_result_of_the_application_is_refused(values: dict[str, Any], told: str) -> None:
    with pytest.raises(OutputError, match=re.escape(told)):
        parse(**values)


def test_an_output_that_was_cut_off_anywhere_is_never_a_result() -> None:
    whole = said().rstrip("\n")
    for length in range(0, len(whole), 7):
        with pytest.raises(OutputError):
            PLUGIN.parse(CG, whole[:length])
