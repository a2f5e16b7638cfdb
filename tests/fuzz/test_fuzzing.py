"""The fuzzers' own loop: it stops, finds what is there, and says how to find it again."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import strategies as st

from fuzz import fuzzing
from fuzz.fuzzing import TooSlow, fuzz


@pytest.mark.parametrize(("budget_s", "examples"), [(0.5, 1), (299.5, 300)])
def test_a_check_that_holds_runs_until_the_budget_is_used_up(
    budget_s: float, examples: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[int] = []
    monkeypatch.setattr(fuzzing, "time", SimpleNamespace(monotonic=lambda: len(seen)))  # a second for each example
    fuzz(st.integers(), seen.append, budget_s=budget_s)
    assert len(seen) == examples
    assert f"{examples} examples in {examples:.1f} s" in capsys.readouterr().out


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
