"""The fuzzers' own loop: it stops in time, finds what is there, and says how to find it again."""

from __future__ import annotations

import time

import pytest
from hypothesis import strategies as st

from fuzz import fuzzing
from fuzz.fuzzing import TooSlow, fuzz


def test_a_check_that_holds_runs_until_the_budget_is_used_up(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[int] = []
    started = time.monotonic()
    fuzz(st.integers(), seen.append, budget_s=2)  # the first example may take .6 s on a busy machine
    assert 2 <= time.monotonic() - started < 10
    assert len(seen) > 1
    assert f"{len(seen)} examples in" in capsys.readouterr().out


def test_a_slow_check_does_not_overrun_its_budget_by_more_than_an_example() -> None:
    started = time.monotonic()
    fuzz(st.integers(), lambda value: time.sleep(0.1), budget_s=0.25)
    assert time.monotonic() - started < 2


def test_a_failure_is_made_smaller_and_its_seed_repeats_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def small(value: int) -> None:
        assert value < 1000

    with pytest.raises(AssertionError) as caught:
        fuzz(st.integers(), small, budget_s=5)
    (note,) = [note for note in caught.value.__notes__ if note.startswith("found after")]
    monkeypatch.setenv("TARE_FUZZ_SEED", note.split("=")[1].split()[0])
    with pytest.raises(AssertionError) as again:
        fuzz(st.integers(), small, budget_s=5)
    assert any("small(1000)" in text or "value=1000" in text for text in again.value.__notes__)


def test_an_example_that_takes_too_much_time_or_memory_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzzing, "EXAMPLE_CPU_S", 0.2)

    def spin(value: None) -> None:
        while True:
            pass

    with pytest.raises(TooSlow):
        fuzz(st.none(), spin, budget_s=1)

    def hoard(value: None) -> None:
        bytearray(4 << 30)

    with pytest.raises(MemoryError):
        fuzz(st.none(), hoard, budget_s=1)
