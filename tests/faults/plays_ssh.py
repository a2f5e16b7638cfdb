"""Faults of hosts that are reached by ssh, and of what runs on them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import uuid
from contextlib import suppress
from pathlib import Path

from faults.stage import (
    REST_S,
    Head,
    Seen,
    Stage,
    failures,
    goes_on_for,
    pids_with,
    said_by_tare,
    words,
    wrongly_counted,
)
from integration.live import trials, wait_for

DONE = (0, 3, 4)
"""Exit codes of a study that ran to its end; 4 is that of failed cells."""
WENT_ON = "the study went on to its end"
RESUMED = "the same command resumed it to its end"


def ended(stage: Stage, study: Path, head: Head) -> Seen:
    """Return what was seen of a study that must run to its end by itself."""
    code, errors = head.wait()
    assert code in DONE, errors
    results = stage.results(study)
    assert wrongly_counted(results) == []
    return Seen(recorded=failures(results), codes=[code], said=said_by_tare(errors), then=WENT_ON)


def resumed(stage: Stage, study: Path, code: int, said: str, *, recorded: list[str] | None = None) -> Seen:
    """Run the same command again, which must run to its end."""
    before = (stage.results(study) / "trials.jsonl").read_bytes() if recorded is None else b""
    again = stage.start("run", study)
    last, errors = again.wait()
    assert last in DONE, errors
    results = stage.results(study)
    assert (results / "trials.jsonl").read_bytes().startswith(before)
    assert wrongly_counted(results) == []
    return Seen(recorded=failures(results), codes=[code, last], said=said, then=RESUMED)


def killed(pids: list[int], number: int = signal.SIGKILL) -> None:
    """Send a signal to processes, of which there must be one."""
    assert pids, "there is nothing to kill"
    for pid in pids:
        os.kill(pid, number)


def head_killed(stage: Stage) -> Seen:
    study = stage.study("head")
    head = stage.start("run", study)
    stage.until_ranks_run(head)
    killed([head.pid])
    head.process.communicate()
    on_nodes = [each for each in stage.left() if not each.startswith("head: /")]
    assert on_nodes == [], on_nodes
    return resumed(stage, study, -9, "")


def service_killed(stage: Stage) -> Seen:
    study = stage.study("service")
    head = stage.start("run", study)
    stage.until_ranks_run(head)
    killed(stage.services(stage.second))
    return ended(stage, study, head)


def sshd_killed(stage: Stage) -> Seen:
    """The listener dies: what is connected stays so."""
    study = stage.study("sshd")
    head = stage.start("run", study)
    stage.until_ranks_run(head)
    daemon = stage.hosts.daemons[stage.second.name]
    os.kill(daemon.pid, signal.SIGKILL)
    seen = ended(stage, study, head)
    stage.restart_sshd()
    return seen


def connection_killed(stage: Stage) -> Seen:
    study = stage.study("connection")
    head = stage.start("run", study)
    stage.until_ranks_run(head)
    killed([pid for pid in stage.pids(stage.second, "sshd: ", by=None) if "[listener]" not in words(pid)])
    return ended(stage, study, head)


def rank_killed(stage: Stage) -> Seen:
    study = stage.study("rank")
    head = stage.start("run", study)
    stage.until_ranks_run(head)
    killed(stage.ranks(stage.second))
    return ended(stage, study, head)


def mpirun_killed(stage: Stage) -> Seen:
    study = stage.study("mpirun")
    head = stage.start("run", study)
    stage.until_ranks_run(head)
    killed(stage.launchers(head))
    return ended(stage, study, head)


def outage(stage: Stage, *, for_s: float, patience: str) -> Seen:
    """Take the second host off the network for some seconds in a launch."""
    stage.restart_sshd(patience=patience)
    study = stage.study("outage")
    head = stage.start("run", study, patience=patience)
    stage.until_ranks_run(head)
    with stage.unreachable(stage.second):
        goes_on_for(for_s)
        left = stage.left_on(stage.second) if for_s > 60 or patience != "1" else []
    seen = ended(stage, study, head)
    stage.restart_sshd()
    assert left == [], left
    return seen


def outage_of_30_s(stage: Stage) -> Seen:
    seen = outage(stage, for_s=30, patience="1")
    assert not seen.recorded, seen
    return seen


def outage_of_2_min(stage: Stage) -> Seen:
    return outage(stage, for_s=120, patience="1")


def outage_beyond_lease(stage: Stage) -> Seen:
    return outage(stage, for_s=30, patience="0.2")


def outage_for_ever(stage: Stage) -> Seen:
    study = stage.study("forever")
    head = stage.start("run", study)
    stage.until_ranks_run(head)
    with stage.unreachable(stage.second):
        code, errors = head.wait()
        assert code == 5, errors
        wait_for(lambda: not stage.left_on(stage.second), "end of the node's lease", 40)
    return resumed(stage, study, code, said_by_tare(errors))


def disk_full(stage: Stage) -> Seen:
    """Leave no room in the second host's /tmp, where its user's home and the run's folder are, until a launch fails."""
    node = stage.second
    study = stage.study("disk")
    head = stage.start("run", study)
    stage.until_ranks_run(head)
    size_kb = stage.hosts.on(node, "sh", "-c", "df -k --output=used /tmp | tail -1").stdout.strip()
    assert stage.hosts.on(node, "mount", "-o", f"remount,size={max(int(size_kb), 4)}k", "/tmp").returncode == 0
    try:
        wait_for(lambda: failures(stage.results(study)) or head.process.poll() is not None, "failure", 120)
    finally:
        stage.hosts.on(node, "mount", "-o", "remount,size=50%", "/tmp")
    code, errors = head.wait()
    if code == 5:
        return resumed(stage, study, code, said_by_tare(errors))
    assert code in DONE, errors
    assert wrongly_counted(stage.results(study)) == []
    return Seen(recorded=failures(stage.results(study)), codes=[code], said=said_by_tare(errors), then=WENT_ON)


def head_rebooted(stage: Stage) -> Seen:
    """Kill all of the head's processes; below /run and /tmp nothing of them is left, and the boot has another ID."""
    study = stage.study("reboot")
    head = stage.start("run", study)
    stage.until_ranks_run(head)
    for pid in [head.pid, *pids_with(str(stage.hosts.folder))]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    head.process.communicate()
    shutil.rmtree(stage.hosts.run)
    for folder in Path("/tmp").glob(f"tare-s{head.pid}x*"):
        shutil.rmtree(folder)
    boot = stage.hosts.folder / "boot_id"
    boot.write_text(f"{uuid.uuid4()}\n")
    stage.boot = boot
    try:
        return resumed(stage, study, -9, "")
    finally:
        stage.boot = None


def clock_stepped(stage: Stage) -> Seen:
    """Step the wall clock that the head sees by an hour, forwards and then back, in launches."""
    study = stage.study("clock")
    step = stage.hosts.folder / "step"
    step.write_text("0")
    head = stage.start("run", study, env={"LD_PRELOAD": str(stepped_clock(stage)), "STEP_FILE": str(step)})
    stage.until_ranks_run(head)
    step.write_text("3600")
    wait_for(lambda: len(trials(stage.results(study))) or head.process.poll() is not None, "trial", 60)
    step.write_text("-3600")
    seen = ended(stage, study, head)
    stored = trials(stage.results(study))
    began = [trial["started_unix_s"] for trial in stored]
    assert max(began) - min(began) > 3000, "the step was not seen"
    assert all(REST_S <= trial["elapsed_s"] < 100 for trial in stored), [trial["elapsed_s"] for trial in stored]
    assert not seen.recorded, seen
    return seen


def stepped_clock(stage: Stage) -> Path:
    """Return a library that adds the seconds in a file to the wall clock of a process."""
    library = stage.hosts.folder / "step.so"
    source = Path(__file__).with_name("step.c")
    subprocess.run(("cc", "-shared", "-fPIC", "-O1", str(source), "-o", str(library), "-ldl"), check=True)
    return library


def interrupted_twice(stage: Stage) -> Seen:
    study = stage.study("sigint")
    head = stage.start("run", study)
    stage.until_ranks_run(head)
    os.kill(head.pid, signal.SIGINT)
    wait_for(lambda: not stage.launchers(head) or head.process.poll() is not None, "end of the launch")
    if head.process.poll() is None:
        os.kill(head.pid, signal.SIGINT)
    code, errors = head.wait()
    assert code == 130, errors
    left = stage.left()
    assert left == [], left
    return resumed(stage, study, code, said_by_tare(errors))


def two_on_one_folder(stage: Stage) -> Seen:
    study = stage.study("two")
    head = stage.start("run", study)
    stage.until_ranks_run(head)
    second = stage.hosts.tare("run", study)
    assert second.returncode == 2, second.stderr
    seen = ended(stage, study, head)
    assert not seen.recorded, seen
    return Seen(recorded=[], codes=[2, *seen.codes], said=said_by_tare(second.stderr), then="the first one went on")
