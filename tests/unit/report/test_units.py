"""Values have the digits that their intervals support, share one unit, and are ASCII on request."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.model import Estimate
from tare.report import units


def _estimate(value: float, low: float, high: float) -> Estimate:
    return Estimate(value=value, low=low, high=high, n=10)


@pytest.mark.parametrize(
    ("value", "text"),
    [(4.81e-6, "4.81 µs"), (1.0, "1.00 s"), (8.3e-8, "83.0 ns"), (0.0123, "12.3 ms"), (0.0, "0.00 s")],
)
def test_a_time_has_the_largest_unit_in_which_it_is_at_least_one(value: float, text: str) -> None:
    assert units.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 B"), (8, "8 B"), (65536, "64 KiB"), (1 << 20, "1 MiB"), (1500, "1.5 KiB")]
)
def test_sizes_are_binary(value: int, text: str) -> None:
    assert units.size(value) == text


def test_rates_are_decimal() -> None:
    assert units.rate(3.1e9) == "3.10 GB/s"
    assert units.rate(820e6) == "820 MB/s"


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (_estimate(4.8e-6, 4.5e-6, 5.1e-6), "+4.8 µs [4.5, 5.1]"),
        (_estimate(-58e-9, -497e-9, 380e-9), "\u221258 ns [\u2212497, 380]"),
        (_estimate(0.0, -1e-8, 1e-8), "0 ns [\u221210, 10]"),
        (_estimate(0.0123, 0.0101, 0.0142), "+12 ms [10, 14]"),
    ],
)
def test_an_added_time_and_its_interval_share_unit_and_digits(estimate: Estimate, text: str) -> None:
    assert str(units.time_interval(estimate, sign=True)) == text


def test_an_added_time_takes_the_unit_of_its_reference_if_it_is_readable_in_it() -> None:
    small = _estimate(5e-8, -3e-8, 1.4e-7)
    assert str(units.time_interval(small, sign=True, reference_s=8e-6)) == "+0.05 µs [\u22120.03, 0.14]"
    assert str(units.time_interval(small, sign=True, reference_s=1.0)) == "+50 ns [\u221230, 140]"


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (_estimate(0.59, 0.55, 0.63), "+59 % [55, 63]"),
        (_estimate(-0.031, -0.040, -0.022), "\u22123.1 % [\u22124.0, \u22122.2]"),
        (_estimate(25.0, 24.0, 26.1), "×26.0 [25.0, 27.1]"),
        (_estimate(0.0, 0.0, 0.0), "0.00 % [0.00, 0.00]"),
    ],
)
def test_an_overhead_is_a_percentage_or_a_multiple_if_it_is_tenfold(estimate: Estimate, text: str) -> None:
    assert str(units.overhead_interval(estimate)) == text


def test_the_interval_of_a_rate_is_turned_around() -> None:
    shown = units.rate_interval(_estimate(1e-3, 0.9e-3, 1.1e-3), 1_000_000)
    assert str(shown) == "1.00 GB/s [0.91, 1.11]"


@given(st.floats(-1e3, 1e3, allow_subnormal=False), st.floats(1e-3, 1e3), st.booleans())
def test_any_interval_is_shown_with_different_bounds_and_as_ascii_on_request(
    middle: float, half: float, compact: bool
) -> None:
    estimate = _estimate(middle, middle - half, middle + half)
    for shown in (units.time_interval(estimate, sign=True, compact=compact), units.overhead_interval(estimate)):
        low, high = shown.bounds.strip("[]").split(", ")
        if half > 0.02 * abs(middle):
            assert low != high
        assert units.to_ascii(str(shown)).isascii()


def test_zero_has_no_sign() -> None:
    assert units.number(-0.001, 1, sign=True) == "0.0"
    assert units.number(-0.06, 1) == "\u22120.1"


def test_infinities_are_not_printed_as_numbers() -> None:
    assert units.number(math.inf, 2) == "∞"
    assert units.number(math.nan, 2) == "n/a"


def test_characters_without_an_ascii_equivalent_become_question_marks() -> None:
    assert units.to_ascii("±2 % · 4 µs → ×3 ≤ 日") == "+-2 % - 4 us -> x3 <= ?"


def test_a_number_and_its_unit_stay_on_one_line() -> None:
    assert units.keep_together("adds 4.9 µs (59 %) at 64 KiB, n = 10") == (
        "adds 4.9\u00a0µs (59\u00a0%) at 64\u00a0KiB, n\u00a0=\u00a010"
    )


def test_a_rate_whose_cost_may_be_zero_has_no_upper_bound() -> None:
    shown = units.rate_interval(_estimate(1e-3, -0.5e-3, 2.5e-3), 1_000_000)
    assert str(shown).startswith("1.0")
    assert shown.bounds.endswith("∞]")
    assert units.to_ascii(shown.bounds).endswith("inf]")
