"""Keep the services of remote machines open: one connection to each, until the study ends."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from tare.agent.remote.archive import packed
from tare.agent.remote.conversation import Conversation
from tare.agent.remote.machine import Machine
from tare.agent.remote.timing import ANNOUNCED_S, RENEWED_S
from tare.clusters.base import Allocated
from tare.errors import InfrastructureError, TareError
from tare.mpi import MPIS
from tare.system.node.owners import write_note
from tare.system.paths import cache_folder, made_run_folder

MOST_AT_ONCE: Final = 16
FEW: Final = 4
"""How many machines are named in a sentence."""
T = TypeVar("T")


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
        conversation = Conversation(self.hosts[number], self.opening(number), partial(self.explain, number))
        self.conversations[number] = conversation
        if self._ended.is_set():  # an interrupt came first
            conversation.abort()
        try:
            return conversation, conversation.begin(packed(netlink=self._netlink))
        except BaseException:
            conversation.abort()  # nothing was made there that it could undo
            raise

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

    def on_each(
        self, call: Callable[[int], T], numbers: Sequence[int], *, announced_s: float | None = None
    ) -> list[Future[T]]:
        """Make a call for several machines at the same time; return the results or errors, in order.

        An interrupt ends all connections, so that nobody waits for a machine that hangs. After `announced_s` the
        machines are named that have not answered.
        """
        pool = ThreadPoolExecutor(max_workers=MOST_AT_ONCE)
        futures = [pool.submit(call, number) for number in numbers]
        try:
            if waiting := wait(futures, announced_s).not_done:
                silent = [self.hosts[at] for at, each in zip(numbers, futures, strict=True) if each in waiting]
                more = ", ..." * (len(silent) > FEW)
                sys.stderr.write(f"tare: waiting for {', '.join(silent[:FEW])}{more} to answer; Ctrl-C ends it\n")
                wait(futures)
        except BaseException:
            self._ended.set()
            for conversation in tuple(self.conversations.values()):
                conversation.abort()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
        return futures

    def _begin(self) -> tuple[Machine, ...]:
        """Begin all services at the same time; raise one error that names every machine that failed."""
        futures = self.on_each(self.connect, range(len(self.hosts)), announced_s=ANNOUNCED_S)
        failed = [error for future in futures if isinstance(error := future.exception(), TareError)]
        if failed:
            raise InfrastructureError("; ".join(error.message for error in failed), remedy=failed[0].remedy)
        return tuple(future.result()[1] for future in futures)

    def _renew(self) -> None:
        while not self._ended.wait(RENEWED_S):
            for conversation in tuple(self.conversations.values()):
                conversation.renew()
