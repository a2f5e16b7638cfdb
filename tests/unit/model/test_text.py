"""Foreign text cannot control the terminal; values in sentences have three digits and no exponent."""

from __future__ import annotations

import math

import pytest

from tare.model.text import printable, three_digits


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


def test_text_of_several_lines_keeps_line_ends_and_tabs_alone() -> None:
    assert printable("a\n\tb\r\x1b[A", lines=True) == "a\n\tb\\r\\x1b[A"


def test_every_character_is_printable_in_the_end_and_twice_is_once() -> None:
    every = "".join(map(chr, range(0x110000)))
    shown = printable(every)
    shown.encode("utf-8")
    assert not set(map(chr, (*range(32), *range(127, 160)))) & set(shown)
    assert printable(shown) == shown
