"""Commands are run to their end or time limit, and interrupts are held back while they begin."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from weakref import WeakSet

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tare.errors import CommandFailed, CommandTimeout, InfrastructureError, MissingTool
from tare.model import Workload
from tare.run.runner import judge
from tare.system import process
from tare.system.capture import STDERR_BYTES, STDOUT_BYTES
from tare.system.counters.monitor import Observed
from tare.system.process import beside, end, find, need, run, start
from tare.system.signals import NUMBERS, uninterrupted
from waiting import wait_until

STAYS = "exec sleep 600"
"""The end of a script of a process that a test ends."""


def sh(script: str, **options: Any) -> process.Result:
    return run(("/bin/sh", "-c", script), **{"timeout_s": None, **options})


def at_limit(script: str, pids: Path) -> process.Result:
    """Run a script and reach its time limit as soon as it has written a number into a file."""
    ours, theirs = socket.socketpair()

    def reach() -> None:
        wait_until(lambda: pids.exists() and pids.read_text().endswith("\n"))
        theirs.close()

    with ours, theirs, ThreadPoolExecutor(max_workers=1) as pool:
        reached = pool.submit(reach)
        result = sh(script, stop=ours, check=False)
        reached.result()
    return result


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_until_gone(pid: int) -> None:
    wait_until(lambda: not is_alive(pid), f"{pid} is gone")


@pytest.fixture
def pids(tmp_path: Path) -> Path:
    """Return the file into which a script writes a process number."""
    return tmp_path / "pids"


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "GRACE_S", 0.05)


def test_a_command_gives_its_status_its_outputs_and_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    result = sh("echo out; echo err >&2; exit 7", check=False)
    assert (result.status, result.stdout, result.stderr, result.timed_out) == (7, "out\n", "err\n", False)
    assert result.argv == ("/bin/sh", "-c", "echo out; echo err >&2; exit 7")
    assert sh("kill -9 $$", check=False).status == -signal.SIGKILL
    assert sh("printf 'a\\377b'").stdout == "a\N{REPLACEMENT CHARACTER}b"
    clock = iter((100.0, 107.5))
    monkeypatch.setattr(process, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    result = sh("true")
    assert (result.began_s, result.elapsed_s) == (100.0, 7.5)


@settings(max_examples=15)
@given(st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8")), min_size=1, max_size=4))
def test_no_token_is_ever_read_by_a_shell(tokens: list[str]) -> None:
    program = "import sys; sys.stdout.buffer.write(b'\\0'.join(a.encode() for a in sys.argv[1:]))"
    result = run((sys.executable, "-IS", "-c", program, *tokens), timeout_s=None)
    assert result.stdout.replace("\r\n", "\n") == "\0".join(tokens).replace("\r\n", "\n").replace("\r", "\n")


def test_input_environment_and_folder_are_as_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (run(("cat",), stdin="a\nb").stdout, run(("cat",)).stdout) == ("a\nb", "")
    (tmp_path / "in").write_bytes(b"\xff\n")
    assert run(("od", "-An", "-tx1"), stdin=tmp_path / "in").stdout == " ff 0a\n"
    with pytest.raises(InfrastructureError, match="gone cannot be read for cat: No such file"):
        run(("cat",), stdin=tmp_path / "gone")
    assert run(("true",), stdin="x" * 1_000_000).status == 0, "one that does not read it is no error"
    monkeypatch.setenv("OURS", "1")
    assert run(("/usr/bin/env",), env={"ONLY": "this"}).stdout == "ONLY=this\n"
    assert "OURS=1\n" in run(("/usr/bin/env",)).stdout
    assert run(("pwd",), cwd=tmp_path).stdout.strip() == str(tmp_path)


def test_a_failing_command_is_told_with_the_action_its_status_and_its_last_words() -> None:
    with pytest.raises(CommandFailed) as caught:
        sh("echo the disk is full >&2; exit 3", what="importing the image on n1")
    assert str(caught.value) == "importing the image on n1 failed (status 3): the disk is full"
    assert (caught.value.status, caught.value.stderr_tail) == (3, "the disk is full")
    assert caught.value.argv[0] == "/bin/sh"
    for script, words in (("exit 1", "no output"), ("echo only here; exit 1", "only here")):
        with pytest.raises(CommandFailed, match=words):
            sh(script)


@pytest.mark.parametrize("starting", [run, start])
def test_a_program_that_cannot_be_started_is_told_with_the_reason(starting: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("no program")
    with pytest.raises(MissingTool, match="no-such-program is not installed"):
        starting(("no-such-program",))
    with pytest.raises(InfrastructureError, match="plain cannot be started: Permission denied"):
        starting((str(tmp_path / "plain"),))
    with pytest.raises(InfrastructureError, match="the folder does not exist"):
        run(("true",), cwd=tmp_path / "gone")


def test_programs_of_administrators_are_found_and_missing_ones_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert (find("nologin"), find("no-such-program")) == ("/usr/sbin/nologin", None)
    with pytest.raises(MissingTool, match="program is not installed\n  apt-get install the-package"):
        need("no-such-program", package="the-package")


def test_at_its_time_limit_the_whole_group_is_ended_and_what_was_said_is_kept(pids: Path) -> None:
    result = at_limit(f"echo before; echo why >&2; sleep 600 & echo $! > {pids}; sleep 600", pids)
    assert (result.timed_out, result.stdout, result.stderr_tail) == (True, "before\n", "why")
    assert result.status < 0
    wait_until_gone(int(pids.read_text()))


def test_a_group_that_ignores_being_asked_or_cannot_be_killed_does_not_hold_us(
    pids: Path, short_grace: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = at_limit(f"trap '' TERM; echo $$ > {pids}; {STAYS}", pids)
    assert (result.timed_out, result.status) == (True, -signal.SIGKILL)
    wait_until_gone(int(pids.read_text()))
    monkeypatch.setattr(process, "_signal_group", lambda pid, number: None)  # as one that waits in the kernel (state D)
    result = at_limit(f"echo $$ > {pids}; {STAYS}", pids)
    try:
        assert (result.timed_out, result.status) == (True, -signal.SIGKILL)
        assert is_alive(int(pids.read_text()))
    finally:
        os.kill(int(pids.read_text()), signal.SIGKILL)


def test_a_process_that_left_the_group_and_holds_the_pipes_does_not_hold_us(pids: Path, short_grace: None) -> None:
    result = at_limit(f"echo before; setsid sh -c 'echo $$ > {pids}; {STAYS}' & sleep 600", pids)
    try:
        assert (result.timed_out, result.stdout) == (True, "before\n")
        assert result.status < 0
        assert is_alive(int(pids.read_text()))
    finally:
        os.kill(int(pids.read_text()), signal.SIGKILL)


@pytest.mark.parametrize("script", [STAYS, f"exec >&- 2>&-; {STAYS}"], ids=["pipes open", "pipes closed"])
def test_a_time_limit_that_is_checked_is_an_error_with_the_action(script: str) -> None:
    with pytest.raises(CommandTimeout, match=r"starting dockerd did not end within 0\.2 s"):
        sh(script, timeout_s=0.2, what="starting dockerd")


def test_an_interruption_ends_the_command_before_it_goes_on(pids: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        sh(f"echo $$ > {pids}; kill -INT $PPID; {STAYS}")
    wait_until_gone(int(pids.read_text()))


@pytest.mark.parametrize("way", [run, lambda argv: beside(argv).__enter__()], ids=["run", "beside"])
def test_an_interruption_while_starting_ends_it_too(way: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    started, popen = [], subprocess.Popen

    def interrupted(*arguments: Any, **options: Any) -> Any:
        started.append(popen(*arguments, **options))
        os.kill(os.getpid(), signal.SIGINT)
        return started[0]

    monkeypatch.setattr(process.subprocess, "Popen", interrupted)
    with pytest.raises(KeyboardInterrupt):
        way(("sleep", "600"))
    wait_until_gone(started[0].pid)


def test_an_interrupt_reaches_commands_of_other_threads(pids: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_interrupted", threading.Event())
    done: list[str] = []

    def work() -> None:
        try:
            sh(f"trap 'exit 0' TERM; echo $$ > {pids}; {STAYS}")
        except KeyboardInterrupt:
            process.undo(("true",), timeout_s=600, what="undoing")
            done.append("undone")
            try:
                sh("true")
            except KeyboardInterrupt:
                done.append("nothing begins any more")

    thread = threading.Thread(target=work)
    thread.start()
    wait_until(lambda: pids.exists() and pids.read_text().endswith("\n"))
    process.interrupt_threads(grace_s=600)
    thread.join()
    assert done == ["undone", "nothing begins any more"]
    wait_until_gone(int(pids.read_text()))
    assert sh("true").status == 0, "the main thread has its own way to be interrupted"


def test_a_command_that_has_just_begun_is_ended_by_an_interrupt_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Late(WeakSet[Any]):
        def add(self, item: Any) -> None:
            process.interrupt_threads(grace_s=0)  # it runs, but nobody knows it yet
            super().add(item)

    monkeypatch.setattr(process, "_interrupted", threading.Event())
    monkeypatch.setattr(process, "_attended", Late())
    waited: list[str] = []
    with ThreadPoolExecutor() as pool:
        ran = pool.submit(sh, STAYS, timeout_s=5, at_limit=lambda: waited.append("5 s") or "")
        assert isinstance(ran.exception(), KeyboardInterrupt)
    assert waited == []


def test_commands_of_other_threads_that_ignore_the_end_are_killed(pids: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_interrupted", threading.Event())
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(sh, f"trap '' TERM; echo $$ > {pids}; {STAYS}")
        wait_until(lambda: pids.exists() and pids.read_text().endswith("\n"))
        process.interrupt_threads(grace_s=0.05)
        assert isinstance(waiting.exception(), KeyboardInterrupt)
    wait_until_gone(int(pids.read_text()))


def test_a_started_command_logs_to_its_file_and_ends_when_told_or_is_killed(tmp_path: Path, pids: Path) -> None:
    log = tmp_path / "log"
    log.write_text("earlier\n")
    daemon = start(("/bin/sh", "-c", f"echo up; echo trouble >&2; {STAYS}"), log=log)
    wait_until(lambda: log.read_text() == "earlier\nup\ntrouble\n")
    assert os.getpgid(daemon.pid) == daemon.pid
    end(daemon, grace_s=600)
    assert daemon.returncode == -signal.SIGTERM
    daemon = start(("/bin/sh", "-c", f"trap '' TERM; echo $$ > {pids}; {STAYS}"))
    wait_until(pids.exists)
    end(daemon, grace_s=0.05)
    assert daemon.returncode == -signal.SIGKILL
    end(daemon)  # and ending it again is no error
    with beside(("sleep", "600")) as running:
        assert is_alive(running.pid)
    wait_until_gone(running.pid)


def test_the_end_of_stderr_is_kept_and_stdout_within_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    result = sh(f"head -c {3 * STDERR_BYTES} /dev/zero >&2; echo why >&2; head -c 300000 /dev/zero; echo done")
    assert (result.status, result.stdout[-5:], len(result.stdout), result.flooded) == (0, "done\n", 300_005, False)
    assert result.stderr.endswith("why\n")
    assert len(result.stderr) <= 2 * STDERR_BYTES
    monkeypatch.setattr(process, "GRACE_S", 600.0)
    tracemalloc.start()
    result = run(("yes", "x" * 60), check=False, timeout_s=None)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (result.flooded, result.timed_out, result.status) == (True, False, -signal.SIGTERM)
    assert len(result.stdout) == STDOUT_BYTES
    assert most < 6 * STDOUT_BYTES


def test_what_writes_without_end_is_ended_and_told_with_the_action_or_fails_its_launch(short_grace: None) -> None:
    with pytest.raises(CommandFailed, match="listing the image wrote more than 64 MiB to stdout") as told:
        sh("trap '' TERM; exec yes", what="listing the image")
    assert told.value.status == -signal.SIGKILL
    flooded = process.Result(argv=(), status=-15, stdout="y\n", stderr="", elapsed_s=1.0, flooded=True)
    launch = SimpleNamespace(cell=SimpleNamespace(workload=Workload(name="app", command=("yes",))))
    outcome, parsed = judge(launch, flooded, Observed())  # type: ignore[arg-type]
    assert parsed is None
    reason = "it wrote more than 64 MiB to stdout, the most that tare keeps, and was stopped"
    assert outcome.reason == reason  # type: ignore[union-attr]


@pytest.mark.parametrize("number", NUMBERS)
def test_an_interrupt_takes_effect_at_the_end_of_the_block(number: signal.Signals) -> None:
    before = [signal.getsignal(each) for each in NUMBERS]
    done = []
    with pytest.raises(KeyboardInterrupt, match=number.name), uninterrupted():  # noqa: PT012
        os.kill(os.getpid(), number)
        done.append(1)
    assert (done, [signal.getsignal(each) for each in NUMBERS]) == ([1], before)


def test_an_interrupt_takes_effect_at_the_end_of_the_outer_block_and_errors_pass() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt, match="SIGTERM"), uninterrupted():  # noqa: PT012
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGTERM)
        done.append(1)
        os.kill(os.getpid(), signal.SIGINT)
        done.append(2)
    assert done == [1, 2]
    with pytest.raises(ValueError, match="mine"), uninterrupted():
        raise ValueError("mine")


def test_in_another_thread_nothing_is_held_back() -> None:
    seen = []

    def go() -> None:
        with uninterrupted():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=go)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]
