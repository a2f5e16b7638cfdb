"""Devices and mounts are told in words, held against what the node has."""

from __future__ import annotations

import pytest

from tare.summary.surroundings import NodeHas, devices, in_words, mounted_numbers, writable

NODE = (*(f"tty{number}" for number in range(64)), "fuse", "net/tun", "infiniband/uverbs0")
CONTAINER = "0123456789abcdef" * 4
OF_NODE = ("254:0", "0:31", "0:32")


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ((), "the usual"),
        (("infiniband/uverbs0", "infiniband/rdma_cm"), "infiniband/rdma_cm, infiniband/uverbs0"),
        (NODE, "all of the node's (67)"),
        ((*NODE, "console"), "all of the node's (68)"),
        (NODE[:40], "40 of the node's 67"),
    ],
)
def test_devices_are_named_where_they_are_few_and_counted_where_they_are_many(
    names: tuple[str, ...], words: str
) -> None:
    assert devices(names, NODE) == words


def test_devices_of_a_node_that_cannot_be_looked_at_are_only_counted() -> None:
    assert devices(NODE, ()) == "67"


@pytest.mark.parametrize(
    ("mounts", "words"),
    [
        ("rw 254:0 /\nrw 0:31 /dev/shm\nrw 0:32 /tmp", "the node's: /"),
        ("ro 254:0 /\nrw 0:31 /dev/shm\nrw 0:32 /tmp", "root read-only; the node's: /dev/shm, /tmp"),
        (f"rw 254:0 /\nrw 0:99 /run/{CONTAINER}/merged", "the node's: /"),
        ("ro 254:0 /\nrw 0:31 /dev/shm\nrw 0:99 /tmp", "root read-only; own: /tmp; the node's: /dev/shm"),
        ("rw 0:99 /\nrw 0:98 /dev\nro 0:97 /proc/acpi\nrw 0:96 /proc/kcore", "own: /"),
        ("rw 254:0 /\nro 254:0 /", "root read-only"),
        ("ro 254:0 /\nro 0:31 /tmp\nrw 0:99 /tmp", "root read-only; own: /tmp"),
        ("ro 254:0 /\nrw 0:99 /with\\040blank", "root read-only; own: /with blank"),
        ("", "nothing"),
    ],
)
def test_folders_that_can_be_written_are_the_container_s_own_or_the_node_s(mounts: str, words: str) -> None:
    assert writable(mounts, OF_NODE) == words


def test_many_folders_are_counted() -> None:
    mounts = "\n".join(f"rw 0:99 /m{number}" for number in range(9))
    assert writable(mounts, OF_NODE) == "own: /m0, /m1, /m2, /m3, /m4, /m5 and 3 more"


def test_what_a_rank_did_not_tell_stays_away_and_the_rest_stays_as_it_was() -> None:
    node = NodeHas(devices=frozenset({"fuse"}), file_systems=frozenset({"0:31"}))
    assert in_words({"seccomp": "2"}, node) == {"seccomp": "2"}
    told = in_words({"seccomp": "2", "devices": "fuse", "mounts": "rw 0:31 /tmp"}, node)
    assert told == {"seccomp": "2", "devices": "all of the node's (1)", "mounts": "the node's: /tmp"}


def test_the_numbers_of_file_systems_are_read_as_the_kernel_writes_them() -> None:
    own = "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n"
    container_s = f"40 36 0:99 / /run/{CONTAINER}/merged rw - overlay overlay rw\n"
    assert mounted_numbers(own + container_s) == frozenset({"98:0"})
