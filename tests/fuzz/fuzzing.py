"""Run a check on generated inputs until a time budget is used up.

`TARE_FUZZ_SECONDS` is the budget of each fuzzer (1 s if unset); `TARE_FUZZ_SEED` repeats the run that a failure names,
and with `TARE_FUZZ_SHRINK=0` a failure stays as it was found.
An input that takes more CPU time or more memory than an example may is a failure like any other.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final, TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import HypothesisWarning
from hypothesis.strategies import SearchStrategy

T = TypeVar("T")

USUAL_BUDGET_S: Final = 1.0
EXAMPLES_OF_A_SEED: Final = 200
EXAMPLE_CPU_S: Final = 60.0
"""CPU time for one example, far beyond what a slow machine needs: most take some milliseconds."""

EXAMPLE_BYTES: Final = 1 << 30
"""Address space that examples may use beyond what the process has."""


class TooSlow(Exception):
    """An example took more than `EXAMPLE_CPU_S`."""


class _Enough(KeyboardInterrupt):
    """The budget is used up; an interrupt is what Hypothesis lets through at once."""


def fuzz(strategy: SearchStrategy[T], check: Callable[[T], None], *, budget_s: float | None = None) -> None:
    """Call `check` with values of `strategy` until the budget is used up; every run has other values.

    A failure is made smaller as Hypothesis does, and says after how many seconds it was found and with which seed.
    """
    budget_s = float(os.environ.get("TARE_FUZZ_SECONDS") or USUAL_BUDGET_S) if budget_s is None else budget_s
    stated = os.environ.get("TARE_FUZZ_SEED")
    number = int(stated) if stated else random.SystemRandom().randrange(1 << 32)
    started, examples, found_s = time.monotonic(), 0, None

    def one(value: T) -> None:
        nonlocal examples, found_s
        if found_s is None and examples and time.monotonic() - started > budget_s:
            raise _Enough  # a failure, once found, is made smaller all the same
        examples += 1
        try:
            with limited():
                check(value)
        except Exception:
            found_s = time.monotonic() - started if found_s is None else found_s
            raise

    while examples == 0 or time.monotonic() - started < budget_s:
        run = settings(
            max_examples=EXAMPLES_OF_A_SEED,
            deadline=None,
            database=None,
            phases=(Phase.generate,) if os.environ.get("TARE_FUZZ_SHRINK") == "0" else (Phase.generate, Phase.shrink),
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
            print_blob=False,
        )(seed(number)(given(strategy)(one)))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", HypothesisWarning)  # of an example that is long to print
                run()
        except _Enough:
            break
        except BaseException as error:
            if found_s is not None:
                error.add_note(f"found after {found_s:.1f} s; TARE_FUZZ_SEED={number} repeats it")
            raise
        number += 1
    print(f"{examples} examples in {time.monotonic() - started:.1f} s, up to seed {number}")


@contextmanager
def limited() -> Iterator[None]:
    """Limit CPU time and address space; pytest-timeout has the real-time timer already."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGVTALRM, _too_slow)
    resource.setrlimit(resource.RLIMIT_AS, (used + EXAMPLE_BYTES, hard))
    signal.setitimer(signal.ITIMER_VIRTUAL, EXAMPLE_CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGVTALRM, before)


def _too_slow(number: int, frame: FrameType | None) -> None:
    raise TooSlow(f"one example took more than {EXAMPLE_CPU_S:g} s of CPU time")
