"""Quantities are parsed as users write them, and values in sentences have three digits; foreign text steers nothing."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.model.quantities import parse_bit_rate, parse_bytes, parse_duration, parse_fraction, parse_frequency
from tare.model.text import printable, three_digits

READ = {
    parse_bytes: {"64KiB": 65536, "8": 8, 8: 8, "8 B": 8, "1MiB": 1 << 20, "1.5KiB": 1536, "1e3": 1000, "4kB": 4000},
    parse_duration: {"5min": 300, "90s": 90, "0.5h": 1800, "45": 45, "10ms": 0.01, 3: 3.0},
    parse_fraction: {"2%": 0.02, "0.5 %": 0.005, 0.02: 0.02, "120%": 1.2},
    parse_bit_rate: {"10Gbit": 10**10, "100Mbps": 10**8, "1Gbit/s": 10**9, 0: 0},
    parse_frequency: {"10kHz": 10000.0, 10000: 10000.0, "5/s": 5.0},
}


@pytest.mark.parametrize("parse", READ)
def test_quantities_are_read_in_bytes_seconds_fractions_bits_a_second_and_hertz(
    parse: Callable[[object], float],
) -> None:
    assert {text: parse(text) for text in READ[parse]} == pytest.approx(READ[parse])


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


@pytest.mark.parametrize(
    ("value", "sign", "text"),
    [
        (181212.4, "", "181,212"),
        (999.6, "", "1,000"),
        (999.4, "", "999"),
        (23.24, "+", "+23.2"),
        (-1234.5, "+", "-1,234"),
        (0.0, "+", "+0"),
        (0.0123, "", "0.0123"),
        (math.inf, "+", "+inf"),
    ],
)
def test_a_figure_has_three_digits_or_all_before_the_point(value: float, sign: str, text: str) -> None:
    assert three_digits(value, sign) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain µs – ≈ 漢字 \u00a0", "plain µs – ≈ 漢字 \u00a0"),
        ("\x1b[2J\x07", r"\x1b[2J\x07"),
        ("\x9b31m\x85", r"\x9b31m\x85"),
        ("a\rb\nc\td\x7f", r"a\rb\nc\td\x7f"),
        ("\u202egnorw\u2066", r"\u202egnorw\u2066"),
        ("\ud800", r"\ud800"),
        ("\u2028", r"\u2028"),
    ],
)
def test_control_characters_are_shown_as_escapes(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_text_of_several_lines_keeps_them_and_in_the_end_every_character_is_printable() -> None:
    assert printable("a\n\tb\r\x1b[A", lines=True) == "a\n\tb\\r\\x1b[A"
    every = "".join(map(chr, range(0x110000)))
    shown = printable(every)
    shown.encode("utf-8")
    assert not set(map(chr, (*range(32), *range(127, 160)))) & set(shown)
    assert printable(shown) == shown
