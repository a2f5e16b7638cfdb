"""Keep connections to hosts open: one for each host, over which its service and all launches of a study go."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from tare.cluster.ssh_errors import explained
from tare.errors import InfrastructureError, MissingTool, TareError
from tare.host.packages import install
from tare.host.paths import cache_folder, made_run_folder
from tare.host.process import find
from tare.mpi import MPIS
from tare.node.owners import owner
from tare.remote.archive import packed
from tare.remote.conversation import Conversation
from tare.remote.machine import Machine
from tare.remote.timing import CONNECT_S, PROBE_S, PROBES, RENEWED_S

MOST_AT_ONCE: Final = 16
OPTIONS: Final = {
    "BatchMode": "yes",
    "StrictHostKeyChecking": "yes",
    "ConnectTimeout": str(CONNECT_S),
    "ServerAliveInterval": str(PROBE_S),
    "ServerAliveCountMax": str(PROBES),
    "ClearAllForwardings": "yes",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "PermitLocalCommand": "no",
    "RequestTTY": "no",
    "LogLevel": "ERROR",
}
"""Keep ssh from prompting, and make it reject unknown host keys."""


def ssh_argv(program: str, config: str, socket: Path, host: str, *, first: bool) -> tuple[str, ...]:
    """Return the argv prefix that runs one string on a host; the `first` opens the connection that others share."""
    options = {**OPTIONS, "ControlPath": str(socket), "ControlMaster": "yes" if first else "no", "ControlPersist": "no"}
    words = (word for name, value in options.items() for word in ("-o", f"{name}={value}"))
    return (program, *(("-F", config) if config else ()), "-T", *words, "--", host)


class Connections:
    """The services of hosts, in order. They are begun at once, and their leases renewed, until `close`.

    A command that ends without a run, such as `tare plan`, has opened them too: they are closed when Python exits.
    With `netlink` they can wire networks.
    """

    def __init__(self, hosts: Sequence[str], config: str = "", *, netlink: bool = False) -> None:
        program = find("ssh")
        if program is None:
            raise MissingTool("ssh is not installed", remedy=install("openssh-client"))
        self.hosts = tuple(hosts)
        self._program, self._config, self._netlink = program, config, netlink
        self._folder = Path(tempfile.mkdtemp(prefix=f"ssh{os.getpid()}-", dir=made_run_folder()))
        atexit.register(self.close)
        (self._folder / "owner.json").write_text(json.dumps({"lab": f"ssh{os.getpid()}", **owner()}))
        self._ended = threading.Event()
        self.conversations: dict[int, Conversation] = {}
        self._unfit: dict[tuple[int, str], str | None] = {}
        try:
            self.machines = self._begin()
        except BaseException:
            self.close()
            raise
        threading.Thread(target=self._renew, name="leases", daemon=True).start()

    def connect(self, number: int) -> tuple[Conversation, Machine]:
        """Open the connection to a host and begin its service."""
        host, socket = self.hosts[number], self._folder / str(number)
        socket.unlink(missing_ok=True)
        argv = ssh_argv(self._program, self._config, socket, host, first=True)
        log = self._folder / f"{number}.log"
        log.unlink(missing_ok=True)
        conversation = Conversation(host, argv, log, partial(explained, host))
        self.conversations[number] = conversation
        return conversation, conversation.begin(packed(netlink=self._netlink))

    def reach(self, number: int) -> tuple[str, ...]:
        """Return the argv prefix that runs one string on a host, over its open connection."""
        return ssh_argv(self._program, self._config, self._folder / str(number), self.hosts[number], first=False)

    def unfit(self, number: int, mpi: str) -> str | None:
        """Return why a host cannot take part in jobs of an MPI that are started from here, or None."""
        if (number, mpi) not in self._unfit:
            version, folders = MPIS[mpi].version(), ("/tmp", str(cache_folder()))
            self._unfit[number, mpi] = self.conversations[number].ask("unfit", mpi, version, folders)
        return self._unfit[number, mpi]

    def close(self) -> None:
        """End all services and connections."""
        atexit.unregister(self.close)
        self._ended.set()
        for conversation in self.conversations.values():
            conversation.leave()
        for conversation in self.conversations.values():
            conversation.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _begin(self) -> tuple[Machine, ...]:
        """Begin all services at the same time; raise one error that names every host that failed."""
        with ThreadPoolExecutor(max_workers=MOST_AT_ONCE) as pool:
            futures = [pool.submit(self.connect, number) for number in range(len(self.hosts))]
        failed = [error for future in futures if isinstance(error := future.exception(), TareError)]
        if failed:
            raise InfrastructureError("; ".join(error.message for error in failed), remedy=failed[0].remedy)
        return tuple(future.result()[1] for future in futures)

    def _renew(self) -> None:
        while not self._ended.wait(RENEWED_S):
            for conversation in tuple(self.conversations.values()):
                conversation.renew()
