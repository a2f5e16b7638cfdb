"""Libraries that a user preloads reach the program in every environment, after tare's."""

from __future__ import annotations

import pytest

from tare.run.job import preloading

WALL = "/opt/tare/lib/libtare_wall.so"


@pytest.mark.parametrize(
    ("told", "own", "expected"),
    [
        ({"LD_PRELOAD": WALL}, (), {"LD_PRELOAD": WALL}),
        ({"LD_PRELOAD": WALL}, ("LD_PRELOAD=/a.so:/b.so", "X=1"), {"LD_PRELOAD": f"{WALL}:/a.so:/b.so"}),
        ({"LD_PRELOAD": WALL}, ("LD_PRELOAD=",), {"LD_PRELOAD": WALL}),
        ({}, ("LD_PRELOAD=/a.so",), {}),  # the environment's own variables have it, and nothing replaces them
    ],
)
def test_the_users_libraries_come_after_those_of_tare(
    told: dict[str, str], own: tuple[str, ...], expected: dict[str, str]
) -> None:
    assert preloading(told, own) == expected
