"""A launch is disturbed if others used much of the machine while it ran, and only if that is known."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from tare.counters import monitor
from tare.model import Completed, Interrupted, Trial, TrialKey
from tare.store.schedule import ledger_of
from tare.summary.disturbance import is_disturbed, repeats_left, share, wants_repeat


def trial(elapsed_s: float = 2.0, **noise: float) -> Trial:
    key = TrialKey(cell="c", round=0, block=0, attempt=0)
    outcome = Completed(metrics=())
    return Trial(key=key, position=0, started_unix_s=0.0, elapsed_s=elapsed_s, outcome=outcome, noise=noise)


def test_the_share_is_that_of_others_and_of_other_guests_in_all_cores() -> None:
    one = trial(cores=4.0, job_s=3.0, background_s=0.5, steal_s=0.3, softirq_s=9.0)
    assert share(one) == pytest.approx(0.1)
    assert not is_disturbed(one)
    assert is_disturbed(trial(cores=4.0, job_s=3.0, background_s=1.0, steal_s=0.3))


@pytest.mark.parametrize(
    "noise", [{}, {"background_s": 9.0, "job_s": 1.0}, {"cores": 2.0, "background_s": 9.0, "job_s": 0.0}]
)
def test_an_unknown_state_is_no_disturbance(noise: dict[str, float]) -> None:
    assert share(trial(**noise)) is None
    assert not is_disturbed(trial(**noise))


def test_a_trial_that_never_started_has_no_share() -> None:
    assert share(trial(elapsed_s=0.0, cores=2.0, job_s=1.0, background_s=1.0)) is None


def test_the_monitor_tells_the_cores_that_the_share_is_of() -> None:
    before = monitor.CounterValues(busy_s=10.0, job_s=1.0, ours_s=1.5)
    noise = monitor.noise(before, monitor.CounterValues(busy_s=14.0, job_s=4.0, ours_s=4.5, steal_s=0.5))
    cores = os.cpu_count() or 0
    assert noise == {"cores": cores, "background_s": 1.0, "job_s": 3.0, "steal_s": 0.5, "softirq_s": 0.0}
    assert share(trial(elapsed_s=1.0, **noise)) == pytest.approx(1.5 / cores)


def test_softirq_is_not_counted_as_other_programs() -> None:
    before = monitor.CounterValues(busy_s=10.0, job_s=1.0, ours_s=1.0)
    after = monitor.CounterValues(busy_s=14.0, job_s=2.0, ours_s=2.0, softirq_s=2.5)
    noise = monitor.noise(before, after)
    assert (noise["background_s"], noise["softirq_s"]) == (0.5, 2.5)
    assert monitor.noise(before, replace(after, softirq_s=9.0))["background_s"] == 0.0


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
