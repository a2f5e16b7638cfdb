"""Bad input and broken parts: one clear sentence with place and remedy, the right exit code, nothing lost or left."""

from __future__ import annotations

import os
import re
import shutil
import signal
from pathlib import Path

import pytest

from integration.live import (
    Ended,
    Watch,
    by_environment,
    compiled,
    ended,
    live,
    outcome,
    pids_of,
    processes,
    said,
    tare,
    trials,
    wait_for,
    write_study,
)
from integration.studies import stopped, watched
from tare.images.kernels import ensure_kernels
from tare.system.process import find

NEEDS_DOCKER = [pytest.mark.requires("docker", "mmdebstrap")]
pytestmark = live("cni")
TWO = ["bare", "bare+bridge"]


def without(*programs: str) -> tuple[str, ...]:
    """Return what makes tare run where these programs are not to be found: a file in their place that cannot run."""
    paths = {str(Path(path)) for name in programs if (path := find(name))}
    paths |= {str(Path(path).resolve()) for path in paths}
    covered = "".join(f"mount --bind /dev/null {path} && " for path in sorted(paths))
    return ("unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", f'{covered} exec "$@"', "sh")


BESIDE = ("another lab is up", "can decide nothing", "containers start from the image")


def told_once(result: Ended) -> str:
    """Return what tare said when it refused: one message, no traceback, besides remarks on labs, rounds and images."""
    assert "Traceback" not in result.stderr, result.stderr
    assert "internal error" not in result.stderr, result.stderr
    messages = [line for line in result.stderr.splitlines()
                if line.startswith("tare: ") and not any(words in line for words in BESIDE)]  # fmt: skip
    assert len(messages) == 1, result.stderr
    return result.stderr


def nothing_was_made(folder: Path) -> bool:
    return not list(folder.glob("results/*"))


def test_an_unknown_key_is_named_with_its_place_and_what_was_meant(tmp_path: Path) -> None:
    study = write_study(tmp_path, "typo", TWO, workloads="{micro: {kernel: [barrier]}}")
    result = tare("run", study, cwd=tmp_path)
    assert result.status == 2
    said = told_once(result)
    assert "typo.yaml:5:" in said
    assert "unknown key 'kernel'; did you mean kernels?" in said
    assert nothing_was_made(tmp_path)


@pytest.mark.parametrize(
    ("placement", "said"),
    [
        ("[{nodes: 2, ranks_per_node: 99}]", "99 ranks need 99 cores on node n0, which has"),
        ("[{nodes: 3, ranks_per_node: 1}]", "needs 3 nodes, but the cluster has 2"),
    ],
    ids=["more ranks than cores", "more nodes than the lab"],
)
def test_an_impossible_placement_is_refused_before_anything_is_made(placement: str, said: str, tmp_path: Path) -> None:
    study = write_study(tmp_path, "much", TWO, placements=placement)
    watch = Watch()
    result = tare("run", study, cwd=tmp_path)
    assert result.status == 2
    assert said in told_once(result)
    assert nothing_was_made(tmp_path)
    assert watch.left(result.lab) == []


def test_a_missing_mpi_is_named_with_what_installs_it(tmp_path: Path) -> None:
    study = write_study(tmp_path, "mpi", TWO)
    result = tare("run", study, cwd=tmp_path, before=without("mpirun.openmpi", "mpirun"))
    assert result.status == 2
    assert "Open MPI is not installed: apt-get install openmpi-bin" in told_once(result)
    assert nothing_was_made(tmp_path)


@pytest.mark.requires("docker", "mmdebstrap")
def test_without_docker_its_cells_are_unavailable_and_the_others_run(tmp_path: Path) -> None:
    study = write_study(tmp_path, "nodocker", [*TWO, "docker+bridge"])
    result = tare("run", study, cwd=tmp_path, before=without("dockerd"))
    assert result.status == 3, result.stderr
    assert "dockerd is not installed: apt-get install docker.io" in " ".join(result.stdout.split())
    found = by_environment(tmp_path / "results" / "nodocker")
    assert {name: [outcome(trial) for trial in its] for name, its in found.items()} == {
        "bare": ["Completed"],
        "bare+bridge": ["Completed"],
    }


def test_an_image_that_cannot_be_built_ends_the_run_and_leaves_no_half_image(tmp_path: Path) -> None:
    cache, tools = tmp_path / "cache", tmp_path / "tools"
    build = ensure_kernels("openmpi")
    shutil.copytree(build.prefix, cache / "kernels" / build.prefix.name)
    tools.mkdir()
    (tools / "mmdebstrap").write_text("#!/bin/sh\necho 'E: the mirror does not answer' >&2\nexit 25\n")
    (tools / "mmdebstrap").chmod(0o755)
    study = write_study(tmp_path, "image", ["bare", "bare+image"])
    watch = Watch()
    environment = {"TARE_CACHE": str(cache), "PATH": f"{tools}:{os.environ['PATH']}"}
    result = tare("run", study, cwd=tmp_path, env=environment)
    assert result.status == 5
    said = told_once(result)
    assert "E: the mirror does not answer" in said
    assert "image debian-openmpi" in said
    left = [path for part in ("images", "roots") for path in (cache / part).glob("[!.]*")]
    assert left == []
    assert nothing_was_made(tmp_path)
    assert watch.left(result.lab) == []


@pytest.fixture(scope="module")
def misbehave(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled("misbehave", tmp_path_factory.mktemp("misbehave"))


FAULTS = {
    "crash": r"it ended with status \d+: .*rank 1 .* on node n1 exited on signal 11",
    "exit": r"it ended with status 7: no input file",
    "abort": r"it ended with status 9: MPI_ABORT was invoked on rank 1",
    "silent": r"it ended with status \d+: .*process rank 1 .* on node n1 exiting improperly",
    "hang": r"it did not end within its time limit of 20 s; still running were .*misbehave",
}


@pytest.fixture(scope="module")
def went_wrong(misbehave: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Ended, Watch, Path]:
    """Run a study in which a program goes wrong in every way in the first of its two trials, and once not at all."""
    folder = tmp_path_factory.mktemp("wrong")
    limits = {fault: "20s" if fault == "hang" else "300s" for fault in FAULTS}
    workloads = ", ".join(
        f"{fault}: {{command: [{misbehave}, {fault}, /tmp/{fault}, /tmp/{fault}-2], time_limit: {limit}}}"
        for fault, limit in limits.items()
    )
    workloads = f"{{good: {{command: [{misbehave}], time_limit: 300s}}, {workloads}}}"
    study = write_study(folder, "wrong", TWO, workloads=workloads)
    result, watch = watched(study)
    return result, watch, folder / "results" / "wrong"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_program_that_goes_wrong_is_a_failed_trial_that_says_why(
    fault: str, went_wrong: tuple[Ended, Watch, Path]
) -> None:
    failed, other = [trial for trial in trials(went_wrong[2]) if trial["key"]["cell"].startswith(fault)]
    assert (outcome(failed), outcome(other)) == ("Failed", "Completed"), said((failed, other))
    assert failed["argv"][-3] == fault
    assert re.search(FAULTS[fault], failed["outcome"]["reason"]), failed["outcome"]


@pytest.mark.parametrize("fault", ["crash", pytest.param("hang", marks=pytest.mark.long)])
def test_a_program_that_goes_wrong_in_the_baseline_ends_the_study_after_one_launch(
    fault: str, misbehave: Path, tmp_path: Path
) -> None:
    limit = "20s" if fault == "hang" else "300s"
    workloads = f"{{app: {{command: [{misbehave}, {fault}], time_limit: {limit}}}}}"
    study = write_study(tmp_path, "bare", TWO, workloads=workloads, repetition="{rounds: 40, max_rounds: 40}")
    watch = Watch()
    result = tare("run", study, cwd=tmp_path)
    assert result.status == 4
    assert re.search(rf"app does not run in the baseline \(bare\), .*: {FAULTS[fault]}", told_once(result))
    assert trials(tmp_path / "results" / "bare") == []
    assert watch.left(result.lab) == []


def test_a_program_without_an_mpi_is_told_as_such(tmp_path: Path) -> None:
    study = write_study(tmp_path, "none", TWO, workloads="{app: {command: [/bin/true], time_limit: 300s}}")
    result = tare("run", study, cwd=tmp_path)
    assert result.status == 4
    assert "it is not an MPI program" in told_once(result)


def test_a_study_goes_on_after_failed_trials_and_leaves_no_rank_behind(
    went_wrong: tuple[Ended, Watch, Path], misbehave: Path
) -> None:
    result, watch, results = went_wrong
    assert result.status == 4, result.stderr
    assert "Traceback" not in result.stderr
    good = [trial for trial in trials(results) if trial["key"]["cell"].startswith("good")]
    assert [outcome(trial) for trial in good] == ["Completed", "Completed"]
    assert watch.left(result.lab) == []
    assert [pid for pid, _ in processes() if str(misbehave).encode() in cmdline(pid)] == []


def cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize(
    "environments",
    [
        pytest.param("[bare, bare+bridge]", id="bare"),
        pytest.param("[docker+bridge, bare]", id="docker", marks=[*NEEDS_DOCKER, pytest.mark.long]),
    ],
)
def test_a_rank_that_is_killed_from_outside_fails_its_trial_only(
    environments: str, misbehave: Path, tmp_path: Path
) -> None:
    # the first trial hangs until its rank is killed; a launch comes before the trials
    workloads = f"{{slow: {{command: [{misbehave}, hang, /tmp/rank, /tmp/rank-2], time_limit: 300s}}}}"
    study = write_study(tmp_path, "rank", environments, workloads=workloads)
    watch = Watch()
    with stopped("launch:started:2", "run", study, cwd=tmp_path) as process:
        name, wanted = f"s{process.pid}", f"{misbehave}\0hang\0".encode()

        def hanging() -> list[int]:
            ranks = [pid for pid in pids_of(name) if cmdline(pid).startswith(wanted)]
            return ranks if any(Path(f"/proc/{pid}/root/tmp/rank-2").exists() for pid in ranks) else []

        ranks = wait_for(hanging, "a rank that hangs")
        os.kill(max(ranks), signal.SIGKILL)
    result = ended(process)
    assert result.status == 4, result.stderr
    kinds = sorted(outcome(trial) for trial in trials(tmp_path / "results" / "rank"))
    assert kinds == ["Completed", "Failed"]
    (failed,) = [t for t in trials(tmp_path / "results" / "rank") if outcome(t) == "Failed"]
    assert "signal 9 (Killed)" in failed["outcome"]["reason"] or "status 137" in failed["outcome"]["reason"]
    assert watch.left(name) == []


def files(folder: Path) -> list[Path]:
    """Return the files of all results, but for the lock, which names the last process that asked."""
    return [path for path in (folder / "results").rglob("*") if path.is_file() and path.name != "lock"]


def test_the_results_of_another_study_are_neither_used_nor_touched(tmp_path: Path) -> None:
    first = write_study(tmp_path, "first", TWO)
    assert tare("run", first, cwd=tmp_path).status == 3
    before = {path: path.read_bytes() for path in files(tmp_path)}
    other = write_study(tmp_path, "other", [*TWO, "bare+macvlan"])
    result = tare("run", other, "--results", "results/first", cwd=tmp_path)
    assert result.status == 2
    said = told_once(result)
    assert "results/first" in said
    assert "--fresh" in said
    assert {path: path.read_bytes() for path in files(tmp_path)} == before
    fresh = tare("run", other, "--results", "results/first", "--fresh", cwd=tmp_path)
    assert fresh.status == 3, fresh.stderr
    kept = tmp_path / "results" / "first.previous-1" / "trials.jsonl"
    assert kept.read_bytes() == before[tmp_path / "results" / "first" / "trials.jsonl"]


@pytest.mark.requires("docker", "mmdebstrap")
def test_a_daemon_that_dies_fails_its_cells_with_the_reason_and_the_study_goes_on(tmp_path: Path) -> None:
    study = write_study(
        tmp_path, "daemon", ["bare", "bare+bridge", "docker+host"], repetition="{rounds: 3, max_rounds: 3}"
    )
    results = tmp_path / "results" / "daemon"
    watch = Watch()
    with stopped("store:after-trial:3", "run", study, cwd=tmp_path) as process:
        name = f"s{process.pid}"
        daemons = [pid for pid in pids_of(name) if b"dockerd\0" in cmdline(pid).split(b"--config-file")[0]]
        assert daemons
        for pid in daemons:
            os.kill(pid, signal.SIGKILL)
    result = ended(process)
    assert result.status == 4, (result.status, result.stderr)
    assert "Traceback" not in result.stderr
    found = by_environment(results)
    assert all([outcome(trial) for trial in found[name]] == ["Completed"] * 3 for name in ("bare", "bare+bridge"))
    kinds = [outcome(trial) for trial in found["docker+host"]]
    assert len(kinds) == 3
    assert kinds[-1] == "Failed"
    assert "docker" in found["docker+host"][-1]["outcome"]["reason"].lower()
    assert watch.left(name) == []


@pytest.mark.requires("docker", "mmdebstrap")
def test_a_daemon_that_does_not_start_ends_the_run_with_what_it_said(tmp_path: Path) -> None:
    study = write_study(tmp_path, "start", ["bare", "docker+host"])
    watch = Watch()
    result = tare("run", study, cwd=tmp_path, before=without("containerd"))
    assert result.status == 5
    said = told_once(result)
    assert "dockerd on d" in said
    assert "containerd" in said
    assert watch.left(result.lab) == []
