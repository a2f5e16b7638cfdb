"""Nodes are asked at the same time, and all of them have answered before an error is raised."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from tare.deploy.pods import on_each

NODES: Any = [SimpleNamespace(number=number) for number in range(3)]


def test_nodes_are_asked_at_the_same_time_and_answer_in_order() -> None:
    meeting = threading.Barrier(3)

    def answer(node: Any) -> int:
        meeting.wait()
        return int(node.number)

    assert on_each(NODES, answer) == (0, 1, 2)


def test_all_nodes_are_asked_where_one_cannot_answer_and_its_reason_is_raised() -> None:
    asked: list[int] = []

    def answer(node: Any) -> None:
        asked.append(node.number)
        if node.number == 1:
            raise OSError("busy")

    with pytest.raises(OSError, match="busy"):
        on_each(NODES, answer)
    assert sorted(asked) == [0, 1, 2]
