"""A launch is disturbed if others used much of the machine while it ran, and only if that is known."""

from __future__ import annotations

import os

import pytest

from tare import monitor
from tare.disturbance import is_disturbed, share
from tare.model import Completed, Trial, TrialKey


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
def test_what_is_not_known_disturbs_nothing(noise: dict[str, float]) -> None:
    assert share(trial(**noise)) is None
    assert not is_disturbed(trial(**noise))


def test_a_trial_that_never_started_has_no_share() -> None:
    assert share(trial(elapsed_s=0.0, cores=2.0, job_s=1.0, background_s=1.0)) is None


def test_the_monitor_tells_the_cores_that_the_share_is_of() -> None:
    before = monitor.Reading(busy_s=10.0, job_s=1.0, ours_s=1.5)
    noise = monitor.noise(before, monitor.Reading(busy_s=14.0, job_s=4.0, ours_s=4.5, steal_s=0.5))
    cores = os.cpu_count() or 0
    assert noise == {"cores": cores, "background_s": 1.0, "job_s": 3.0, "steal_s": 0.5, "softirq_s": 0.0}
    assert share(trial(elapsed_s=1.0, **noise)) == pytest.approx(1.5 / cores)
