"""Make a call on several nodes at the same time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Final, TypeVar

from tare.agent.protocol import NodeService
from tare.agent.remote.service import RemoteNode
from tare.system.signals import uninterrupted

MOST_AT_ONCE: Final = 4
PATIENCE_S: Final = 5.0
LOOK_S: Final = 0.5
"""How often it is looked whether an interrupt waits for machines."""

T = TypeVar("T")


def on_each(
    nodes: Sequence[NodeService], call: Callable[[NodeService], T], *, interrupted: bool = False
) -> tuple[T, ...]:
    """Make a call on several nodes at the same time; return the results in order.

    All calls have ended before the first error is raised. Machines that hang are given up `PATIENCE_S` after an
    interrupt, or from now if there was one: they undo what was made there themselves.
    """
    remote = [node for node in nodes if isinstance(node, RemoteNode)]
    with uninterrupted() as held:
        held.since_s = time.monotonic() if interrupted else held.since_s
        if len(nodes) == 1 and not remote:
            return (call(nodes[0]),)
        with ThreadPoolExecutor(max_workers=min(MOST_AT_ONCE, len(nodes))) as pool:
            futures = [pool.submit(call, node) for node in nodes]
            while wait(futures, LOOK_S if remote else None).not_done:
                if time.monotonic() > held.since_s + PATIENCE_S:
                    for node in remote:
                        node.conversation.abort()
    return tuple(future.result() for future in futures)
