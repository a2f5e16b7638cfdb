"""The nodes of a deployment are read together: a machine once, and a lab's node not again when a launch begins."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

from nodes import make_node
from tare.counters.monitor import CounterValues, Given, Moment
from tare.deploy.hosts import Deployed
from tare.model import Environment
from tare.node_service.local import LocalNode

ASKED = ("study", False)
"""The deployment, and whether the reading is whole."""


class Asked(LocalNode):
    """A node that notes what it is asked to read."""

    def __init__(self, index: int) -> None:
        super().__init__(make_node(index), Path("/nowhere"), lambda _pod, _slot: nullcontext(""))
        self.readings: list[tuple[Any, ...]] = []

    def take(self, *asked: Any) -> Any:
        self.readings.append(asked)
        return Given(CounterValues())


def test_only_a_launch_that_begins_may_use_what_was_read_before_it() -> None:
    nodes = (Asked(0), Asked(1))
    environment = Environment(name="bare", runtime="bare", network="host")
    up = Deployed(environment=environment, sides=(), name="study", nodes=nodes)
    up.take(Moment(number=9, since=7), whole=False, begins=True)
    up.take(Moment(number=12, since=7), whole=False)
    up.counters(Moment(number=13, since=7), whole=False)
    first, second = (node.readings for node in nodes)
    assert first == [(*ASKED, True, 9, 7), (*ASKED, True, 12, 0), (*ASKED, True, 13, 0)]
    assert second == [(*ASKED, False, 9, 7), (*ASKED, False, 12, 0), (*ASKED, False, 13, 0)], "its machine is the same"
