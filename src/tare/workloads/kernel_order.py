"""Order the kernels of a launch: random by round and block, large messages last. Pure.

A launch has one TCP connection between two ranks, and every kernel changes its state (ADR 0011): after messages of
1 MiB, `alltoallv` of 64 KiB takes 10 % longer than in a launch of its own, after smaller ones it does not.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

PROGRAM: Final = "tare-kernels"
OPTION: Final = "--order="
LARGE_BYTES: Final = 128 * 1024
"""Kernels with more than this in flight between two ranks run after the others."""
USUAL_WINDOW: Final = {"bw": 64, "bibw": 64}


def kernel_order(seed: int, round_: int, block: int, specs: Sequence[str]) -> tuple[int, ...]:
    """Return the indexes of a launch's kernels in the order in which they run.

    All cells of a block have the same order, so the remaining influence of a kernel on the next is the same on both
    sides of a comparison.
    """
    order = list(range(len(specs)))
    random.Random(f"{seed}/kernels/{round_}/{block}").shuffle(order)
    return tuple(sorted(order, key=lambda index: in_flight_bytes(specs[index]) > LARGE_BYTES))


def in_order(argv: tuple[str, ...], seed: int, round_: int, block: int) -> tuple[str, ...]:
    """Return the command line of a launch with its kernels in the order of its round and block.

    A command without `tare-kernels`, or with one kernel only, is returned unchanged.
    """
    made: list[str] = []
    for at, token in enumerate(argv):
        made.append(token)
        if token.rpartition("/")[2] != PROGRAM:
            continue
        specs = _specs(argv[at + 1 :])
        if len(specs) > 1:
            made.append(OPTION + ",".join(map(str, kernel_order(seed, round_, block, specs))))
    return tuple(made)


def in_flight_bytes(spec: str) -> int:
    """Return how many bytes a kernel has in flight between two ranks; `spec` is `name:key=value,...`."""
    name, _, rest = spec.partition(":")
    given = dict(pair.split("=", 1) for pair in rest.split(",") if "=" in pair)
    return int(given.get("bytes", 8)) * int(given.get("window", USUAL_WINDOW.get(name, 1)))


def _specs(tokens: Sequence[str]) -> list[str]:
    """Return the kernels of a program's arguments; `:` begins the program of other hosts."""
    own_tokens = tokens[: tokens.index(":")] if ":" in tokens else tokens
    return [token for token in own_tokens if not token.startswith("-")]
