"""What the nodes of an environment hold is given up at the same time, all of it, also where one cannot."""

from __future__ import annotations

import threading

import pytest

from tare.deploy.pods import closed_together


def test_nodes_give_up_what_they_hold_at_the_same_time() -> None:
    meeting = threading.Barrier(3, timeout=5)
    with closed_together(3) as stacks:
        for stack in stacks:
            stack.callback(meeting.wait)
    assert not meeting.broken


@pytest.mark.parametrize("raised", [None, KeyboardInterrupt])
def test_all_is_given_up_where_one_node_cannot_and_the_reason_is_told(raised: type[BaseException] | None) -> None:
    gone: list[int] = []

    def fail() -> None:
        raise OSError("busy")

    def held() -> None:
        with closed_together(3) as stacks:
            for number, stack in enumerate(stacks):
                stack.callback(gone.append, number)
            stacks[1].callback(fail)
            if raised:
                raise raised

    with pytest.raises(OSError, match="busy"):
        held()
    assert sorted(gone) == [0, 1, 2]
