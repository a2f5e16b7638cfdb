"""What a rank can reach is compared with what its node has, and stored as facts."""

from __future__ import annotations

import pytest

from tare.node.surroundings import NodeHas, mounted_numbers, reach

NODE = (*(f"tty{number}" for number in range(64)), "fuse", "net/tun", "infiniband/uverbs0")
CONTAINER = "0123456789abcdef" * 4
HAS = NodeHas(devices=frozenset(NODE), file_systems=frozenset({"254:0", "0:31", "0:32"}))


@pytest.mark.parametrize(
    ("names", "facts"),
    [
        ((), ("", "0", "no")),
        (("infiniband/uverbs0", "infiniband/rdma_cm"), ("infiniband/rdma_cm infiniband/uverbs0", "2", "no")),
        (NODE, ("", "67", "yes")),
        ((*NODE, "console"), ("", "68", "yes")),
        (NODE[:40], ("", "40", "no")),
    ],
)
def test_devices_are_named_if_they_are_few_and_counted_otherwise(
    names: tuple[str, ...], facts: tuple[str, ...]
) -> None:
    rights = reach({"devices": " ".join(names)}, HAS)
    assert (rights["devices"], rights["device_count"], rights["has_all_devices"]) == facts
    assert rights["node_device_count"] == "67"


def test_what_cannot_be_read_is_told_as_such() -> None:
    assert reach({"devices": "fuse"}, NodeHas())["has_all_devices"] == "no"
    rights = reach({"mounts": "\n".join(f"rw 0:99 /m{number}" for number in range(9))}, HAS)
    assert (rights["own_mounts"], rights["own_mount_count"]) == ("/m0 /m1 /m2 /m3 /m4 /m5", "9")
    assert reach({"seccomp": "2"}, HAS) == {"seccomp": "2"}
    own = "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n"
    container_s = f"40 36 0:99 / /run/{CONTAINER}/merged rw - overlay overlay rw\n"
    assert mounted_numbers(own + container_s) == frozenset({"98:0"})


@pytest.mark.parametrize(
    ("mounts", "root", "own", "node"),
    [
        ("rw 254:0 /\nrw 0:31 /dev/shm\nrw 0:32 /tmp", "rw", "", "/"),
        ("ro 254:0 /\nrw 0:31 /dev/shm\nrw 0:32 /tmp", "ro", "", "/dev/shm /tmp"),
        (f"rw 254:0 /\nrw 0:99 /run/{CONTAINER}/merged", "rw", "", "/"),
        ("ro 254:0 /\nrw 0:31 /dev/shm\nrw 0:99 /tmp", "ro", "/tmp", "/dev/shm"),
        ("rw 0:99 /\nrw 0:98 /dev\nro 0:97 /proc/acpi\nrw 0:96 /proc/kcore", "rw", "/", ""),
        ("rw 254:0 /\nro 254:0 /", "ro", "", ""),
        ("ro 254:0 /\nro 0:31 /tmp\nrw 0:99 /tmp", "ro", "/tmp", ""),
        ("ro 254:0 /\nrw 0:99 /with\\040blank", "ro", "/with\\040blank", ""),
        ("", "rw", "", ""),
        ("rw\nx y\nrw 0:99 /tmp", "rw", "/tmp", ""),  # as no kernel writes it
    ],
)
def test_folders_that_can_be_written_are_the_container_s_own_or_the_node_s(
    mounts: str, root: str, own: str, node: str
) -> None:
    rights = reach({"mounts": mounts}, HAS)
    assert (rights["root"], rights["own_mounts"], rights["node_mounts"]) == (root, own, node)
