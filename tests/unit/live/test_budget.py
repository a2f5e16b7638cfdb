"""The page uses at most one per cent of a core, and renders nothing that takes long."""

from __future__ import annotations

from tare.live.budget import ANSWERS_SHARE, LONGEST_RENDERING_S, RENDERING_SHARE, TRIAL_S, Budget


class Clock:
    """Seconds that pass only when a test says so."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_renderings_use_less_than_their_share_over_a_long_run() -> None:
    clock, cpu, rendered = Clock(), Clock(), 0
    budget = Budget(clock, cpu)
    for _ in range(10_000):
        clock.now_s += 1.0
        if budget.allows_rendering(100):
            rendered += 1
            with budget.of_rendering(100):
                cpu.now_s += 0.4
    assert cpu.now_s <= RENDERING_SHARE * clock.now_s
    assert rendered >= 0.9 * RENDERING_SHARE * 10_000 / 0.4, "it renders far less than it may"


def test_answers_use_less_than_their_share_whatever_is_asked() -> None:
    clock, cpu = Clock(), Clock()
    budget = Budget(clock, cpu)
    for _ in range(100_000):
        clock.now_s += 0.1
        if budget.allows_answers():
            with budget.of_answers():
                cpu.now_s += 0.002
                clock.now_s += 0.002
    assert 0.9 * ANSWERS_SHARE <= cpu.now_s / clock.now_s <= 1.1 * ANSWERS_SHARE
    assert ANSWERS_SHARE + RENDERING_SHARE <= 0.01


def test_slow_browsers_hold_the_run_up_for_at_most_one_per_cent_of_it() -> None:
    clock = Clock()
    budget, waited_s = Budget(clock, Clock()), 0.0
    while clock.now_s < 10_000:
        clock.now_s += 1.0
        if budget.allows_answers():
            with budget.of_answers():
                clock.now_s += 0.75
                waited_s += 0.75
    assert waited_s <= 0.0101 * clock.now_s + 1.75


def test_what_is_expected_to_take_long_is_not_rendered() -> None:
    clock, cpu = Clock(), Clock()
    budget = Budget(clock, cpu)
    clock.now_s = 1e6
    assert budget.allows_rendering(100)
    assert not budget.allows_rendering(int(LONGEST_RENDERING_S / TRIAL_S))
    with budget.of_rendering(100):
        cpu.now_s += LONGEST_RENDERING_S + 1
    assert budget.too_large(100)
    assert not budget.allows_rendering(100)
