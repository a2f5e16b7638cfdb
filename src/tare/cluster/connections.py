"""Keep the services of remote machines open: one connection to each, until the study ends."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from tare.cluster.base import Allocated
from tare.errors import InfrastructureError, TareError
from tare.host.paths import cache_folder, made_run_folder
from tare.mpi import MPIS
from tare.node.owners import write_note
from tare.remote.archive import packed
from tare.remote.conversation import Conversation
from tare.remote.machine import Machine
from tare.remote.timing import RENEWED_S

MOST_AT_ONCE: Final = 16


class Connections(ABC):
    """The services of machines, in order. They are begun at once, and their leases renewed, until `close`.

    A command that ends without a run, such as `tare plan`, has opened them too: they are closed when Python exits.
    With `netlink` they can wire networks. A member says how a connection is opened, and how else a machine is reached.
    """

    machines: tuple[Machine, ...]

    def __init__(self, hosts: Sequence[str], *, kind: str, netlink: bool = False) -> None:
        self.hosts = tuple(hosts)
        self.conversations: dict[int, Conversation] = {}
        self._netlink = netlink
        self._folder = Path(tempfile.mkdtemp(prefix=f"{kind}{os.getpid()}-", dir=made_run_folder()))
        atexit.register(self.close)
        write_note(self._folder, f"{kind}{os.getpid()}")
        self._ended = threading.Event()
        self._unfit: dict[tuple[int, str], str | None] = {}
        try:
            self.machines = self._begin()
        except BaseException:
            self.close()
            raise
        threading.Thread(target=self._renew, name="leases", daemon=True).start()

    @property
    def allocated(self) -> Allocated | None:
        """Return the allocation of a batch system that the machines are from, or None."""
        return None

    @abstractmethod
    def opening(self, number: int) -> tuple[str, ...]:
        """Return the argv prefix that opens the connection to a machine and runs one string there."""

    @abstractmethod
    def reach(self, number: int) -> tuple[str, ...]:
        """Return the argv prefix that runs one string on a machine while its connection is open."""

    @abstractmethod
    def explain(self, number: int, words: str) -> str:
        """Return why a connection failed, from what its program wrote to stderr."""

    def connect(self, number: int) -> tuple[Conversation, Machine]:
        """Open the connection to a machine and begin its service."""
        log = self._folder / f"{number}.log"
        log.unlink(missing_ok=True)
        conversation = Conversation(self.hosts[number], self.opening(number), log, partial(self.explain, number))
        self.conversations[number] = conversation
        return conversation, conversation.begin(packed(netlink=self._netlink))

    def unfit(self, number: int, mpi: str) -> str | None:
        """Return why a machine cannot take part in jobs of an MPI that are started from here, or None."""
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
        """Begin all services at the same time; raise one error that names every machine that failed."""
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
