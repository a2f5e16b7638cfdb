"""Time how long it takes to make an environment's pods, with the cache states that a study requires."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Generic, TypeVar

from tare.model import Caches

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedDeployment(Generic[T]):
    """The deployed object, and its start-up time by cache state; None: caches as they were."""

    up: T
    took_s: Mapping[Caches | None, float]


def made(
    make: Callable[[], AbstractContextManager[T]],
    stack: ExitStack,
    wanted: Collection[Caches | None],
    drop_caches: Callable[[], None],
) -> TimedDeployment[T]:
    """Return the result of `make`, kept up by `stack`, and its times in all required cache states.

    Cold is the first start-up after all caches were dropped. Warm is a second one, after the first has been removed
    again: the files that it read are in memory. The last one stays up.
    """
    took_s: dict[Caches | None, float] = {}
    if Caches.COLD in wanted:
        drop_caches()
    if Caches.WARM in wanted:
        with ExitStack() as once:
            _, first_s = _timed(make, once)
        if Caches.COLD in wanted:
            took_s[Caches.COLD] = first_s
    up, last_s = _timed(make, stack)
    if Caches.COLD in wanted:
        took_s.setdefault(Caches.COLD, last_s)
    if Caches.WARM in wanted:
        took_s[Caches.WARM] = last_s
    took_s[None] = last_s
    return TimedDeployment(up=up, took_s=took_s)


def _timed(make: Callable[[], AbstractContextManager[T]], stack: ExitStack) -> tuple[T, float]:
    began = time.monotonic()
    up = stack.enter_context(make())
    return up, time.monotonic() - began
