"""Each rule names its fault, and none of them a job that is right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tare.analysis.check.facts import JobFacts, MpiAnswer, PairTimes, RankFacts, RankInterface
from tare.analysis.check.finding import Severity
from tare.analysis.check.judge import exit_code, judge, unknown
from tare.analysis.check.rules import RULES

NEAR = PairTimes(other=1, small_us=0.5, large_us=100.0, large_bytes=1 << 20, sent_bytes=1000)
FAR = replace(NEAR, bytes={"eth0": 1000.0})
ETH0 = RankInterface(name="eth0", mtu=1500, is_up=True)


def rank(number: int, *, machine: str = "a", size: int = 4, **changed: object) -> RankFacts:
    answer = MpiAnswer(
        ended="exit", library="Open MPI v4.1.4", rank=number, size=size, shares=2, ranks_here=2, near=NEAR, is_done=True
    )
    made = RankFacts(
        host=f"n{machine}",
        machine=machine,
        namespaces={"mnt": 1},
        cpus=frozenset({number}),
        shm_bytes=8e9,
        variables={"OMPI_COMM_WORLD_SIZE": str(size), "OMPI_COMM_WORLD_RANK": str(number)},
        interfaces=(ETH0, RankInterface(name="docker0", mtu=1500)),
        program="./app",
        kind="elf",
        mpi_library="/usr/lib/libmpi.so.40",
        mpi=answer,
    )
    return replace(made, **changed)  # type: ignore[arg-type]


def answer(number: int, **changed: object) -> RankFacts:
    """Return a rank whose MPI answers in another way."""
    made = rank(number)
    assert made.mpi is not None
    return replace(made, mpi=replace(made.mpi, **changed))  # type: ignore[arg-type]


def job(*ranks: RankFacts, **changed: object) -> JobFacts:
    four = (rank(0), rank(1), rank(2, machine="b"), rank(3, machine="b"))
    made = JobFacts(launcher="mpirun", container="", ranks=ranks or four, hosts=2)
    return replace(made, **changed)  # type: ignore[arg-type]


def all_ranks(**changed: object) -> JobFacts:
    made = job()
    return replace(made, ranks=tuple(replace(each, **changed) for each in made.ranks))  # type: ignore[arg-type]


def all_answers(**changed: object) -> JobFacts:
    made = job()
    return replace(
        made,
        ranks=tuple(
            replace(each, mpi=replace(each.mpi, **changed))  # type: ignore[type-var,arg-type]
            for each in made.ranks
        ),
    )


FAULTS = {
    "no-ranks": replace(job(), ranks=(), status=1, reason="Error: no such image"),
    "no-program": all_ranks(kind="none", mpi=None),
    "missing-library": all_ranks(missing=("libmpich.so.12",), mpi=None),
    "alone": all_answers(size=1, rank=0, shares=1, ranks_here=1, near=None),
    "fails-to-start": all_answers(
        size=None, ended="signal", signal=6, error="no route to host", near=None, is_done=False),
    "hangs": all_answers(size=None, ended="limit", near=None, is_done=False),
    "some-silent": job(rank(0), rank(1), hosts=None),
    "one-node": job(*(rank(number) for number in range(4))),
    "wrong-interface": all_answers(far=replace(FAR, bytes={"docker0": 1000.0})),
    "no-infiniband": replace(all_ranks(devices="infiniband/uverbs0"), ranks=(
        *(replace(each, devices="infiniband/uverbs0") for each in all_answers(far=FAR).ranks),)),
    "apart": all_answers(near=replace(NEAR, bytes={"lo": 1000.0})),
    "shared-cores": all_ranks(cpus=frozenset({0})),
    "small-quota": all_ranks(quota_cores=1.0),
    "crowded-threads": all_ranks(variables={"OMPI_COMM_WORLD_SIZE": "4", "OMP_NUM_THREADS": "8"}),
    "mtu-differs": replace(all_answers(far=FAR), ranks=(
        *all_answers(far=FAR).ranks[:2],
        *(replace(each, interfaces=(replace(ETH0, mtu=9000),)) for each in all_answers(far=FAR).ranks[2:]))),
    "small-shm": all_ranks(shm_bytes=float(64 << 20)),
    "little-locked": all_ranks(devices="infiniband/uverbs0", limits={"locked_bytes": "65536"}),
}  # fmt: skip


def test_every_rule_has_a_fault_that_is_planted_here() -> None:
    assert list(FAULTS) == [rule.name for rule in RULES]


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_named_first_with_a_remedy(name: str) -> None:
    findings = judge(FAULTS[name])
    assert findings[0].rule == name
    assert findings[0].remedy
    assert "  " not in findings[0].seen
    risk = findings[0].severity is Severity.RISK
    assert exit_code(findings, None) == (0 if risk else 1)


def test_a_job_that_is_right_has_no_finding() -> None:
    assert judge(job()) == ()
    assert judge(all_answers(far=FAR)) == ()
    assert exit_code((), None) == 0


def test_one_rank_alone_is_right_where_one_was_started() -> None:
    assert judge(job(rank(0, size=1), hosts=None)) == ()


def test_what_was_set_is_named_where_it_forbids_shared_memory() -> None:
    made = FAULTS["apart"]
    ranks = tuple(replace(each, variables={**each.variables, "UCX_TLS": "tcp,self"}) for each in made.ranks)
    (found,) = judge(replace(made, ranks=ranks))
    assert "UCX_TLS=tcp,self" in found.seen
    assert found.remedy.startswith("unset UCX_TLS")


@pytest.mark.parametrize("value", ["all", "^tcp", "sm,self,tcp", "posix,tcp"])
def test_a_setting_that_leaves_shared_memory_in_is_not_blamed(value: str) -> None:
    made = FAULTS["apart"]
    ranks = tuple(replace(each, variables={**each.variables, "UCX_TLS": value}) for each in made.ranks)
    assert "UCX_TLS" not in judge(replace(made, ranks=ranks))[0].seen


@pytest.mark.parametrize(
    ("container", "launcher", "variables", "remedy"),
    [
        ("docker", "mpirun", {}, "docker run -e NAME"),
        ("podman", "mpirun", {}, "--env-host"),
        ("apptainer", "mpirun", {}, "--cleanenv"),
        ("", "srun", {"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, "--mpi=pmix"),
        ("apptainer", "mpirun", {"PMI_RANK": "0", "PMI_SIZE": "4"}, "image with the MPI of your launcher"),
        ("", "mpirun", {"PMI_RANK": "0", "PMI_SIZE": "4"}, "mpirun.openmpi"),
    ],
)
def test_the_remedy_for_ranks_that_are_alone_is_the_launchers(
    container: str, launcher: str, variables: dict[str, str], remedy: str
) -> None:
    made = FAULTS["alone"]
    ranks = tuple(replace(each, variables=variables) for each in made.ranks)
    found = judge(replace(made, ranks=ranks, container=container, launcher=launcher))
    assert found[0].rule == "alone"
    assert remedy in found[0].remedy


def test_a_program_whose_mpi_cannot_be_asked_is_no_verdict() -> None:
    made = all_ranks(kind="script", mpi=None)
    assert judge(made) == ()
    hidden = unknown(made)
    assert hidden is not None
    assert exit_code((), hidden) == 3


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({"ended": "signal", "signal": 7}, "fails-to-start"),
        ({"ended": "limit"}, "hangs"),
        ({"ended": "limit", "far": FAR}, "hangs"),
    ],
)
def test_an_mpi_that_starts_and_does_not_end_well_is_not_right(changed: dict[str, object], rule: str) -> None:
    assert judge(all_answers(is_done=False, **changed))[0].rule == rule


def test_the_rank_that_failed_is_named_before_those_that_were_ended_for_it() -> None:
    ended = all_answers(is_done=False, size=None, near=None, ended="killed")
    own = replace(ended.ranks[1].mpi, ended="exit", status=7, error="no memory")  # type: ignore[type-var]
    found = judge(replace(ended, ranks=(ended.ranks[0], replace(ended.ranks[1], mpi=own), *ended.ranks[2:])))
    assert (found[0].rule, found[0].seen) == ("fails-to-start", "MPI_Init ends with status 7: no memory")
    assert "the launcher's end of all ranks: why" in judge(replace(ended, reason="why"))[0].seen


@pytest.mark.parametrize("why", ["process_vm_readv(pid=3) returned -1", "ucx_init.c Shared memory error"])
def test_containers_that_may_not_share_memory_are_joined(why: str) -> None:
    made = all_answers(is_done=False, size=None, near=None, error=why)
    assert judge(replace(made, container="ch-run"))[0].remedy.startswith("ch-run --join")
    assert judge(made)[0].remedy.startswith("mend that")


def test_an_mpi_that_hangs_after_its_end_is_right() -> None:
    assert judge(all_answers(ended="limit")) == ()


def test_an_mpi_that_had_no_place_to_run_from_is_no_verdict() -> None:
    made = all_answers(ended="no place to run from", is_done=False, size=None, near=None)
    hidden = unknown(made)
    assert judge(made) == ()
    assert hidden is not None
    assert "no place to run from" in hidden.seen


@pytest.mark.parametrize(
    ("changed", "rule", "remedy"),
    [
        ({"kind": "forbidden"}, "no-program", "chmod a+rx ./app"),
        ({"missing": ("version GLIBC_2.34",)}, "missing-library", "compile it on na"),
    ],
)
def test_a_program_that_cannot_start_has_the_remedy_of_its_reason(
    changed: dict[str, object], rule: str, remedy: str
) -> None:
    found = judge(all_ranks(mpi=None, **changed))[0]
    assert (found.rule, found.remedy) == (rule, found.remedy if remedy in found.remedy else remedy)


def test_the_docs_list_every_rule_with_what_is_right_and_its_reports() -> None:
    rows = [f"| `{rule.name}` | {rule.usual} | {' '.join(rule.threads)}" for rule in RULES]
    text = Path("docs/check.md").read_text()
    assert [line.rstrip(" |") for line in text.splitlines() if line.startswith("| `")] == [
        row.rstrip(" |") for row in rows
    ]


def test_a_node_with_fewer_cores_than_ranks_needs_fewer_ranks_and_no_other_binding() -> None:
    made = all_ranks(cpus=frozenset({0, 1}), online=2)
    few = replace(made, ranks=tuple(replace(each, machine="a") for each in made.ranks), hosts=1)
    found = judge(few)[0]
    assert (found.rule, found.line) == ("shared-cores", "")
    assert found.remedy == "start at most 2 ranks on a node"
