"""Commands are run to their end, to their time limit, and never leave their group behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tare.errors import CommandFailed, CommandTimeout, InfrastructureError, MissingTool
from tare.host import process
from tare.host.process import beside, end, find, need, run, start


def sh(script: str, **options: object) -> process.Result:
    return run(("/bin/sh", "-c", script), **options)  # type: ignore[arg-type]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_until_gone(pid: int, limit_s: float = 5.0) -> bool:
    until = time.monotonic() + limit_s
    while is_alive(pid) and time.monotonic() < until:
        time.sleep(0.01)
    return not is_alive(pid)


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "GRACE_S", 0.3)


def test_a_command_gives_its_status_and_both_of_its_outputs_apart() -> None:
    result = sh("echo out; echo err >&2; exit 7", check=False)
    assert (result.status, result.stdout, result.stderr, result.timed_out) == (7, "out\n", "err\n", False)
    assert result.argv == ("/bin/sh", "-c", "echo out; echo err >&2; exit 7")


def test_a_command_ended_by_a_signal_has_its_negative_number() -> None:
    assert sh("kill -9 $$", check=False).status == -signal.SIGKILL


def test_elapsed_time_is_that_of_the_command() -> None:
    assert 0.2 <= sh("sleep 0.2").elapsed_s < 2


@settings(max_examples=20, deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8")), min_size=1, max_size=4))
def test_no_token_is_ever_read_by_a_shell(tokens: list[str]) -> None:
    program = "import sys; sys.stdout.buffer.write(b'\\0'.join(a.encode() for a in sys.argv[1:]))"
    result = run((sys.executable, "-IS", "-c", program, *tokens))
    assert result.stdout.replace("\r\n", "\n") == "\0".join(tokens).replace("\r\n", "\n").replace("\r", "\n")


def test_stdin_reaches_the_command_and_without_it_there_is_nothing_to_read() -> None:
    assert run(("cat",), stdin="a\nb").stdout == "a\nb"
    assert run(("cat",)).stdout == ""


def test_a_command_that_does_not_read_its_stdin_is_no_error() -> None:
    assert run(("true",), stdin="x" * 1_000_000).status == 0


def test_output_larger_than_a_pipe_is_read_whole() -> None:
    result = sh("head -c 300000 /dev/zero | tr '\\0' a; head -c 300000 /dev/zero | tr '\\0' b >&2")
    assert (len(result.stdout), len(result.stderr)) == (300_000, 300_000)


def test_bytes_that_are_no_text_are_replaced_and_not_fatal() -> None:
    assert sh("printf 'a\\377b'").stdout == "a\N{REPLACEMENT CHARACTER}b"


def test_the_given_environment_replaces_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OURS", "1")
    assert run(("/usr/bin/env",), env={"ONLY": "this"}).stdout == "ONLY=this\n"
    assert "OURS=1\n" in run(("/usr/bin/env",)).stdout


def test_a_command_runs_in_the_folder_that_is_asked_for(tmp_path: Path) -> None:
    assert run(("pwd",), cwd=tmp_path).stdout.strip() == str(tmp_path)


def test_a_failing_command_is_told_with_the_action_its_status_and_its_last_words() -> None:
    with pytest.raises(CommandFailed) as caught:
        sh("echo the disk is full >&2; exit 3", what="importing the image on n1")
    assert str(caught.value) == "importing the image on n1 failed (status 3): the disk is full"
    assert (caught.value.status, caught.value.stderr_tail) == (3, "the disk is full")
    assert caught.value.argv[0] == "/bin/sh"


def test_a_command_that_fails_silently_is_said_to_and_one_that_talks_on_stdout_is_quoted() -> None:
    with pytest.raises(CommandFailed, match="no output"):
        sh("exit 1")
    with pytest.raises(CommandFailed, match="only here"):
        sh("echo only here; exit 1")


def test_a_missing_program_is_named_and_not_a_missing_file() -> None:
    with pytest.raises(MissingTool, match="no-such-program is not installed"):
        run(("no-such-program",))
    with pytest.raises(MissingTool, match="no-such-program is not installed"):
        start(("no-such-program",))


def test_a_file_that_is_not_executable_is_an_error_of_ours(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("no program")
    for starting in (run, start):
        with pytest.raises(InfrastructureError, match="plain cannot be started: Permission denied"):
            starting((str(plain),))  # type: ignore[operator]


def test_a_missing_folder_is_not_told_as_a_missing_program(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="the folder does not exist"):
        run(("true",), cwd=tmp_path / "gone")


def test_at_its_time_limit_the_whole_group_is_ended(tmp_path: Path, short_grace: None) -> None:
    pids = tmp_path / "pids"
    started = time.monotonic()
    result = sh(f"sleep 600 & echo $! > {pids}; sleep 600", timeout_s=0.3, check=False)
    assert result.timed_out
    assert result.status < 0
    assert time.monotonic() - started < 5
    assert wait_until_gone(int(pids.read_text()))


def test_a_group_that_ignores_being_asked_is_killed(tmp_path: Path, short_grace: None) -> None:
    pids = tmp_path / "pids"
    script = f"trap '' TERM; echo $$ > {pids}; while :; do sleep 0.05; done"
    result = sh(script, timeout_s=0.3, check=False)
    assert (result.timed_out, result.status) == (True, -signal.SIGKILL)
    assert wait_until_gone(int(pids.read_text()))


def test_what_was_said_before_the_time_limit_is_kept(short_grace: None) -> None:
    result = sh("echo before; echo why >&2; sleep 600", timeout_s=0.3, check=False)
    assert (result.stdout, result.stderr_tail) == ("before\n", "why")


def test_a_process_that_left_the_group_and_holds_the_pipes_does_not_hold_us(tmp_path: Path, short_grace: None) -> None:
    pids = tmp_path / "pids"
    started = time.monotonic()
    script = f"setsid sh -c 'echo $$ > {pids}; exec sleep 600' & echo before; sleep 600"
    result = sh(script, timeout_s=0.5, check=False)
    try:
        assert time.monotonic() - started < 5
        assert (result.timed_out, result.stdout) == (True, "before\n")
        assert result.status < 0
    finally:
        os.kill(int(pids.read_text()), signal.SIGKILL)


def test_a_time_limit_that_is_checked_is_an_error_with_the_action() -> None:
    with pytest.raises(CommandTimeout, match=r"starting dockerd did not end within 0\.2 s"):
        sh("sleep 600", timeout_s=0.2, what="starting dockerd")


def test_an_interruption_ends_the_command_before_it_goes_on(tmp_path: Path) -> None:
    pids = tmp_path / "pids"

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(KeyboardInterrupt):
            sh(f"echo $$ > {pids}; sleep 600")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert wait_until_gone(int(pids.read_text()))


@pytest.mark.parametrize("way", [run, lambda argv: beside(argv).__enter__()], ids=["run", "beside"])
def test_an_interruption_in_the_middle_of_starting_ends_the_command_too(
    way: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    started, popen = [], subprocess.Popen

    def interrupted(*arguments: Any, **options: Any) -> Any:
        started.append(popen(*arguments, **options))
        os.kill(os.getpid(), signal.SIGINT)
        return started[0]

    monkeypatch.setattr(process.subprocess, "Popen", interrupted)
    with pytest.raises(KeyboardInterrupt):
        way(("sleep", "600"))
    assert wait_until_gone(started[0].pid)


def test_a_command_beside_a_block_ends_with_it() -> None:
    with beside(("sleep", "600")) as running:
        assert is_alive(running.pid)
    assert not is_alive(running.pid)


def test_a_started_command_logs_to_its_file_and_ends_when_told(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("earlier\n")
    daemon = start(("/bin/sh", "-c", "echo up; echo trouble >&2; exec sleep 600"), log=log)
    until = time.monotonic() + 5
    while "trouble" not in log.read_text() and time.monotonic() < until:
        time.sleep(0.01)
    assert log.read_text() == "earlier\nup\ntrouble\n"
    assert os.getpgid(daemon.pid) == daemon.pid
    end(daemon)
    assert daemon.returncode == -signal.SIGTERM


def test_a_started_command_that_ignores_being_asked_is_killed() -> None:
    daemon = start(("/bin/sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"))
    time.sleep(0.2)
    end(daemon, grace_s=0.2)
    assert daemon.returncode == -signal.SIGKILL
    end(daemon)  # and ending it again is no error


def test_a_program_is_found_in_the_administrators_folders_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert find("nologin") == "/usr/sbin/nologin"
    assert find("no-such-program") is None


def test_a_needed_program_that_is_missing_names_its_package() -> None:
    with pytest.raises(MissingTool, match="program is not installed\n  apt-get install the-package"):
        need("no-such-program", package="the-package")
