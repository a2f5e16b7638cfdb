"""What a rank may do is told in words, from what it saw itself."""

from __future__ import annotations

import pytest

from tare.model import Completed, RankPlace, Trial, TrialKey
from tare.summary.isolation import capabilities, isolation_of, users


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        ("0000000000000000", "none"),
        ("0000000000000001", "1: chown"),
        ("00000000000000c3", "4: chown, dac_override, setgid, setuid"),
        ("000001ffffffffff", "all"),
        ("000001fffeffffff", "40, all but sys_resource"),
        ("", "not known"),
    ],
)
def test_capabilities_are_named(mask: str, words: str) -> None:
    assert capabilities(mask) == words


def test_the_users_of_a_namespace_are_told_by_whom_root_is_outside() -> None:
    assert users({"uid_map": "0 0 4294967295"}) == "the machine's"
    assert users({"uid_map": "0 65534 1"}) == "own: 0 inside is 65534 outside (1 of them)"
    assert users({}) == "not known"


def trial(*ranks: RankPlace) -> Trial:
    key = TrialKey(cell="c", round=0, block=0, attempt=0)
    return Trial(key=key, position=0, started_unix_s=0.0, elapsed_s=1.0, outcome=Completed(metrics=()), ranks=ranks)


def test_the_first_rank_that_tells_speaks_for_its_environment() -> None:
    silent = RankPlace(rank=0, host="b/n0", hostname="n0", pid=1, cpus=(0,))
    telling = RankPlace(
        rank=1,
        host="b/n0",
        hostname="n0",
        pid=2,
        cpus=(1,),
        rights={"capabilities": "0", "seccomp": "2", "no_new_privs": "1", "uid_map": "0 0 4294967295"},
        node_namespaces=("pid", "net"),
    )
    assert isolation_of("e", "bare", [trial(silent)]) is None
    facts = isolation_of("e", "docker", [trial(silent), trial(silent, telling)])
    assert facts is not None
    assert (facts.daemon, facts.capabilities, facts.seccomp) == ("dockerd, as root", "none", "filter")
    assert (facts.no_new_privileges, facts.shared) == ("yes", ("net", "pid"))
    assert facts.speculation == facts.limits == "not known"
    assert (facts.devices, facts.mounts, facts.setuid) == ("not known", "not known", "not known")


def test_what_a_rank_reaches_of_its_node_and_how_it_was_put_there_is_passed_on() -> None:
    rights = {"devices": "the usual", "mounts": "root read-only; own: /tmp", "setuid": "newuidmap"}
    place = RankPlace(rank=0, host="b/n0", hostname="n0", pid=1, cpus=(0,), rights=rights)
    facts = isolation_of("e", "podman", [trial(place)])
    assert facts is not None
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
    ranks = [
        RankPlace(rank=i, host="b/n0", hostname="n0", pid=1, cpus=(0,), rights={"limits": each})
        for i, each in enumerate(stated)
    ]
    facts = isolation_of("e", "docker", [trial(*ranks[:1]), trial(*ranks[1:])])
    assert facts is not None
    assert facts.limits == words
