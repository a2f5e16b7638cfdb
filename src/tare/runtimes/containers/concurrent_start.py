"""Start a pod's containers concurrently, for runtimes that hold each by a name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

from tare.system.node import Container, Pod

STARTED_AT_ONCE: Final = 8


@contextmanager
def started_together(
    pod: Pod,
    cores: Sequence[tuple[int, ...]],
    start: Callable[[str, tuple[int, ...]], Container],
    remove: Callable[[str], None],
) -> Iterator[tuple[Container, ...]]:
    """Hold a container for each entry of `cores`; at the end, remove all of them, even those that did not start."""
    names = [f"{pod.container}-{number}" for number in range(len(cores))]
    with ThreadPoolExecutor(max_workers=STARTED_AT_ONCE) as pool:
        try:
            futures = [pool.submit(start, *each) for each in zip(names, cores, strict=True)]
            yield tuple(future.result() for future in futures)
        finally:
            list(pool.map(remove, names))
