"""Quantities are parsed as users write them; errors state what is allowed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.model.quantities import parse_bit_rate, parse_bytes, parse_duration, parse_fraction, parse_frequency


@pytest.mark.parametrize(
    ("text", "size"),
    [("64KiB", 65536), ("8", 8), (8, 8), ("8 B", 8), ("1MiB", 1 << 20), ("1.5KiB", 1536), ("1e3", 1000), ("4kB", 4000)],
)
def test_sizes_are_read_in_bytes(text: object, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize(("text", "seconds"), [("5min", 300), ("90s", 90), ("2h", 7200), ("10ms", 0.01), (3, 3.0)])
def test_durations_are_read_in_seconds(text: object, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(("text", "fraction"), [("2%", 0.02), ("0.5 %", 0.005), (0.02, 0.02), ("120%", 1.2)])
def test_percentages_are_parsed_as_fractions(text: object, fraction: float) -> None:
    assert parse_fraction(text) == pytest.approx(fraction)


@pytest.mark.parametrize(("text", "rate"), [("10Gbit", 10**10), ("100Mbps", 10**8), ("1Gbit/s", 10**9), (0, 0)])
def test_link_rates_are_read_in_bits_a_second(text: object, rate: int) -> None:
    assert parse_bit_rate(text) == rate


@pytest.mark.parametrize(("text", "rate"), [("10kHz", 10000.0), (10000, 10000.0), ("5/s", 5.0)])
def test_frequencies_are_read_in_hertz(text: object, rate: float) -> None:
    assert parse_frequency(text) == rate


@pytest.mark.parametrize(
    ("parse", "text", "part"),
    [
        (parse_bytes, "64K", "KiB"),
        (parse_bytes, "64kib", "did you mean KiB?"),
        (parse_bytes, "0.5", "whole number"),
        (parse_bytes, "-8", "non-negative"),
        (parse_bytes, True, "not a size"),
        (parse_bytes, None, "not a size"),
        (parse_bytes, float("nan"), "not a size"),
        (parse_bytes, 10**400, "not a size"),
        (parse_bytes, "1e999", "not a size"),
        (parse_duration, "5 fortnights", "min or h"),
        (parse_duration, "-1s", "negative"),
        (parse_fraction, 2, "write 2% or 0.02"),
        (parse_fraction, "2s", "2% or 0.02"),
        (parse_bit_rate, "10GB", "Gbit"),
        (parse_bit_rate, "-1Gbit", "negative"),
        (parse_frequency, 0, "above 0"),
    ],
)
def test_an_invalid_quantity_has_an_error_that_states_what_is_allowed(
    parse: Callable[[object], float], text: object, part: str
) -> None:
    with pytest.raises(ValueError, match=r"\w") as caught:
        parse(text)
    assert part in str(caught.value)


@given(st.integers(min_value=0, max_value=2**50), st.sampled_from([("KiB", 1024), ("MiB", 2**20), ("B", 1), ("", 1)]))
def test_whole_sizes_are_exact(number: int, unit: tuple[str, int]) -> None:
    assert parse_bytes(f"{number}{unit[0]}") == number * unit[1]


@given(st.text())
def test_any_text_is_read_or_refused_by_a_value_error(text: str) -> None:
    for parse in (parse_bytes, parse_duration, parse_fraction, parse_bit_rate, parse_frequency):
        with contextlib.suppress(ValueError):
            parse(text)
