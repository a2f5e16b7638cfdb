"""What ranks print is read as far as it is whole, and nothing that an image prints can break or disguise a check."""

from __future__ import annotations

import json

import pytest

from tare.analysis.check.facts import RankFacts, read_ranks

MARK = "@tare-check "

NEAR = {
    "with": 0, "small_us": 0.4, "large_us": 100.5, "large_bytes": 1048576, "sent_bytes": 100,
    "bytes": {"lo": 50, "eth0": 49},
}  # fmt: skip
RANK = {
    "host": "n0",
    "boot_id": "b",
    "container": "docker",
    "namespaces": {"net": 1, "mnt": 2},
    "cpus": "0-1,4",
    "quota_cores": 1.5,
    "interfaces": [{"name": "eth0", "mtu": "1500", "operstate": "up"}, {"name": "lo", "mtu": "65536"}],
    "variables": {"OMPI_COMM_WORLD_SIZE": "2", "OMP_NUM_THREADS": "2"},
    "rights": {"shm_bytes": "67108864", "locked_bytes": "65536", "devices": "infiniband/uverbs0"},
    "program": {"path": "./app", "kind": "elf", "missing": [], "mpi": "/usr/lib/libmpi.so.40"},
    "mpi": {
        "ended": "exit", "signal": 0, "status": 0, "said": "a\nb",
        "answers": [
            '"library":"Open MPI v4.1.4"', '"rank":1', '"size":2', '"shares":2', '"ranks_here":2', '"large_us":inf',
            f'"near":{json.dumps(NEAR)}', '"done":1', '}', '[' * 2000, 7,
        ],
    },
}  # fmt: skip


NAMES = iter(range(0, 1 << 30, 16))


def parts(rank: object, size: int = 200, name: int | None = None) -> list[str]:
    """Return what the probe of a rank prints: lines that launchers leave whole."""
    text, name = json.dumps(rank), next(NAMES) if name is None else name
    cut = [text[first : first + size] for first in range(0, len(text), size)]
    return [f"{MARK}{name:016x} {number}/{len(cut)} {each}\n" for number, each in enumerate(cut, 1)]


def line(rank: object) -> str:
    return "".join(parts(rank))


def read_one(**changed: object) -> RankFacts:
    (found,), _ = read_ranks(line({**RANK, **changed}))
    return found


def test_the_facts_of_ranks_are_taken_out_of_a_jobs_output() -> None:
    labelled = "".join(f"[1,0]<stdout>: {part}" for part in parts(RANK, 5000))
    found, rest = read_ranks(f"hello\n{line(RANK)}world{line(RANK)}{labelled}")
    assert len(found) == 3
    assert rest.split() == ["hello", "world", "[1,0]<stdout>:"]
    first = found[0]
    assert (first.host, first.machine, first.cpus, first.quota_cores) == ("n0", "b", frozenset({0, 1, 4}), 1.5)
    assert first.shm_bytes == 64 << 20
    assert [(each.name, each.mtu, each.is_up) for each in first.interfaces] == [
        ("eth0", 1500, True),
        ("lo", 65536, False),
    ]
    assert (first.told_size, first.launcher_family, first.mpi_family) == (2, "openmpi", "openmpi")
    assert first.mpi is not None
    assert first.mpi.near is not None
    assert first.mpi.near.carriers == ("lo",)
    assert first.mpi.text == "a\nb"


@pytest.mark.parametrize(
    ("variables", "family"),
    [
        ({"PMI_RANK": "0", "PMI_SIZE": "2"}, "hydra"),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "PMI_RANK": "0"}, "slurm"),
        ({"FLUX_JOB_SIZE": "2", "PMI_RANK": "0"}, "flux"),
        ({}, ""),
    ],
)
def test_the_launcher_is_known_by_the_variables_that_reached_the_rank(variables: object, family: str) -> None:
    assert read_one(variables=variables).launcher_family == family


@pytest.mark.parametrize(
    ("library", "family"),
    [
        ("/a/libmpich.so.12", "mpich"),
        ("/a/libmpi.so.12", "mpich"),
        ("/a/libmpi.so.40", "openmpi"),
        ("", ""),
        ("/opt/cray/libmpi_gnu_91.so.12", "mpich"),
    ],
)
def test_the_family_of_an_mpi_is_that_of_its_file(library: str, family: str) -> None:
    assert read_one(program={"mpi": library}).mpi_family == family


def test_parts_of_ranks_may_be_mixed_and_ranks_without_a_part_are_silent() -> None:
    first, second, third = parts(RANK), parts({**RANK, "host": "n1"}), parts(RANK)
    mixed = [text for pair in zip(first, second, third[:-2], strict=False) for text in pair]
    output = "".join([*mixed, *reversed(first[len(third) - 2 :]), *second[len(third) - 2 :]]).replace("\n", "\r\n")
    found, rest = read_ranks(output)
    assert [each.host for each in found] == ["n0", "n1"]
    assert found[0] == read_one()
    assert rest == ""


def test_a_rank_that_was_killed_while_its_mpi_was_asked_is_known() -> None:
    facts = {key: value for key, value in RANK.items() if key != "mpi"}
    first, second = "".join(parts(facts, name=0x100)), "".join(parts({"mpi": RANK["mpi"]}, name=0x101))
    assert read_ranks(second + first)[0] == (read_one(),)
    (found,), _ = read_ranks(first + second.partition("\n")[0])
    assert found.mpi is not None
    assert found.mpi.ended == "killed"


ID = "0123456789abcdef"
HOSTILE = [
    MARK,
    MARK + "{\n",
    f"{MARK}{ID} 1/1 \n",
    f"{MARK}{ID} 0/0 {{}}\n",
    f"{MARK}{ID} 2/1 {{}}\n",
    f"{MARK}{ID} 1/999 {{\n",
    f"{MARK}{ID} 1/2 {{\n{MARK}{ID} 1/1 {{}}\n",
    f"{MARK}{ID} 1/1 {'[' * 100_000}\n",
    f"{MARK}{ID} 1/1 []\n",
    f'{MARK}{ID} 1/1 "text"\n',
    f"{MARK}{ID} 1/1 null\n",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_what_is_no_object_is_no_rank(text: str) -> None:
    assert read_ranks(text + line(RANK))[0] == read_ranks(line(RANK))[0]


@pytest.mark.parametrize("key", [*RANK])
@pytest.mark.parametrize("value", [None, 5, -1e308, "x\x1b[2J", [[]], {"a": {"b": None}}, "9" * 5000, True])
def test_no_value_of_a_fact_breaks_the_check(key: str, value: object) -> None:
    found = read_one(**{key: value})
    assert "\x1b" not in repr(found).replace("\\x1b", "")
    assert found.told_size in {None, 2}


@pytest.mark.parametrize("text", ["0-99999999999", "a", "1-", "-", "3-1", "0-1000000,7"])
def test_a_list_of_cores_is_bounded(text: str) -> None:
    assert len(read_one(cpus=text).cpus) <= 4098
