"""Facts about what a rank can reach become words; damaged and old ones break nothing."""

from __future__ import annotations

import pytest

from tare.summary.surroundings import devices, limits, mounts


def of_devices(names: str, count: int, of_node: int, every: str = "no") -> dict[str, str]:
    counts = {"device_count": str(count), "node_device_count": str(of_node)}
    return {"devices": names, **counts, "has_all_devices": every}


@pytest.mark.parametrize(
    ("rights", "words"),
    [
        (of_devices("", 0, 67), "the usual"),
        (of_devices("fuse net/tun", 2, 67), "fuse, net/tun"),
        (of_devices("", 68, 67, "yes"), "all of the node's (68)"),
        (of_devices("", 40, 67), "40 of the node's 67"),
        (of_devices("", 67, 0), "67"),
        ({"devices": "all of the node's (12)"}, "all of the node's (12)"),  # of tare 0.1
        ({"devices": "x", "device_count": "9" * 5000}, "the usual"),  # damaged
        ({}, "not known"),
    ],
)
def test_devices_are_put_into_words(rights: dict[str, str], words: str) -> None:
    assert devices(rights) == words


def of_mounts(root: str, own: str = "", node: str = "", more: int = 0) -> dict[str, str]:
    counts = {"own_mount_count": str(len(own.split()) + more), "node_mount_count": str(len(node.split()))}
    return {"root": root, "own_mounts": own, "node_mounts": node, **counts}


@pytest.mark.parametrize(
    ("rights", "words"),
    [
        (of_mounts("rw", node="/"), "the node's: /"),
        (of_mounts("ro", own="/tmp", node="/dev/shm"), "root read-only; own: /tmp; the node's: /dev/shm"),
        (of_mounts("ro", own="/with\\040blank"), "root read-only; own: /with blank"),
        (of_mounts("rw", own="/a /b", more=3), "own: /a, /b and 3 more"),
        (of_mounts("rw"), "nothing"),
        ({"root": "ro"}, "root read-only"),  # damaged
        ({"mounts": "root read-only; own: /tmp"}, "root read-only; own: /tmp"),  # of tare 0.1
        ({}, "not known"),
    ],
)
def test_folders_that_can_be_written_are_put_into_words(rights: dict[str, str], words: str) -> None:
    assert mounts(rights) == words


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ("memory_bytes=67108864 cpus=0.5 cores=2", "64 MiB of memory, 0.5 CPUs, 2 cores"),
        ("cpus=1 cores=1 pids=2048", "1 CPU, 1 core, 2048 processes"),
        ("cgroup=none", "none: no cgroup"),
        ("", "none"),
        ("memory_bytes=much pids", "0 B of memory"),  # damaged
        ("64 MiB of memory, 1 core", "64 MiB of memory, 1 core"),  # of tare 0.1
        ("none: no cgroup", "none: no cgroup"),
    ],
)
def test_limits_are_put_into_words(stated: str, words: str) -> None:
    assert limits(stated) == words
