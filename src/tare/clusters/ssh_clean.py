"""Remove what ssh runs that were killed have left on their hosts, and those on a Kubernetes in their namespaces."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tare.agent import clean, site_folder
from tare.agent.remote.timing import READ_S
from tare.clusters import kubernetes_clean
from tare.clusters.connections import MOST_AT_ONCE
from tare.clusters.ssh_connections import SshConnections
from tare.errors import TareError, UsageError
from tare.system.node.owners import NOTE
from tare.system.paths import made_run_folder

HOST: Final = "a host"
NAMESPACE: Final = "a namespace"


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedHost:
    """What was removed of a run that was killed on one of its hosts, or why that could not be verified.

    `kind` is `HOST`, or `NAMESPACE` of a Kubernetes.
    """

    run: str
    host: str
    removed: tuple[str, ...] = ()
    unverified: str = ""
    kind: str = HOST

    @property
    def place(self) -> str:
        """Return the end of a sentence that says where something was removed."""
        return f" on {self.host}" if self.kind == HOST else ""

    def __str__(self) -> str:
        gone = "the host" if self.kind == HOST else "the cluster"
        return (
            f"not verified: {self.host}, {self.kind} of run {self.run}, which was killed: {self.unverified}; "
            f"if {gone} is gone for good, `tare clean --forget {self.host}`"
        )


def killed_runs() -> tuple[Mapping[str, Any], ...]:
    """Return the notes of runs on hosts or a Kubernetes whose head was killed."""
    alive = clean.living_labs()
    notes = ((lab, note) for lab, note in clean.notes() if _hosts(note) or kubernetes_clean.namespace_of(note))
    return tuple(note for lab, note in notes if lab not in alive)


def ask_hosts(notes: tuple[Mapping[str, Any], ...], forget: Collection[str] = ()) -> tuple[CleanedHost, ...]:
    """Have the hosts of killed runs, but those to `forget`, remove what is left there, at the same time.

    Namespaces of a Kubernetes are removed from here. Raises `UsageError` for a host to forget that no killed run had.
    """
    spaces = [(name, note) for note in notes if (name := kubernetes_clean.namespace_of(note))]
    hosts = [(str(note["lab"]), host, str(note.get(site_folder.CONFIG, ""))) for note in notes for host in _hosts(note)]
    named = {host for _, host, _ in hosts} | {name for name, _ in spaces}
    if unknown := [name for name in forget if name not in named]:
        raise UsageError(
            f"{unknown[0]} is not a host of a run that was killed",
            remedy="`tare clean` names the hosts that could not be verified",
        )
    asked = [each for each in hosts if each[1] not in forget]
    with ThreadPoolExecutor(max_workers=MOST_AT_ONCE) as pool:
        answers = pool.map(lambda each: _ask(*each), asked)
        removed = pool.map(lambda each: _remove(*each), (each for each in spaces if each[0] not in forget))
        return (*answers, *removed)


def keep_unverified(notes: tuple[Mapping[str, Any], ...], answers: tuple[CleanedHost, ...]) -> None:
    """Keep the names of the hosts that were not verified, for the next `tare clean`; call it after the clean-up."""
    for note in notes:
        left = [each for each in answers if each.unverified and each.run == note["lab"]]
        hosts = [each.host for each in left if each.kind == HOST]
        more = kubernetes_clean.kept(note) if len(hosts) < len(left) else {}
        if left:
            folder = made_run_folder() / f"{note['lab']}{SUFFIX}"
            folder.mkdir(mode=0o700, exist_ok=True)
            named = {site_folder.HOSTS: hosts, site_folder.CONFIG: note.get(site_folder.CONFIG, "")}
            kept = {"lab": note["lab"], **named, **more}
            (folder / NOTE).write_text(json.dumps(kept))


SUFFIX: Final = "-hosts"


def _ask(run: str, host: str, config: str) -> CleanedHost:
    try:
        connections = SshConnections((host,), config if Path(config).exists() else "")
        try:
            removed = connections.conversations[0].ask("clean", run, limit_s=READ_S)
            return CleanedHost(run=run, host=host, removed=removed)
        finally:
            connections.close()
    except TareError as error:
        return CleanedHost(run=run, host=host, unverified=error.message)


def _remove(name: str, note: Mapping[str, Any]) -> CleanedHost:
    run = str(note["lab"])
    try:
        return CleanedHost(run=run, host=name, removed=kubernetes_clean.remove(note), kind=NAMESPACE)
    except TareError as error:
        return CleanedHost(run=run, host=name, unverified=error.message, kind=NAMESPACE)


def _hosts(note: Mapping[str, Any]) -> list[str]:
    """Return the hosts of a note; a damaged one names none, and none looks like an option of ssh."""
    named = note.get(site_folder.HOSTS)
    listed = named if isinstance(named, list) else []
    return [host for host in listed if isinstance(host, str) and host[:1] not in ("", "-")]
