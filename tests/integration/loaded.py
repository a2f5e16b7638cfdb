"""Start commands of tare from a process that has loaded it: Python takes a second or two to do so, for each command.

The process below loads tare once and forks for each command; no command has run in it. The child has its own
session, folder, environment and streams, like a command started by a shell. Loading itself is tested where tests start
a new Python: as another user, in other namespaces, from a wheel (`before` and `python` of `live.start`).
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

MOST = 1 << 20
"""The bytes of a request: the environment is the largest part."""
ALSO = (
    "jinja2",
    "psutil",
    "pyroute2",
    "rich.progress",
    "rich.table",
    "scipy.optimize",
    "scipy.special",
    "scipy.stats",
    "typer._adapters",
    "unittest.mock",
)
"""What tare loads where it is used."""
NOT = ("tare.workloads.declared", "tare.images.sources", "tare.workloads.drivers")
"""What runs in programs of its own."""


# --- in tests ---------------------------------------------------------------------------------------------------


class Command:
    """A command that was started, to be used as a subprocess.Popen is."""

    def __init__(self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str]) -> None:
        self.args = ("tare", *arguments)
        self.returncode: int | None = None
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # number and end are told apart
        out, err = os.pipe(), os.pipe()
        request = {"arguments": list(arguments), "cwd": str(cwd), "env": dict(env)}
        with theirs:
            socket.send_fds(_channel(), [json.dumps(request).encode()], [out[1], err[1], theirs.fileno()])
        for descriptor in (out[1], err[1]):
            os.close(descriptor)
        self.stdout: IO[str] = os.fdopen(out[0], errors="replace")
        self.stderr: IO[str] = os.fdopen(err[0], errors="replace")
        self._told = ours
        told = ours.recv(64)
        assert told, "the process that has loaded tare is gone: what it said is above"
        self.pid = int(told)

    def poll(self) -> int | None:
        """Return how the command ended, or None while it runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the command; return its status, or the negative number of the signal that ended it."""
        if self.returncode is None:
            if not select.select([self._told], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            self.returncode = int(self._told.recv(64))
            self._told.close()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Read what the command writes until nobody has its outputs open, and wait for it; no time bounds that."""
        with ThreadPoolExecutor(2) as pool, self.stdout, self.stderr:
            stdout, stderr = pool.map(lambda stream: stream.read(), (self.stdout, self.stderr))
        self.wait()
        return stdout, stderr


@cache
def _channel() -> socket.socket:
    """Return the way to the process that has loaded tare; it ends when this process does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        loaded = subprocess.Popen(
            [sys.executable, "-P", __file__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            process_group=0,  # of this session: what leaves it is looked for by tests of what a launch leaves
        )

    def end() -> None:
        ours.close()
        loaded.wait(10)

    atexit.register(end)
    return ours


# --- in the process that has loaded tare --------------------------------------------------------------------------


def load() -> None:
    """Load all of tare, and the report's template, which is compiled as it is loaded."""
    import tare

    for module in pkgutil.walk_packages(tare.__path__, "tare."):
        if not module.name.startswith(NOT) and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in ALSO:
        importlib.import_module(name)
    tare.report.html.prepare()
    gc.collect()
    gc.freeze()


def serve(channel: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Fork for each request a process that waits for the command, and that one the command, which returns from here."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait
    while True:
        data, descriptors, _, _ = socket.recv_fds(channel, MOST, 3)
        if not data:
            return None
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            pid = os.fork()
            if pid == 0:
                return json.loads(data), descriptors
            out, err, told = descriptors
            os.close(out)
            os.close(err)
            _tell(told, pid)
            _tell(told, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
            os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)


def _tell(descriptor: int, number: int) -> None:
    with suppress(BrokenPipeError):  # nobody waits for it any more
        os.write(descriptor, str(number).encode())


def become(request: dict[str, Any], descriptors: Sequence[int]) -> None:
    """Become the command: in a session of its own, with its folder, environment and streams."""
    os.setsid()
    out, err, _ = descriptors
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    sys.path[:] = ["", *sys.path]  # as of python -m
    sys.argv[:] = ["tare", *request["arguments"]]


def main() -> None:
    """Load tare and wait for commands."""
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        load()
        given = serve(channel)
    if given is not None:
        from tare.cli import app

        become(*given)
        app.main()


if __name__ == "__main__":
    main()
