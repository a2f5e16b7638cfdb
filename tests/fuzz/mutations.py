"""Strategies that change something valid a little: texts by their lines and words, JSON values by their branches."""

from __future__ import annotations

import marshal
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from hypothesis import strategies as st

STEERING: Final = "\x1b]0;owned\x07\x9b2J\u202e\r\n[bold][link=x]"
TOKENS: Final = (
    "", "0", "-1", "1", "nan", "inf", "-inf", "1e308", "1e400", "-1e400", "1e-320", "9" * 20, "9" * 400, "9" * 5000,
    "0x10", "null", "true", "[]", "{}", "[" * 3000, "{" * 3000, '{"a":' * 3000, "x" * 5000, STEERING,
    "\x00", "\ud800", "é漢字", "-", ":", "=", "*a", "&a [*a]", "!!python/object:os.system", "<<", "~",
    "1000000", "4000x4000", "../../etc/passwd", "/dev/zero",
)  # fmt: skip
NUMBERS: Final = (
    "0", "-1", "7", "1000000", "4096", "65536", "1e9", "nan", "inf", "1e400", "0.5", "9" * 20, "1" * 400,
)  # fmt: skip
VALUES: Final = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, 10**30, 10**400, 0.5, -0.5, 1e-320, 1e90, 1e308,
    float("nan"), float("inf"), "", "nan", "inf", "-inf", "x" * 5000, STEERING, "\ud800", "../../x",
    [], {}, [[[[[]]]]], {"type": "Plan"}, {"type": []}, [None], {"a": {"b": {"c": {}}}},
    "Completed", "baseline", "a/a", "environment",
)  # fmt: skip
NUMERIC: Final = (*(value for value in VALUES if isinstance(value, int | float)), "nan", "inf")
_WORD: Final = re.compile(r"[^\s,:=\"\[\]{}]+")
_NUMBER: Final = re.compile(r"\d[\d.eE+-]*")
_NUMBERS: Final = st.sampled_from(NUMBERS)
_TOKENS: Final = st.sampled_from(TOKENS) | st.text(max_size=8)


@st.composite
def changed_texts(draw: st.DrawFn, bases: Sequence[str]) -> str:
    """Draw one of the texts with a few of its words or lines replaced, doubled, moved or cut off."""
    text = draw(st.sampled_from(bases))
    for _ in range(draw(st.integers(1, 4))):
        how = draw(st.integers(0, 9))
        pattern, others = (_NUMBER, _NUMBERS) if how <= 2 else (_WORD, _TOKENS)
        words = list(pattern.finditer(text)) if how <= 4 else []
        if words:
            word = words[draw(st.integers(0, len(words) - 1))]
            text = text[: word.start()] + draw(others) + text[word.end() :]
        elif how == 5:
            at = draw(st.integers(0, len(text)))
            text = text[:at] + draw(st.sampled_from(TOKENS) | st.text(max_size=3)) + text[at:]
        elif how == 6:
            text = text[: draw(st.integers(0, len(text)))]
        else:
            lines = text.splitlines(keepends=True)
            if lines:
                line = lines.pop(draw(st.integers(0, len(lines) - 1)))
                lines[draw(st.integers(0, len(lines))) : 0] = [line] * (how - 7)
            text = "".join(lines)
    return text


@st.composite
def changed_values(draw: st.DrawFn, bases: Sequence[Any]) -> Any:
    """Draw one of the JSON values with a few of its branches replaced, taken away, doubled or put elsewhere."""
    value = _copied(draw(st.sampled_from(bases)))
    for _ in range(draw(st.integers(1, 3))):
        branches = list(_branches(value))
        if not branches:
            return _copied(draw(st.sampled_from(VALUES)))
        how = draw(st.integers(0, 9))
        if how <= 3:  # one branch in four is a number, and most that is odd about numbers is odd there only
            branches = [each for each in branches if isinstance(each[0][each[1]], int | float)] or branches
        holder, key = branches[draw(st.integers(0, len(branches) - 1))]
        if how <= 3 and isinstance(holder[key], int | float):
            holder[key] = draw(st.sampled_from(NUMERIC))
        elif how <= 5:
            holder[key] = _copied(draw(st.sampled_from(VALUES) | st.integers() | st.text(max_size=5)))
        elif how <= 7:
            del holder[key]
        elif how == 8:
            other, elsewhere = branches[draw(st.integers(0, len(branches) - 1))]
            holder[key] = _copied(other[elsewhere])
        elif isinstance(holder, list):
            holder.append(_copied(holder[key]))
        else:
            holder[draw(st.sampled_from(TOKENS))] = _copied(holder[key])
    return value


def _copied(value: Any) -> Any:
    return marshal.loads(marshal.dumps(value))  # ten times as fast as copy.deepcopy


def _branches(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the holder and key of every value inside."""
    if isinstance(value, dict | list):
        for key, inner in list(value.items() if isinstance(value, dict) else enumerate(value)):
            yield value, key
            yield from _branches(inner)
