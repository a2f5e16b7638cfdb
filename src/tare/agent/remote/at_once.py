"""Make a call on several nodes at the same time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Final, TypeVar

from tare.agent.protocol import NodeService
from tare.errors import InfrastructureError
from tare.system.signals import uninterrupted

MOST_AT_ONCE: Final = 4
PATIENCE_S: Final = 5.0
LOOK_S: Final = 0.5
"""How often it is looked whether an interrupt waits for machines."""
LONGEST_LINE: Final = 200
"""Characters of what each further node says: the first may quote the end of a log."""

T = TypeVar("T")


def on_each(
    nodes: Sequence[NodeService], call: Callable[[NodeService], T], *, interrupted: bool = False
) -> tuple[T, ...]:
    """Make a call on several nodes at the same time; return the results in order.

    All calls have ended before an error is raised: the first, with a line for each node that failed. Machines that hang
    are given up `PATIENCE_S` after an interrupt, or from now if there was one: they undo what was made there
    themselves.
    """
    remote = [give_up for node in nodes if (give_up := node.give_up) is not None]
    with uninterrupted() as held:
        held.since_s = time.monotonic() if interrupted else held.since_s
        if len(nodes) == 1 and not remote:
            return (call(nodes[0]),)
        with ThreadPoolExecutor(max_workers=min(MOST_AT_ONCE, len(nodes))) as pool:
            futures = [pool.submit(call, node) for node in nodes]
            while wait(futures, LOOK_S if remote else None).not_done:
                if time.monotonic() > held.since_s + PATIENCE_S:
                    for give_up in remote:
                        give_up()
    _raise_failed([(node, error) for node, future in zip(nodes, futures, strict=True) if (error := future.exception())])
    return tuple(future.result() for future in futures)


def _raise_failed(failed: Sequence[tuple[NodeService, BaseException]]) -> None:
    """Raise the first of errors with a line of each other node; one that is not of the infrastructure comes first."""
    of_nodes = [(node.node.name, error) for node, error in failed if isinstance(error, InfrastructureError)]
    if len(of_nodes) < len(failed):
        raise next(error for _, error in failed if not isinstance(error, InfrastructureError))
    if not of_nodes:
        return
    said = {error.message for _, error in of_nodes}
    messages = [error.at(name).message for name, error in of_nodes]
    first = of_nodes[0][1]
    if len(messages) > 1:
        names = f"nodes {', '.join(name for name, _ in of_nodes)}: "
        others = (message.splitlines()[0][:LONGEST_LINE] for message in messages[1:])
        lines = "\n  ".join((f"{len(messages)} nodes failed:", messages[0], *others))
        first.message = names + said.pop() if len(said) == 1 else lines
        first.remedy = "\n  ".join(dict.fromkeys(error.remedy for _, error in of_nodes if error.remedy))
    raise first
