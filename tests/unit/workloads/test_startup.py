"""A start-up is timed from the launcher's start, with caches that are known."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.cli import commands, session
from tare.errors import InfrastructureError
from tare.model import Caches, Completed, MetricKind, Placement, Workload
from tare.report import view
from tare.run.deploy.timing import made
from tare.store.writer import read_only
from tare.system.node import page_cache
from tare.workloads import WORKLOADS, LaunchTiming
from tare.workloads.output import OutputError, Parsed
from tare.workloads.startup import LABELS, MODULES
from unit.launch_records import END, text
from unit.runs import CELLS, known_study

WARM = Workload(name="warm", startup=Caches.WARM)
COLD = Workload(name="cold", startup=Caches.COLD)
COLD_FILES = Workload(name="cold files", miniapp="io-metadata:image=1,cold=1")
WARM_FILES = Workload(name="warm files", miniapp="io-metadata:image=1")
BEGAN = LaunchTiming(launched_s=100.0, ended_s=102.0, pods_s=0.75)


def said(ranks: int = 2, **changes: Any) -> str:
    """Return what a start-up says; rank r is 10 ms later than rank r - 1."""
    told: dict[str, Any] = {
        "type": "startup", "modules": MODULES, "wrong_modules": 0, "verified": True,
        "rank_main_s": [100.5 + rank / 100 for rank in range(ranks)],
        "rank_init_s": [0.25 + rank / 100 for rank in range(ranks)],
        "rank_ready_s": [101.0 + rank / 100 for rank in range(ranks)],
        "rank_modules_s": [0.02 + rank / 100 for rank in range(ranks)],
        **changes,
    }  # fmt: skip
    places = [
        {"type": "rank", "rank": rank, "hostname": "n0", "boot_id": "b", "pid": 7 + rank, "namespaces": {}}
        for rank in range(ranks)
    ]
    start = {"type": "start", "protocol": 1, "ranks": ranks, "mpi_library": "Open MPI 4.1.4", "init_s": 0.26}
    return text(start, *places, told, END)


def parse(output: str, began: LaunchTiming = BEGAN) -> Parsed:
    return WORKLOADS["startup"].parse(WARM, output, began)


def test_a_start_up_is_timed_from_the_launcher_s_start_to_the_last_rank_as_announced() -> None:
    found = {metric.key: metric.value for metric in parse(said()).metrics}
    steps = {"pods": 0.75, "main": 0.51, "mpi_init": 0.26, "ready": 1.01, "start": 1.76, "modules": 0.03}
    assert found == pytest.approx(steps)
    announced = WORKLOADS["startup"].metrics(WARM, Placement())
    assert [(i.key, i.label, i.kind) for i in announced] == [(m.key, m.label, m.kind) for m in parse(said()).metrics]
    assert [info.key for info in announced] == list(LABELS)
    assert {info.kind for info in announced} == {MetricKind.COST}
    assert all(info.added_first for info in announced)
    assert all(metric.added_first for metric in parse(said()).metrics)
    parsed = parse(said())
    assert (parsed.init_s, parsed.measured_s) == pytest.approx((0.26, 0.03))
    assert not parsed.payload.known
    assert parse(said(verified=False, wrong_modules=3)).wrong == (f"3 of {MODULES} small files",)
    with pytest.raises(OutputError, match="timed from its launch"):
        WORKLOADS["startup"].parse(WARM, said())


@pytest.mark.parametrize(
    ("changes", "said_of_it"),
    [
        ({"rank_main_s": [99.9, 100.5]}, "clocks of launcher and ranks differ"),
        ({"rank_ready_s": [101.0, 102.1]}, "clocks of launcher and ranks differ"),
        ({"rank_ready_s": [100.0, 100.2]}, "clocks of launcher and ranks differ"),
        ({"rank_init_s": [0.2]}, "not all of 2 ranks reported"),
        ({"type": "other"}, "printed no record of its start-up"),
        ({"rank_main_s": None}, "does not follow the protocol"),
    ],
)
def test_what_cannot_be_a_start_up_is_no_result(changes: dict[str, Any], said_of_it: str) -> None:
    with pytest.raises(OutputError, match=said_of_it):
        parse(said(**changes))


@given(st.integers(1, 20), st.floats(0, 50), st.floats(1e-6, 1e-3))
def test_the_last_rank_counts_whenever_the_launcher_was_started(ranks: int, earlier_s: float, pods_s: float) -> None:
    began = LaunchTiming(launched_s=100.0 - earlier_s, ended_s=103.0, pods_s=pods_s)
    found = {metric.key: metric for metric in parse(said(ranks), began).metrics}
    assert found["main"].value == pytest.approx(0.5 + earlier_s + (ranks - 1) / 100)
    assert found["main"].value - found["main"].rank_average_s == pytest.approx((ranks - 1) / 200, abs=1e-9)
    assert found["pods"].value == pods_s


@contextmanager
def noted(events: list[str]) -> Iterator[str]:
    events.append("up")
    yield "the pods"
    events.append("down")


@pytest.mark.parametrize(
    ("wanted", "before"),
    [
        ({None}, []),
        ({Caches.COLD}, ["dropped"]),
        ({Caches.WARM, None}, ["up", "down"]),
        ({Caches.COLD, Caches.WARM}, ["dropped", "up", "down"]),
    ],
)
def test_pods_are_made_once_more_where_a_start_up_wants_to_know_how_long_that_takes(
    wanted: set[Caches | None], before: list[str]
) -> None:
    events: list[str] = []
    with ExitStack() as stack:
        found = made(lambda: noted(events), stack, wanted, lambda: events.append("dropped"))
        assert events == [*before, "up"]
        assert found.up == "the pods"
        assert set(found.took_s) == wanted | {None}
        assert all(took_s > 0 for took_s in found.took_s.values())
    assert events == [*before, "up", "down"]


@pytest.fixture
def dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note where caches would be dropped, and drop none; leave other runs on this machine alone."""
    found: list[str] = []
    monkeypatch.setattr(page_cache, "drop", lambda: found.append("dropped"))
    monkeypatch.setattr(page_cache, "missing", lambda: None)
    monkeypatch.setattr("tare.agent.clean.hierarchies", lambda: ())
    monkeypatch.setattr("tare.agent.clean.run_folder", lambda: tmp_path / "run")
    monkeypatch.setattr("tare.agent.clean._holder_of", lambda entry: None)
    monkeypatch.delenv("TARE_FAKE_FAULT", raising=False)
    return found


def test_a_study_of_start_ups_drops_caches_for_the_cold_ones_only(tmp_path: Path, dropped: list[str]) -> None:
    stated = replace(known_study(rounds=2), workloads=(WARM, COLD))
    assert commands.run_plan(stated, tmp_path / "r") in {0, 3}
    trials = read_only(tmp_path / "r").trials
    assert len(trials) == 2 * 2 * CELLS
    assert all(isinstance(trial.outcome, Completed) for trial in trials)
    cold = [trial for trial in trials if trial.key.cell.startswith("cold")]
    assert {trial.counters.get("caches_dropped") for trial in cold} == {1}
    assert not any("caches_dropped" in trial.counters for trial in trials if trial not in cold)
    assert len(dropped) == len(cold) + 2 * CELLS  # before the pods of every environment in every round, too
    for trial in trials:
        values = {metric.key: metric.value for metric in trial.outcome.metrics}
        assert values["pods"] == trial.startup_s["pods_s"] > 0
        assert 0 < values["main"] < values["ready"] < trial.elapsed_s


def test_the_added_time_of_a_step_is_read_first_however_long_bare_takes(tmp_path: Path, dropped: list[str]) -> None:
    commands.run_plan(replace(known_study(rounds=3), workloads=(WARM,)), tmp_path / "r")
    summary = session.summary_of(read_only(tmp_path / "r"))
    columns = [column for group in view.groups(summary) for column in group.columns]
    assert {column.info.key for column in columns if column.leads_with_time} == set(LABELS)
    assert any((column.base_s or 0) > view.SMALL_COST_S for column in columns)


def test_caches_are_dropped_for_cold_files_and_not_for_other_workloads(tmp_path: Path, dropped: list[str]) -> None:
    commands.run_plan(known_study(rounds=1, kernels=1), tmp_path / "r")
    assert dropped == []
    assert all(
        set(trial.startup_s) == {"pods_s", "mpi_init_s", "launch_s"} for trial in read_only(tmp_path / "r").trials
    )
    commands.run_plan(replace(known_study(rounds=1), workloads=(WARM_FILES, COLD_FILES)), tmp_path / "s")
    trials = read_only(tmp_path / "s").trials
    cold = {trial.key.cell for trial in trials if trial.counters.get("caches_dropped")}
    assert {key.split(" / ")[0] for key in cold} == {"cold files"}
    assert len(cold) == len(dropped) == CELLS


def test_a_cold_launch_is_unavailable_where_caches_cannot_be_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_cache, "missing", lambda: "no caches can be dropped here")
    plan = session.make_plan(replace(known_study(rounds=1), workloads=(WARM, COLD, WARM_FILES, COLD_FILES)))
    assert {key.split(" / ")[0] for key in plan.unavailable} == {"cold", "cold files"}
    assert set(plan.unavailable.values()) == {"no caches can be dropped here"}


def test_caches_that_cannot_be_dropped_are_told_and_a_drop_asks_for_pages_and_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_cache, "DROP", tmp_path / "drop_caches")
    assert "has no" in str(page_cache.missing())
    (tmp_path / "drop_caches").touch()
    assert page_cache.missing() is None
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert "cannot be written here" in str(page_cache.missing())
    monkeypatch.setattr("os.sync", lambda: None)
    page_cache.drop()
    assert (tmp_path / "drop_caches").read_text() == "3\n"
    monkeypatch.setattr(page_cache, "DROP", tmp_path)  # a folder cannot be written to
    with pytest.raises(InfrastructureError, match="cannot be dropped"):
        page_cache.drop()
