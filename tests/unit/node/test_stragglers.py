from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from tare.host.process import run
from tare.node.stragglers import MOST, Still, listing, look, named, since, summary, told
from waiting import wait_until


def still(name: str, *, pid: int = 1, state: str = "S") -> Still:
    return Still(pid=pid, name=name, state=state, waits_in="do_poll", command=f"/usr/bin/{name} --flag")


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ((), ""),
        ((still("mpirun"),), "1 mpirun"),
        ((still("mpirun"), still("orted"), still("orted")), "1 mpirun, 2 orted"),
        ((still("orted", state="Z"), still("orted")), "1 ended orted, 1 orted"),
    ],
)
def test_names_are_counted(found: Sequence[Still], words: str) -> None:
    assert summary(found) == words


def test_each_is_listed_with_what_it_waits_for_but_no_more_than_can_be_read() -> None:
    assert listing(()) == ""
    assert listing([still("mpirun", pid=7)]).splitlines()[1:] == ["7 S do_poll /usr/bin/mpirun --flag"]
    assert len(listing([still("a", pid=pid) for pid in range(1, 3 * MOST)]).splitlines()) == 1 + MOST


def test_a_process_is_looked_at_and_one_that_has_ended_is_left_out() -> None:
    program = (sys.executable, "-IS", "-c", "input('up')")
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read(2) == b"up"
        (found,) = look({process.pid})
        assert found.pid == process.pid
        assert found.command.endswith("input('up')")
        assert found.state in "RSD"
        process.kill()
    assert look({process.pid}) == ()


def test_a_command_is_looked_at_at_its_time_limit_before_it_is_ended() -> None:
    seen: list[str] = []
    pids: list[int] = []

    def at_limit() -> str:
        wait_until(lambda: named(pids) == {pids[0]: "sleep"})
        seen.append(told(pids))
        return seen[0].splitlines()[0]

    result = run(("sleep", "600"), timeout_s=0.05, check=False, started=pids.append, at_limit=at_limit)
    assert (result.timed_out, result.at_limit) == (True, "1 sleep")
    quick = run(("true",), timeout_s=600, check=False, at_limit=at_limit)
    assert (quick.at_limit, len(seen)) == ("", 1)


def test_a_shell_that_became_another_program_is_one_of_those_since() -> None:
    with subprocess.Popen(["sh", "-c", "read line && exec cat"], stdin=subprocess.PIPE) as shell:
        wait_until(lambda: named([shell.pid]) == {shell.pid: "sh"})
        before = named([shell.pid, os.getpid()])
        assert since(before, before) == set()
        assert shell.stdin is not None
        shell.stdin.write(b"go\n")
        shell.stdin.flush()
        wait_until(lambda: named([shell.pid]) == {shell.pid: "cat"})
        assert since([*before, 1], before) == {shell.pid, 1}
        shell.kill()
    assert named([shell.pid]) == {}
