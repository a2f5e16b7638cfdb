"""The single place that starts processes.

Commands are tuples of tokens, never shell strings. Every process gets a process group of its own, so that ending it
also ends its children. Processes that leave the group, such as a container's, are ended through their cgroup by the
code that created the cgroup.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final, TypeVar
from weakref import WeakSet

from tare.errors import InfrastructureError, MissingTool
from tare.system import caller_variables
from tare.system.capture import FLOODED, Capture, Reached, Result, raise_unless_done
from tare.system.packages import install
from tare.system.signals import uninterrupted
from tare.system.waiting import wait_until

__all__ = ["FLOODED", "Popen", "Result"]

Popen = subprocess.Popen
_started: WeakSet[subprocess.Popen[Any]] = WeakSet()

_attended: WeakSet[subprocess.Popen[Any]] = WeakSet()
_interrupted = threading.Event()
_undoing = threading.local()

GRACE_S: Final = 2.0
INTERRUPT_GRACE_S: Final = 20.0
"""How long commands of other threads have to end: mmdebstrap unmounts what it has mounted."""
STOP_SLICE_S: Final = 0.1
"""How often to poll whether to stop a process that has closed its outputs."""


P = TypeVar("P", bound="subprocess.Popen[Any]")


def _noted(process: P) -> P:
    _started.add(process)
    return process


def awaited() -> set[int]:
    """Return the processes that this module has started and whose status it has still to collect."""
    return {process.pid for process in tuple(_started) if process.returncode is None}


def find(program: str) -> str | None:
    """Return the path of a program on PATH, or None. The administrator's folders are always searched."""
    path = os.environ.get("PATH", os.defpath)
    return shutil.which(program, path=f"{path}:/usr/local/sbin:/usr/sbin:/sbin")


def need(program: str, *, package: str) -> str:
    """Return the path of a program, or raise `MissingTool` naming the package that contains it."""
    path = find(program)
    if path is None:
        raise MissingTool(f"{program} is not installed", remedy=install(package))
    return path


def run(
    argv: Sequence[str],
    *,
    timeout_s: float | None = 60.0,
    env: Mapping[str, str] | None = None,
    stdin: str | Path | None = None,
    cwd: Path | None = None,
    check: bool = True,
    what: str = "",
    started: Callable[[int], None] | None = None,
    at_limit: Callable[[], str] | None = None,
    stop: socket.socket | None = None,
) -> Result:
    """Run a command to its end and return its output and status.

    `env` replaces the environment, by default `outside.environment`. `stdin` is a text for its standard input, or the
    file that it is. `started` is called with the process ID as soon as the process runs, `at_limit` at the time limit,
    before the process is ended; the limit is also reached when `stop` becomes readable. Raises `MissingTool` if the
    program is not installed, and with `check`
    `CommandFailed` on a non-zero status and `CommandTimeout` at the time limit; `what` names the action in the message.
    A command that writes more than `STDOUT_BYTES` to stdout is ended. Only the last `STDERR_BYTES` of stderr are kept.
    After `interrupt_threads` it raises `KeyboardInterrupt`.
    """
    _raise_if_interrupted()
    begin = time.monotonic()
    seen = ""
    with _running(argv, env=env, cwd=cwd, stdin=stdin, stop=stop) as (process, capture):
        if started is not None:
            started(process.pid)
        reached = capture.read(timeout_s)
        if reached is Reached.END:
            reached = _waited(process, None if timeout_s is None else timeout_s - (time.monotonic() - begin), stop)
        if reached is Reached.TIME_LIMIT and at_limit is not None:
            seen = at_limit()
        if reached is not Reached.END:
            _end_and_drain(process, capture)
    _raise_if_interrupted()
    result = Result(
        argv=tuple(argv),
        status=process.returncode,
        stdout=capture.stdout,
        stderr=capture.stderr,
        elapsed_s=time.monotonic() - begin,
        timed_out=reached is Reached.TIME_LIMIT,
        began_s=begin,
        at_limit=seen,
        flooded=reached is Reached.BUDGET,
    )
    if check:
        raise_unless_done(result, timeout_s=timeout_s, what=what)
    return result


def interrupt_threads(grace_s: float = INTERRUPT_GRACE_S) -> None:
    """Interrupt `run` in all other threads, now and later, for a program that ends.

    Python interrupts the main thread only, and commands are in sessions of their own, so that Ctrl-C does not reach
    them: threads would wait for their end.
    """
    _interrupted.set()
    running = [process for process in tuple(_attended) if process.returncode is None]
    for process in running:
        _signal_group(process.pid, signal.SIGTERM)
    wait_until(lambda: all(each.returncode is not None for each in running), grace_s, pause_s=STOP_SLICE_S)
    for process in running:
        if process.returncode is None:
            _signal_group(process.pid, signal.SIGKILL)


def undo(argv: Sequence[str], *, timeout_s: float, what: str) -> None:
    """Run a command that removes something, as `run` does, but also after `interrupt_threads`."""
    _undoing.is_set = True
    try:
        run(argv, timeout_s=timeout_s, what=what)
    finally:
        _undoing.is_set = False


def _raise_if_interrupted() -> None:
    is_main = threading.current_thread() is threading.main_thread()
    if _interrupted.is_set() and not is_main and not getattr(_undoing, "is_set", False):
        raise KeyboardInterrupt


FORWARDED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def attend(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    started: Callable[[int], None] | None = None,
    passed_on: Callable[[int], bool] = lambda _: False,
) -> int:
    """Run a command in the foreground and return its status, 128 + n where signal n ended it.

    The command has tare's standard streams. Signals that arrive while it runs are sent to the command instead of being
    handled here, unless `passed_on` delivers the signal itself and returns True. `started` is as in `run`.
    """
    process = _noted(subprocess.Popen(list(argv), env=None if env is None else dict(env), start_new_session=True))

    def forward(number: int, _frame: object) -> None:
        if not passed_on(number):
            process.send_signal(number)

    before = {number: signal.signal(number, forward) for number in FORWARDED}
    try:
        if started is not None:
            started(process.pid)
        status = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _signal_group(process.pid, signal.SIGKILL)
    return status if status >= 0 else 128 - status


def start(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    log: Path | None = None,
    stdout: int | None = None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[str]:
    """Start a command that outlives this call, in a session of its own; its output goes to `log` or is discarded.

    `env` replaces the environment, by default `outside.of_daemon`.
    """
    sink: int
    opened = -1
    if log is not None:
        opened = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        sink = opened
    else:
        sink = subprocess.DEVNULL
    try:
        return _noted(
            subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=sink if stdout is None else stdout,
                stderr=subprocess.STDOUT if log is not None else subprocess.DEVNULL,
                env=dict(caller_variables.of_daemon() if env is None else env),
                start_new_session=True,
                pass_fds=tuple(pass_fds),
                text=True,
            )
        )
    except OSError as error:
        raise _not_started(argv[0], None, error) from error
    finally:
        if opened >= 0:
            os.close(opened)


def converse(argv: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a command to exchange messages with over its standard input and output; its errors are to be read as well.

    It is in a session of its own, so that Ctrl-C does not reach it.
    """
    pipe = subprocess.PIPE
    try:
        return _noted(subprocess.Popen(
            list(argv), stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True, bufsize=0,
            env=caller_variables.environment(),
        ))  # fmt: skip
    except OSError as error:
        raise _not_started(argv[0], None, error) from error


def end_of(log: Path) -> str:
    """Return the end of what a command of tare's wrote to a log."""
    text = log.read_text(errors="replace") if log.exists() else ""
    return text.strip()[-1500:].removeprefix("tare: ") or "it printed nothing"


@contextmanager
def beside(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    log: Path | None = None,
    stdout: int | None = None,
    grace_s: float = GRACE_S,
) -> Iterator[subprocess.Popen[str]]:
    """Run a command in the background while the block runs; an interrupt ends it, even while it is being started.

    The options are those of `start` and `end`.
    """
    started: list[subprocess.Popen[str]] = []
    try:
        with uninterrupted():
            started.append(start(argv, env=env, log=log, stdout=stdout))
        yield started[0]
    finally:
        for process in started:
            end(process, grace_s=grace_s)


def replace(argv: Sequence[str], env: Mapping[str, str] | None = None) -> None:
    """Replace this process by the command; do not return."""
    path = find(argv[0]) or argv[0]
    try:
        os.execve(path, list(argv), dict(os.environ if env is None else env))
    except OSError as error:
        raise _not_started(argv[0], None, error) from error


def end(process: subprocess.Popen[Any], *, grace_s: float = GRACE_S) -> None:
    """End a process of `start` and its group by SIGTERM, then SIGKILL; one that still does not end is abandoned."""
    _signal_group(process.pid, signal.SIGTERM)
    if _waited(process, grace_s) is not Reached.END:
        _signal_group(process.pid, signal.SIGKILL)
        _left(process)


@contextmanager
def _running(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None,
    cwd: Path | None,
    stdin: str | Path | None,
    stop: socket.socket | None,
) -> Iterator[tuple[subprocess.Popen[bytes], Capture]]:
    """Start a command and run the block; an error or an interrupt ends it, even while it is being started."""
    started: list[tuple[subprocess.Popen[bytes], Capture]] = []
    try:
        with uninterrupted():
            started.append(_popen(argv, env=env, cwd=cwd, stdin=stdin, stop=stop))
            _attended.add(started[0][0])
        _raise_if_interrupted()  # what was not there yet when the others were signalled
        yield started[0]
    except BaseException:
        for process, capture in started:
            _end_and_drain(process, capture)
        raise
    finally:
        for _, capture in started:
            capture.close()


def _popen(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None,
    cwd: Path | None,
    stdin: str | Path | None,
    stop: socket.socket | None,
) -> tuple[subprocess.Popen[bytes], Capture]:
    try:
        given = stdin.open("rb") if isinstance(stdin, Path) else nullcontext(_pipe_for(stdin))
    except OSError as error:
        raise InfrastructureError(f"{stdin} cannot be read for {argv[0]}: {error.strerror}") from error
    try:
        with given as source:
            process = _noted(subprocess.Popen(
                list(argv),
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(caller_variables.environment() if env is None else env),
                cwd=cwd,
                start_new_session=True,
            ))  # fmt: skip
    except OSError as error:
        raise _not_started(argv[0], cwd, error) from error
    if process.stdout is None or process.stderr is None:
        raise AssertionError("both were asked for")
    written = stdin.encode() if isinstance(stdin, str) else b""
    return process, Capture(process.stdin, process.stdout, process.stderr, written=written, stop=stop)


def _pipe_for(text: str | None) -> int:
    return subprocess.DEVNULL if text is None else subprocess.PIPE


def _not_started(program: str, cwd: Path | None, error: OSError) -> InfrastructureError:
    if cwd is not None and not cwd.is_dir():
        return InfrastructureError(f"{program} cannot be started in {cwd}: the folder does not exist")
    # If a folder of PATH is not readable, a program that exists nowhere fails with "permission denied".
    if isinstance(error, FileNotFoundError) or ("/" not in program and find(program) is None):
        return MissingTool(f"{program} is not installed")
    return InfrastructureError(f"{program} cannot be started: {error.strerror}")


def _end_and_drain(process: subprocess.Popen[bytes], capture: Capture) -> None:
    """End a process and its group, and read their remaining output.

    A process that left the group may keep the pipes open (it is ended through its cgroup), and one that is blocked in
    the kernel may not end at all. This function waits for neither.
    """
    for number in (signal.SIGTERM, signal.SIGKILL):
        _signal_group(process.pid, number)
        if capture.read(GRACE_S, discard=True) is Reached.END and _waited(process, GRACE_S) is Reached.END:
            return
    _left(process)


def _left(process: subprocess.Popen[Any]) -> None:
    """Wait a little longer for a process that was killed; if it still runs, record it as killed and abandon it."""
    if _waited(process, GRACE_S) is not Reached.END:
        process.returncode = -signal.SIGKILL


def _waited(process: subprocess.Popen[Any], limit_s: float | None, stop: socket.socket | None = None) -> Reached:
    """Wait for the end of a process whose outputs are closed, or until `stop` becomes readable."""
    until = None if limit_s is None else time.monotonic() + limit_s
    while True:
        left_s = None if until is None else max(0.0, until - time.monotonic())
        try:
            process.wait(left_s if stop is None else STOP_SLICE_S if left_s is None else min(left_s, STOP_SLICE_S))
        except subprocess.TimeoutExpired:
            if stop is None or (left_s is not None and left_s <= STOP_SLICE_S) or select.select([stop], [], [], 0)[0]:
                return Reached.TIME_LIMIT
        else:
            return Reached.END


def _signal_group(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        pass
