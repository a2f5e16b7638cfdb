"""Give hosts the kernels and images of a study at the paths that they have here, where they do not share them."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tare.agent.remote.conversation import Conversation
from tare.errors import CommandFailed, InfrastructureError, RefusedError
from tare.system.paths import cache_folder
from tare.system.process import run

MOST_AT_ONCE: Final = 4
LIMIT_S: Final = 1800.0
PACK: Final = (
    '{ tar -C "$1" --anchored --exclude="./$2/dev/*" -cf - -- "./$2" || touch "$3"; } | '
    '{ flag=$3; shift 3; "$@" && [ ! -e "$flag" ]; }'
)
"""Sends a file or folder: parent, name, a file that is made if it cannot be read, then the argv that receives it.

An image's devices stay behind: an ordinary user could not make them, and a container gets its node's."""
UNPACK: Final = (
    "umask 077; mkdir -p -- {parent} && cd -- {parent} && new=$(mktemp -d ./.unfinished-XXXXXX) && "
    '{{ tar -xpf - -C "$new" && mv -T -- "$new"/{name} ./{name}; status=$?; rm -rf "$new"; exit $status; }}'
)
"""Receives it into a new folder first, so that what is there is complete."""


def provide(
    machines: Sequence[Conversation], reach: Sequence[tuple[str, ...]], paths: Sequence[Path], *, folder: Path
) -> None:
    """Copy those of the paths, all in the cache, that hosts lack; `folder` is for notes of this run.

    `reach` are the argv prefixes that run one string on each host. Raises `InfrastructureError` where a host cannot
    take them.
    """

    def copy(number: int) -> None:
        missing = lacks(machines[number], tuple(map(str, paths)))
        for path in paths:
            if str(path) in missing:
                send(path, reach[number], folder / f"unread-{number}", machines[number].name, theirs)

    ours, theirs = socket.socketpair()
    with ours, theirs, ThreadPoolExecutor(max_workers=MOST_AT_ONCE) as pool:
        try:
            list(pool.map(copy, range(len(machines))))
        except BaseException:  # an interrupt, or one host that cannot take them, ends all copying
            ours.send(b"s")
            raise


def lacks(machine: Conversation, paths: Sequence[str]) -> tuple[str, ...]:
    """Return those of the paths that a host says it lacks, and nothing else that it names."""
    named = machine.ask("missing", tuple(paths))
    return tuple(path for path in paths if path in named)


def send(path: Path, reach: tuple[str, ...], flag: Path, host: str, stop: socket.socket | None = None) -> None:
    """Copy a file or folder of the cache to the same path on a host; it ends when `stop` becomes readable."""
    if ".." in path.parts or not path.parent.resolve().is_relative_to(cache_folder().resolve()):
        raise RefusedError(f"{path} does not exist on {host}", remedy="put it at the same path there")
    script = UNPACK.format(parent=shlex.quote(str(path.parent)), name=shlex.quote(path.name))
    receive = (*reach, f"exec /bin/sh -c {shlex.quote(script)}")
    try:
        run(
            ("/bin/sh", "-c", PACK, "sh", str(path.parent), path.name, str(flag), *receive),
            timeout_s=LIMIT_S,
            what=f"copying {path} to {host}",
            stop=stop,
        )
    except CommandFailed as error:
        raise InfrastructureError(
            f"{path} cannot be copied to {host}: {(error.stderr_tail.splitlines() or ['no reason was given'])[0]}",
            remedy="make room or the folder writable there, or share the cache folder: set XDG_CACHE_HOME",
        ) from error


def check_seen(machines: Sequence[Conversation], paths: Sequence[str]) -> None:
    """Raise `RefusedError` naming the first host that does not have the user's files at their paths here."""
    for machine in machines:
        if lacking := lacks(machine, paths):
            raise RefusedError(
                f"{lacking[0]} does not exist on {machine.name}, or cannot be read there",
                remedy="put it at the same path on every host, or into a file system that they share",
            )
