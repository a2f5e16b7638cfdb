"""The doctor names what is there or missing, whether figures can be trusted, and what keeps two ranks apart."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden_texts import check_golden
from tare import study
from tare.agent import clean
from tare.cli.doctor import command, locality, machine, quiet, text
from tare.cli.doctor.locality import ask, described, diagnose, explain
from tare.clusters import CLUSTERS
from tare.errors import CommandFailed, UsageError
from tare.mpi import MPIS
from tare.networks import NETWORKS
from tare.runtimes import RUNTIMES
from tare.study.feasibility.availability import make_plan
from unit.scripts import script

CLUSTER_NAMES = [name for name, each in CLUSTERS.items() if not each.is_fake]
GOLDEN = Path(__file__).parents[3] / "golden" / "doctor.txt"
"""`TARE_UPDATE_GOLDEN=1 pytest tests/unit/cli/doctor/test_machine.py` rewrites it."""


@pytest.fixture(autouse=True)
def nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clean, "find", lambda **_: ())


def diagnosis(*, unusable: str = "", notes: int = 1, **reasons: str | None) -> machine.Diagnosis:
    """Return a diagnosis of parts named `FAMILY_NAME`, each with the reason why it cannot be used."""
    parts = [
        machine.Capability(
            family=family.upper() if family == "mpi" else family, name=name.replace("_", "-"), reason=reason
        )
        for key, reason in reasons.items()
        for family, _, name in (key.partition("_"),)
    ]
    return machine.Diagnosis(
        cluster="lab", where="In this emulated lab", user="root", unusable=unusable, parts=tuple(parts),
        machine="1 socket, 2 cores, 24 GiB, Linux 6.1, cgroup v2", noise="others use 0.1% of a core: quiet enough",
        notes=("killed runs left 3 items behind: `tare clean` removes them",) * notes,
    )  # fmt: skip


def test_a_diagnosis_groups_what_is_missing_by_its_reason_with_one_command_for_all_of_it() -> None:
    podman, flannel = "podman is not installed: apt-get install podman crun", "flanneld is not installed: run tools/n"
    found = diagnosis(
        cluster_lab=None, cluster_local=None, cluster_ssh=None, mpi_openmpi=None, runtime_bare=None, network_host=None,
        mpi_mpich="MPICH is not installed: apt-get install mpich", runtime_docker=DOCKER, network_bridge=None,
        runtime_podman=podman, runtime_podman_rootless=podman, network_flannel=f"{flannel}etworks flannel",
        runtime_podman_hpc="podman-hpc works for ordinary users on a machine, not in the lab: use podman-rootless",
        network_canal=f"{flannel}etworks flannel", image_debian="not built yet: tare image build debian",
        runtime_enroot="enroot is not installed: have an administrator install it",
    )  # fmt: skip
    check_golden(GOLDEN, {"a lab that lacks much": "\n".join(text.brief(found)) + "\n"})


@given(
    st.dictionaries(
        st.tuples(st.sampled_from(["cluster", "mpi", "runtime", "network", "image"]), st.text("abc", min_size=1)),
        st.none() | st.text("ab :", min_size=1, max_size=400),
        max_size=80,
    ),
    st.integers(0, 8),
    st.text("ab ", max_size=900),
)
def test_a_diagnosis_fits_on_a_screen_whatever_is_missing(
    reasons: dict[tuple[str, str], str | None], notes: int, unusable: str
) -> None:
    named = {"_".join(key): reason for key, reason in reasons.items()}
    assert len(text.brief(diagnosis(unusable=unusable, notes=notes, **named))) <= text.LINES == 24


@pytest.mark.parametrize("cluster", ["", *CLUSTER_NAMES])
def test_the_doctor_says_which_cluster_it_asked_in_a_screen_and_with_all_has_each_part_and_pair(
    cluster: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(quiet, "WATCH_S", 0.0)
    monkeypatch.setattr("tare.clusters.pods.api.find_spec", lambda _: None)
    monkeypatch.setenv("PATH", "/nowhere")
    command.show_doctor(command.About(cluster=cluster))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 24
    name = cluster or machine._usual_cluster(())
    assert lines[0].startswith(f"cluster {name} (")
    command.show_doctor(command.About(cluster=cluster, every=True))
    lines = capsys.readouterr().out.splitlines()
    for family, members in (("cluster", CLUSTERS), ("runtime", RUNTIMES), ("network", NETWORKS), ("MPI", MPIS)):
        for part in members:
            found = [line for line in lines if f" {family} {part}" in line.replace(":", " ") + " "]
            assert bool(found) == (not part.startswith("fake"))
    begin = lines.index(f"environments on cluster {name}")
    told = {line.split()[1].rstrip(":"): line.split()[0] for line in lines[begin + 1 :] if line.startswith("  ")}
    assert len(told) == len(machine.environments())
    assert set(told.values()) <= {"ok", "missing", "no"}


DOCKER = "dockerd is not installed: apt-get install docker.io"


def test_the_doctor_gives_the_reasons_of_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(RUNTIMES["docker"]), "probe", lambda self: DOCKER)
    monkeypatch.setattr(type(RUNTIMES["podman"]), "probe_machine", lambda self: "no podman here")
    monkeypatch.setattr("tare.system.node.limits.missing", lambda: "no cgroup for us")
    monkeypatch.setattr(machine.mpi_programs, "on_path", lambda: "mpicc is MPICH's and mpirun Open MPI's")
    lab, local = machine.diagnose("lab", pairs=True), machine.diagnose("local", pairs=True)
    assert {part.reason for part in lab.of("runtime") if part.name == "docker"} == {DOCKER}
    assert {part.reason for part in local.of("runtime") if part.name == "podman"} == {"no podman here"}
    never = {part.name: part.reason for part in lab.pairs if part.never}
    assert {"bare+overlay", "docker+docker-default"} <= set(never)
    assert "bridge needs a data NIC of its own" in str([part.reason for part in local.pairs if part.never])
    assert {"no cgroup for us", "mpicc is MPICH's and mpirun Open MPI's"} <= set(lab.notes)
    for found in (lab, local):
        stated = study.parse(
            f"cluster: {found.cluster}\nplacements: [{2 if found.cluster == 'lab' else 1}x1]\n"
            "environments: [bare, docker+host, podman]\nworkloads: {a: {command: ['true']}}"
        )
        reasons = {key.rpartition(" / ")[2]: reason for key, reason in make_plan(stated).unavailable.items()}
        pairs = {part.name: part.reason for part in found.pairs}
        assert [reasons.get("docker+host"), reasons.get("podman")] == [pairs["docker+host"], pairs["podman+host"]]


@pytest.mark.parametrize(
    ("missing", "cluster", "able"),
    [
        ((), "", True),
        (("lab",), "", True),
        (("lab",), "lab", False),
        (("openmpi",), "", True),
        (("openmpi", "openmpi5", "mpich", "mpich5", "intelmpi", "site"), "", False),
    ],
)
def test_where_no_environment_can_run_the_doctor_ends_with_5(
    missing: tuple[str, ...], cluster: str, able: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in (*RUNTIMES.values(), *NETWORKS.values()):  # what they look for takes long
        monkeypatch.setattr(type(other), "probe", lambda self: None)
    for name, member in (*CLUSTERS.items(), *MPIS.items()):
        reason = "it is gone: apt-get install it" if name in missing else None
        if not member.is_fake and name not in {"ssh", "kubernetes", "slurm"}:
            monkeypatch.setattr(type(member), "probe", lambda self, reason=reason: reason)
    monkeypatch.setattr(quiet, "WATCH_S", 0.0)
    assert command.show_doctor(command.About(cluster=cluster)) == (0 if able else 5)


@pytest.mark.parametrize(
    ("busy_s", "steal_s", "verdict"), [(0.0, 0.0, "quiet enough"), (0.5, 0.0, "NOT quiet"), (0.0, 0.2, "NOT quiet")]
)
def test_a_used_machine_is_not_quiet_whatever_this_process_does_meanwhile(
    busy_s: float, steal_s: float, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = iter([(100.0, 10.0, 0.0), (100.9 + busy_s, 10.0 + steal_s, 0.0)])
    moments = iter([0.0, 0.9, 1.0])
    own = iter([0.0, 0.9])
    monkeypatch.setattr(quiet.scheduling, "machine_times", lambda: next(readings))
    monkeypatch.setattr(quiet.time, "monotonic", lambda: next(moments))
    monkeypatch.setattr(quiet.time, "process_time", lambda: next(own))
    monkeypatch.setattr(quiet.time, "sleep", lambda s: None)
    line = quiet.watching()()
    assert verdict in line
    assert f"{busy_s:.1%}" in line
    assert f"{steal_s:.1%}" in line


def test_leftovers_of_killed_runs_are_counted_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    left = clean.Leftover(lab="s1", what="folder x")
    monkeypatch.setattr(clean, "find", lambda **options: (left,) * 3 if options == {"dead_only": True} else ())
    assert machine._left() == "killed runs left 3 items behind: `tare clean` removes them"


def test_environments_have_an_available_mpi_and_the_image_that_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in machine.environments().values():
        assert bool(value.image) == RUNTIMES[value.runtime].needs_image
    for name, member in MPIS.items():
        reason = None if name == "mpich" else "it is gone"
        monkeypatch.setattr(type(member), "probe", lambda self, reason=reason: reason)
    assert {value.mpi for value in machine.environments().values()} == {"mpich"}


def report(rank: int, **more: Any) -> dict[str, Any]:
    usual = {
        "rank": rank, "mpi": "Open MPI v4.1.4", "neighbours": 2, "hostname": "n0", "boot_id": "b", "pid": 10 + rank,
        "cpus": [rank], "namespaces": {"net": 1, "ipc": 1, "uts": 1, "pid": 1, "mnt": 1, "user": 1}, "shm": "27:1",
        "half_round_trip_us": {"1": 0.4, "65536": 6.0, "1048576": 70.0}, "single_copy": "yes",
    }  # fmt: skip
    return {**usual, **more}


def two(own: tuple[str, ...] = (), **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return two reports; the second rank has these namespaces of its own."""
    second = report(1, **more)
    second["namespaces"] = {name: 2 if name in own else 1 for name in second["namespaces"]}
    return report(0, **more), second


SLOW = {"1": 5.6, "65536": 32.0, "1048576": 380.0}


def test_two_ranks_that_share_memory_have_no_finding_and_others_one_that_comes_first() -> None:
    assert diagnose(two()) == ()
    assert "1 B 0.40 us" in described(two())
    first, second = two()
    assert diagnose((first, {**second, "boot_id": "other"})) == (
        "the ranks are on two machines, which share no memory: start both on one",
    )
    (finding,) = diagnose(two(cpus=[0], half_round_trip_us={"1": 3490.0, "65536": 1.0, "1048576": 1.0}))
    assert finding.startswith("binding collapse: both ranks may only use core 0")
    assert "--cpuset-cpus" in finding
    first, second = two(("ipc",), half_round_trip_us=SLOW)
    (finding,) = diagnose((first, {**second, "shm": "30:1"}))
    assert "/dev/shm of its own" in finding


@pytest.mark.parametrize(
    ("own", "part"),
    [(("net", "mnt"), "one pod under one daemon"), (("mnt",), "one daemon on the host"), ((), "start both with one")],
)
def test_ranks_that_the_mpi_takes_for_two_hosts_lose_their_transport(own: tuple[str, ...], part: str) -> None:
    (finding,) = diagnose(two(own, neighbours=1, single_copy=""))
    assert finding.startswith("transport loss: ")
    assert part in finding


@pytest.mark.parametrize(("own", "part"), [(("ipc",), "--ipc"), (("pid",), "--pid"), ((), "or the machine is busy")])
def test_slow_neighbours_are_told_what_they_do_not_share(own: tuple[str, ...], part: str) -> None:
    (finding,) = diagnose(two(own, half_round_trip_us=SLOW))
    assert finding.startswith("one byte takes 5.6 us")
    assert part in finding


@pytest.mark.parametrize(
    ("mpi", "own", "parts"),
    [
        ("Open MPI v4.1.4", (), ("seccomp", "btl_vader_single_copy_mechanism none")),
        ("Open MPI v5.0.1", ("user",), ("two user namespaces", "smsc ^cma")),
        ("MPICH Version: 4.0.2", ("pid",), ("two pid namespaces", "UCX_TLS=^cma")),
        ("MPICH Version:      5.0.2", ("pid",), ("two pid namespaces", "MPIR_CVAR_CH4_CMA_ENABLE=0")),
    ],
)
def test_a_forbidden_single_copy_has_cause_and_option(mpi: str, own: tuple[str, ...], parts: tuple[str, ...]) -> None:
    (finding,) = diagnose(two(own, mpi=mpi, single_copy="EPERM"))
    assert all(part in finding for part in ("EPERM", *parts))


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("[n0:1] [ 0] mca_btl_vader.so\nSignal: Segmentation fault", "equal process numbers"),
        ("mpirun detected ... signal 11 (Segmentation fault)", "equal process numbers"),
        ("PMIX ERROR: UNREACHABLE", "session folder"),
        ("There are not enough slots available", "--oversubscribe"),
        ("run mpirun as root ... --allow-run-as-root", "--allow-run-as-root"),
    ],
)
def test_ranks_that_do_not_come_up_are_explained(words: str, part: str) -> None:
    assert part in explain(words)
    assert explain("something else") == ""


def launcher(tmp_path: Path, *lines: str, status: int = 0) -> tuple[str, ...]:
    """Return a command that says these lines whatever it is asked to start."""
    return (str(script(tmp_path / "launcher", f"printf '%s' {shlex.join(lines)}\nexit {status}")),)


def test_the_output_of_a_launcher_is_taken_apart_or_quoted_and_an_unknown_one_refused(tmp_path: Path) -> None:
    said = "".join(f"@tare-locality {json.dumps(report(rank))}" for rank in (1, 0))
    assert [each["rank"] for each in ask(launcher(tmp_path, said))] == [0, 1]
    with pytest.raises(CommandFailed, match="did not start two ranks") as caught:
        ask(launcher(tmp_path, "There are not enough slots", status=1))
    assert "--oversubscribe" in caught.value.remedy
    with pytest.raises(UsageError, match="there is no program nowhere"):
        locality.checked(["--", "nowhere", "-n", "2"])
    assert locality.checked([sys.executable]) == (sys.executable,)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([], "variables (OMPI_*, PMIX_*, PMI_*) do not reach it"),
        (["PMI_RANK"], "the launcher's variables reach it (PMI_RANK): its MPI, Open MPI v4.1.4, is another"),
    ],
)
def test_ranks_that_are_alone_are_told_as_that_and_why(given: list[str], told: str, tmp_path: Path) -> None:
    line = f"{locality.MARK}{json.dumps({'alone': 'Open MPI v4.1.4', 'given': given})}\n"
    with pytest.raises(CommandFailed) as caught:
        ask(launcher(tmp_path, line, line))
    assert "each process is alone (rank 0 of 1)" in str(caught.value)
    assert told in str(caught.value)
    assert caught.value.remedy
