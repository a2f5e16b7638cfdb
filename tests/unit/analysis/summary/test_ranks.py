"""What ranks saw is told in words: their rights, files, libraries, and the mechanism that keeps them apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tare.analysis.summary.isolation import capabilities, isolation_of, users
from tare.analysis.summary.loaded_libraries import files_of, stem
from tare.analysis.summary.mechanisms import (
    BINDING_COLLAPSE,
    SHARED_CORE,
    TRANSPORT_LOSS,
    binding_collapse,
    findings,
    shared_core,
    transport_loss,
)
from tare.analysis.summary.surroundings import devices, limits, mounts
from tare.model import Completed, RankPlace, Trial, TrialKey


def rank(
    number: int, host: str = "b0/n0", cpus: tuple[int, ...] = (), near: tuple[int, ...] = (0, 1), **more: Any
) -> RankPlace:
    place = {"host": host, "hostname": host.partition("/")[2], "cpus": cpus or (number,), "shared_memory_ranks": near}
    return RankPlace(rank=number, pid=number, **place, **more)


TOGETHER = (rank(0), rank(1))
APART = (rank(0, "b0/n0c0", near=(0,)), rank(1, "b0/n0c1", near=(1,)))
COLLAPSED = tuple(replace(place, cpus=(0,)) for place in APART)


def trial(*ranks: RankPlace) -> Trial:
    key = TrialKey(cell="c", round=0, block=0, attempt=0)
    return Trial(key=key, position=0, started_unix_s=0.0, elapsed_s=1.0, outcome=Completed(metrics=()), ranks=ranks)


def test_ranks_of_one_node_that_share_no_memory_lose_their_transport_and_others_do_not() -> None:
    assert transport_loss(TOGETHER) is None
    assert binding_collapse(TOGETHER) is None
    assert findings("e", "g", [trial(*TOGETHER)]) == ()
    text = transport_loss(APART)
    assert "ranks 0 and 1 are on one node" in text
    assert "share: pod" in text
    assert binding_collapse(APART) is None
    two_nodes = (rank(0, "b0/n0", (0,), (0,)), rank(1, "b1/n1", (0,), (1,)))
    assert transport_loss(two_nodes) is None
    assert binding_collapse(two_nodes) is None


def test_fewer_cores_than_ranks_are_a_collapse_and_hardware_threads_of_one_core_are_not() -> None:
    assert "2 ranks of one node share 1 core (0)" in str(binding_collapse(COLLAPSED))
    three = (*(replace(place, cpus=(0, 1)) for place in TOGETHER), rank(2, cpus=(1,)))
    assert "3 ranks of one node share 2 cores (0, 1)" in str(binding_collapse(three))
    assert binding_collapse([replace(place, cpus=(0, 1)) for place in TOGETHER]) is None
    siblings = (replace(rank(0), core_sharers=(1,)), replace(rank(1), core_sharers=(0,)), rank(2))
    text = shared_core(siblings)
    assert "2 of 3 ranks have a hardware thread and not a whole core: ranks 0 and 1 share a core" in text
    assert binding_collapse(siblings) is None
    assert shared_core(TOGETHER) is None
    assert [finding.kind for finding in findings("e", "g", [trial(*siblings)])][-1] == SHARED_CORE


def test_the_launches_that_show_a_mechanism_are_counted() -> None:
    result = findings("e", "g", [trial(*COLLAPSED), trial(*APART), trial()])
    assert [(each.kind, each.launches, each.of) for each in result] == [
        (TRANSPORT_LOSS, 2, 2),
        (BINDING_COLLAPSE, 1, 2),
    ]
    assert {(each.environment, each.group) for each in result} == {("e", "g")}


def test_the_first_rank_that_tells_speaks_for_its_environment_and_all_it_reaches_is_passed_on() -> None:
    rights = {"capabilities": "0", "seccomp": "2", "no_new_privs": "1", "uid_map": "0 0 4294967295"}
    silent, telling = rank(0), rank(1, rights=rights, node_namespaces=("pid", "net"))
    assert isolation_of("e", "bare", [trial(silent)]) is None
    facts = isolation_of("e", "docker", [trial(silent), trial(silent, telling)])
    assert (facts.daemon, facts.capabilities, facts.seccomp) == ("dockerd, as root", "none", "filter")
    assert (facts.no_new_privileges, facts.shared) == ("yes", ("net", "pid"))
    assert facts.speculation == facts.limits == "not known"
    assert (facts.devices, facts.mounts, facts.setuid) == ("not known", "not known", "not known")
    rights = {"devices": "the usual", "mounts": "root read-only; own: /tmp", "setuid": "newuidmap"}
    facts = isolation_of("e", "podman", [trial(rank(0, rights=rights))])
    assert (facts.devices, facts.mounts, facts.setuid) == tuple(rights.values())


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        (["1 core", "1 core"], "1 core"),
        (["1 core", "64 MiB of memory, 1 core", "1 core"], "1 core; 64 MiB of memory, 1 core"),
        ([f"{n} cores" for n in range(2, 8)], "2 cores; 3 cores; 4 cores; 5 cores; and 2 more"),
    ],
)
def test_limits_of_all_launches_are_told_each_once(stated: list[str], words: str) -> None:
    ranks = [rank(number, rights={"limits": each}) for number, each in enumerate(stated)]
    facts = isolation_of("e", "docker", [trial(*ranks[:1]), trial(*ranks[1:])])
    assert facts.limits == words


def test_limits_of_processes_are_told_where_they_differ_from_the_baselines() -> None:
    base = {"open_files": "1024", "stack_bytes": "8388608", "shm_bytes": "1073741824"}
    here = {**base, "open_files": "1048576", "stack_bytes": "unlimited", "locked_bytes": "65536"}
    of = [trial(rank(0, rights=rights)) for rights in (base, here, {"seccomp": "2"})]
    told = [facts.of_processes for each in of if (facts := isolation_of("e", "docker", [each], of[:1]))]
    differing = "1048576 open files (baseline: 1024 open files), stack without a limit (baseline: 8 MiB of stack)"
    assert told == ["the baseline's", differing, "not known"]


def of_devices(names: str, count: int, of_node: int, every: str = "no") -> dict[str, str]:
    counts = {"device_count": str(count), "node_device_count": str(of_node)}
    return {"devices": names, **counts, "has_all_devices": every}


def of_mounts(root: str, own: str = "", node: str = "", more: int = 0) -> dict[str, str]:
    counts = {"own_mount_count": str(len(own.split()) + more), "node_mount_count": str(len(node.split()))}
    return {"root": root, "own_mounts": own, "node_mounts": node, **counts}


@pytest.mark.parametrize(
    ("told", "stated", "words"),
    [
        (capabilities, "0000000000000000", "none"),
        (capabilities, "0000000000000001", "1: chown"),
        (capabilities, "00000000000000c3", "4: chown, dac_override, setgid, setuid"),
        (capabilities, "000001ffffffffff", "all"),
        (capabilities, "000001fffeffffff", "40, all but sys_resource"),
        (capabilities, "", "not known"),
        (users, {"uid_map": "0 0 4294967295"}, "the machine's"),
        (users, {"uid_map": "0 65534 1"}, "own: 0 inside is 65534 outside (1 of them)"),
        (users, {}, "not known"),
        (devices, of_devices("", 0, 67), "the usual"),
        (devices, of_devices("fuse net/tun", 2, 67), "fuse, net/tun"),
        (devices, of_devices("", 68, 67, "yes"), "all of the node's (68)"),
        (devices, of_devices("", 40, 67), "40 of the node's 67"),
        (devices, of_devices("", 67, 0), "67"),
        (devices, {"devices": "all of the node's (12)"}, "all of the node's (12)"),  # of tare 0.1
        (devices, {"devices": "x", "device_count": "9" * 5000}, "the usual"),  # damaged
        (devices, {}, "not known"),
        (mounts, of_mounts("rw", node="/"), "the node's: /"),
        (mounts, of_mounts("ro", own="/tmp", node="/dev/shm"), "root read-only; own: /tmp; the node's: /dev/shm"),
        (mounts, of_mounts("ro", own="/with\\040blank"), "root read-only; own: /with blank"),
        (mounts, of_mounts("rw", own="/a /b", more=3), "own: /a, /b and 3 more"),
        (mounts, of_mounts("rw"), "nothing"),
        (mounts, {"root": "ro"}, "root read-only"),  # damaged
        (mounts, {"mounts": "root read-only; own: /tmp"}, "root read-only; own: /tmp"),  # of tare 0.1
        (mounts, {}, "not known"),
        (limits, "memory_bytes=67108864 cpus=0.5 cores=2", "64 MiB of memory, 0.5 CPUs, 2 cores"),
        (limits, "cpus=1 cores=1 pids=2048", "1 CPU, 1 core, 2048 processes"),
        (limits, "cgroup=none", "none: no cgroup"),
        (limits, "", "none"),
        (limits, "memory_bytes=much pids", "0 B of memory"),  # damaged
        (limits, "64 MiB of memory, 1 core", "64 MiB of memory, 1 core"),  # of tare 0.1
        (limits, "none: no cgroup", "none: no cgroup"),
    ],
)
def test_what_ranks_may_do_is_put_into_words(told: Callable[[Any], str], stated: object, words: str) -> None:
    assert told(stated) == words


def test_a_library_is_known_without_its_version_and_ranks_that_agree_are_one_entry() -> None:
    assert stem("/usr/lib/libmpi.so.40.30.4") == "libmpi"
    assert stem("/usr/lib/libc-2.31.so") == "libc-2.31"
    same = [rank(number, libraries=("/a/libmpi.so.40", "/a/libucp.so.0")) for number in (0, 1)]
    assert files_of(same) == {"libmpi": "/a/libmpi.so.40", "libucp": "/a/libucp.so.0"}
    unlike = [*same, rank(2, libraries=("/b/libmpi.so.40",))]
    assert files_of(unlike) == {
        "libmpi": "rank 0 and 1 more: /a/libmpi.so.40; rank 2: /b/libmpi.so.40",
        "libucp": "rank 0 and 1 more: /a/libucp.so.0; rank 2: not loaded",
    }
