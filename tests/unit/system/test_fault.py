"""Fault points: inert unless asked for, listed in CONTRIBUTING.md, each in one place of the product."""

from __future__ import annotations

import os
import re
import signal
from collections import Counter
from pathlib import Path

import pytest

from tare.errors import RefusedError
from tare.system import fault

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Record the signals instead of sending them, and begin without points reached."""
    found: list[tuple[int, int]] = []
    monkeypatch.delenv(fault.VARIABLE, raising=False)
    monkeypatch.setattr(fault, "_reached", Counter())
    monkeypatch.setattr(os, "kill", lambda pid, number: found.append((pid, number)))
    return found


def test_every_point_is_listed_in_contributing_and_reached_in_one_place() -> None:
    listed = re.findall(r"^\| `(\w+:[\w-]+)` \|", (REPOSITORY / "CONTRIBUTING.md").read_text(), flags=re.MULTILINE)
    sources = (path.read_text() for path in sorted((REPOSITORY / "src/tare").rglob("*.py")))
    reached = [point for text in sources for point in re.findall(r'\breach\("([^"]+)"\)', text)]
    assert tuple(listed) == fault.POINTS
    assert sorted(reached) == sorted(fault.POINTS)


def test_without_the_variable_nothing_is_counted_and_no_signal_is_sent(sent: list[tuple[int, int]]) -> None:
    for point in fault.POINTS:
        fault.reach(point)
    assert (sent, fault._reached) == ([], {})


@pytest.mark.parametrize(
    ("stated", "times"),
    [
        ("lab:up", [signal.SIGKILL, None, None]),
        ("lab:up:2", [None, signal.SIGKILL, None]),
        ("lab:up:INT", [signal.SIGINT, None, None]),
        ("store:after-trial, lab:up:2:STOP,lab:up:3:TERM", [None, signal.SIGSTOP, signal.SIGTERM]),
    ],
)
def test_a_point_is_counted_by_itself_and_sends_its_signal_to_this_process_the_nth_time(
    stated: str, times: list[int | None], sent: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(fault.VARIABLE, stated)
    for number in times:
        before = len(sent)
        fault.reach("lab:held")
        fault.reach("lab:up")
        assert sent[before:] == ([] if number is None else [(os.getpid(), number)])


@pytest.mark.parametrize("stated", ["lab", "lab:nowhere", "lab:up:HUP", "lab:up:2:TERM:more", "lab:up:x", "lab:up,"])
def test_what_is_no_point_is_refused_with_those_that_are(stated: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(fault.VARIABLE, stated)
    with pytest.raises(RefusedError) as raised:
        fault.reach("lab:up")
    assert all(point in raised.value.remedy for point in fault.POINTS)
