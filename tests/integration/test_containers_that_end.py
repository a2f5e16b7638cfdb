"""A container that ends in the middle of a study fails the launches it was needed for, by name, and no others."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from integration.live import (
    Watch,
    by_environment,
    compiled,
    ended,
    live,
    outcome,
    pids_of,
    reached,
    start,
    write_study,
)

pytestmark = live("docker", "podman", "mmdebstrap")
SLEEPS = "sleep\0infinity"


def test_a_container_that_ends_is_named_and_made_anew_in_the_next_round(tmp_path: Path) -> None:
    (made := tmp_path / "made").mkdir()
    (made / "first").touch()  # so in containers the first launch hangs, and all later ones end well
    command = f"{compiled('misbehave', tmp_path)}, hang, /made/first, /made/second"
    study = write_study(
        tmp_path,
        "dies",
        "{bare: , docker: {binds: ['./made:/made']}}",
        workloads=f"{{app: {{command: [{command}], time_limit: 1h}}}}",
        repetition="{rounds: 2, max_rounds: 2, blocks_per_round: 2}",
    )
    watch = Watch()
    process = start("run", study, cwd=tmp_path)
    name = f"s{process.pid}"
    reached(process, (made / "second").exists, "rank that hangs in a container")
    os.kill(container_with(name, "misbehave"), signal.SIGKILL)
    result = ended(process)
    assert result.status in (0, 3, 4), (result.status, result.stderr)
    found = by_environment(tmp_path / "results" / "dies")
    assert [outcome(trial) for trial in found["bare"]] == ["Completed"] * 4
    hit, missed, *later = sorted(found["docker"], key=lambda trial: (trial["key"]["round"], trial["started_unix_s"]))
    assert [outcome(trial) for trial in later] == ["Completed"] * 2
    for trial in (hit, missed):
        assert outcome(trial) == "Failed"
        reason = trial["outcome"]["reason"]
        assert "the container tare-" in reason, reason
        assert "on d0 has ended" in reason or "on d1 has ended" in reason, reason
    assert "while the launch ran" in hit["outcome"]["reason"]
    assert missed["elapsed_s"] == 0, "a launch into a container that is not there was tried"
    assert watch.left(name) == []


def test_launch_names_the_container_that_ended_and_returns_125(tmp_path: Path) -> None:
    program = compiled("misbehave", tmp_path)
    watch = Watch()
    process = start("launch", "--runtime", "podman", "-n", "2", "--", str(program), "hang", cwd=tmp_path)
    name = f"l{process.pid}"
    os.kill(reached(process, lambda: container_with(name, program.name), "rank in a container"), signal.SIGKILL)
    result = ended(process)
    assert result.status == 125, (result.status, result.stderr)
    assert "has ended while the application ran" in result.stderr
    assert "Traceback" not in result.stderr
    assert watch.left(name) == []


def container_with(lab: str, program: str) -> int:
    """Return the first process of a container in which a program runs, 0 where there is none yet."""
    pids = pids_of(lab)
    within = {namespace(pid) for pid in pids if program in _text(pid, "cmdline")}
    return next(
        (pid for pid in pids if namespace(pid) in within and SLEEPS in _text(pid, "cmdline") and is_first(pid)), 0
    )


def is_first(pid: int) -> bool:
    return _text(pid, "status").partition("NSpid:")[2].partition("\n")[0].split()[-1:] == ["1"]


def namespace(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""


def _text(pid: int, file: str) -> str:
    try:
        return Path(f"/proc/{pid}/{file}").read_text(errors="replace")
    except OSError:
        return ""
