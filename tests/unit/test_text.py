"""Figures inside sentences have three digits, and no exponent."""

from __future__ import annotations

import math

import pytest

from tare.text import three_digits


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
