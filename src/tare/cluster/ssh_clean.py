"""Have the hosts of ssh runs that were killed remove what is left on them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tare.cluster.connections import MOST_AT_ONCE
from tare.cluster.ssh_connections import SshConnections
from tare.errors import TareError, UsageError
from tare.host.paths import made_run_folder
from tare.node_service import clean, site_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a host has removed of a run that was killed, or why that could not be verified."""

    run: str
    host: str
    removed: tuple[str, ...] = ()
    unverified: str = ""

    def __str__(self) -> str:
        return (
            f"not verified: {self.host}, a host of run {self.run}, which was killed: {self.unverified}; "
            f"if the host is gone for good, `tare clean --forget {self.host}`"
        )


def killed_runs() -> tuple[Mapping[str, Any], ...]:
    """Return the notes of ssh runs whose head was killed."""
    alive = clean.living_labs()
    return tuple(note for lab, note in clean.notes() if lab not in alive and _hosts(note))


def ask_hosts(notes: tuple[Mapping[str, Any], ...], forget: Collection[str] = ()) -> tuple[Answer, ...]:
    """Have the hosts of killed runs, but those to `forget`, remove what is left there, at the same time.

    Raises `UsageError` for a host to forget that no killed run had.
    """
    hosts = [(str(note["lab"]), host, str(note.get(site_folder.CONFIG, ""))) for note in notes for host in _hosts(note)]
    if unknown := [name for name in forget if all(name != host for _, host, _ in hosts)]:
        raise UsageError(
            f"{unknown[0]} is not a host of a run that was killed",
            remedy="`tare clean` names the hosts that could not be verified",
        )
    asked = [each for each in hosts if each[1] not in forget]
    with ThreadPoolExecutor(max_workers=MOST_AT_ONCE) as pool:
        return tuple(pool.map(lambda each: _ask(*each), asked))


def keep_unverified(notes: tuple[Mapping[str, Any], ...], answers: tuple[Answer, ...]) -> None:
    """Keep the names of the hosts that were not verified, for the next `tare clean`; call it after the clean-up."""
    for note in notes:
        hosts = [each.host for each in answers if each.unverified and each.run == note["lab"]]
        if hosts:
            folder = made_run_folder() / f"{note['lab']}{SUFFIX}"
            folder.mkdir(mode=0o700, exist_ok=True)
            kept = {"lab": note["lab"], site_folder.HOSTS: hosts, site_folder.CONFIG: note.get(site_folder.CONFIG, "")}
            (folder / "owner.json").write_text(json.dumps(kept))


SUFFIX: Final = "-hosts"


def _ask(run: str, host: str, config: str) -> Answer:
    try:
        connections = SshConnections((host,), config if Path(config).exists() else "")
        try:
            return Answer(run=run, host=host, removed=tuple(connections.conversations[0].ask("clean", run)))
        finally:
            connections.close()
    except TareError as error:
        return Answer(run=run, host=host, unverified=error.message)


def _hosts(note: Mapping[str, Any]) -> list[str]:
    """Return the hosts of a note; a damaged one names none, and none looks like an option of ssh."""
    named = note.get(site_folder.HOSTS)
    listed = named if isinstance(named, list) else []
    return [host for host in listed if isinstance(host, str) and host[:1] not in ("", "-")]
