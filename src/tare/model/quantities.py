"""Parse quantities as users write them: `64KiB`, `5min`, `2%`, `10Gbit`, `10kHz`.

`tare.report` formats them. Each function raises `ValueError` with a message for the user that states what is allowed;
the caller prepends the position in the file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

_QUANTITY: Final = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-z%µμ/]*)\s*")

_BYTES: Final = {
    "": 1, "B": 1,
    "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip
_SECONDS: Final = {
    "": 1.0, "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0,
    "min": 60.0, "h": 3600.0,
}  # fmt: skip
_BITS_PER_S: Final = {
    unit + suffix: factor
    for unit, factor in {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}.items()
    for suffix in ("bit", "bit/s", "bps")
} | {"": 1}
_HERTZ: Final = {"": 1.0, "Hz": 1.0, "kHz": 1e3, "MHz": 1e6, "/s": 1.0}


def parse_bytes(text: object) -> int:
    """Parse a size as `64KiB`, `1MB` or a plain number, in bytes; fractions of a byte are refused."""
    value, unit = _split(text, "a size", "8, 64KiB or 1MiB")
    size = value * _factor(unit, _BYTES, text, "a size", "B, kB, MB, GB (1000) or KiB, MiB, GiB (1024)")
    if size < 0 or not size.is_integer():
        raise ValueError(f"a size must be a non-negative whole number of bytes, not {text!r}")
    return int(size)


def parse_duration(text: object) -> float:
    """Parse a duration as `5min`, `90s`, `2h`, `10ms` or a plain number, in seconds."""
    value, unit = _split(text, "a duration", "90s, 5min or 2h")
    seconds = value * _factor(unit, _SECONDS, text, "a duration", "us, ms, s, min or h")
    if seconds < 0:
        raise ValueError(f"a duration must not be negative, not {text!r}")
    return seconds


def parse_fraction(text: object) -> float:
    """Parse a fraction as `2%` or `0.02`; plain numbers of 1 or more are refused as ambiguous."""
    value, unit = _split(text, "a percentage", "2% or 0.02")
    if unit == "%":
        return value / 100
    if unit:
        raise ValueError(f"{text!r} is not a percentage: write it as 2% or 0.02")
    if abs(value) >= 1:
        raise ValueError(f"{text!r} is ambiguous: write {value:g}% or {value / 100:g}")
    return value


def parse_bit_rate(text: object) -> int:
    """Parse a link rate as `10Gbit`, `10Gbit/s`, `100Mbps` or a plain number, in bits per second."""
    value, unit = _split(text, "a link rate", "10Gbit or 100Mbit")
    rate = value * _factor(unit, _BITS_PER_S, text, "a link rate", "bit, kbit, Mbit or Gbit")
    if rate < 0:
        raise ValueError(f"a link rate must not be negative, not {text!r}")
    return round(rate)


def parse_frequency(text: object) -> float:
    """Parse a frequency as `10kHz`, `10000/s` or a plain number, in events per second."""
    value, unit = _split(text, "a rate", "10000 or 10kHz")
    rate = value * _factor(unit, _HERTZ, text, "a rate", "Hz, kHz or MHz")
    if rate <= 0:
        raise ValueError(f"a rate must be above 0, not {text!r}")
    return rate


def _split(text: object, noun: str, example: str) -> tuple[float, str]:
    """Return number and unit; `noun` and `example` are for the message."""
    if not isinstance(text, bool) and isinstance(text, (int, float)):
        number, unit = float(text) if abs(text) < 2**1000 else math.inf, ""
    else:
        match = _QUANTITY.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise ValueError(f"{text!r} is not {noun}: write it as {example}")
        number, unit = float(match[1]), match[2]
    if not math.isfinite(number):
        raise ValueError(f"{text!r} is not {noun}: write it as {example}")
    return number, unit


def _factor(unit: str, units: Mapping[str, float], text: object, noun: str, allowed: str) -> float:
    if unit not in units:
        alike = [known for known in units if known and known.lower() == unit.lower()]
        hint = f"; did you mean {alike[0]}?" if alike else ""
        raise ValueError(f"{text!r} has a unit that is not valid for {noun}: use {allowed}{hint}")
    return units[unit]
