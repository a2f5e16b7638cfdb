r"""Parse a user's additions to an environment: files of the host that containers see, variables, a working folder.

A bind is written as for Docker, Podman and Apptainer: `SOURCE:TARGET`, or `SOURCE:TARGET:ro`; a colon of a path itself
is `\:`. A runtime gets such a path unescaped, in an option that does not divide at colons. On a machine with SELinux
Docker and Podman need a label in a bind (`:z`, which lets all containers use a folder), or they may not read the files.
They change the labels of the files for that, so folders of the system keep theirs: containers may read these anyway.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
KERNELS_OWN: Final = ("/", "/dev", "/proc", "/sys")
FORM: Final = "write it as SOURCE:TARGET or SOURCE:TARGET:ro, with \\\\: for a colon of a path"
SEPARATOR: Final = re.compile(r"(?<!\\):")

SELINUX: Final = Path("/sys/fs/selinux")
SHARED: Final = "z"
SYSTEM: Final = frozenset({
    "bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "sys", "usr", "var",
})  # fmt: skip
"""Top folders whose labels are the system's: relabelled, services could no longer use them."""

_WHOLE: Final = frozenset({"/", "/home", "/root", "/opt", "/mnt", "/media", "/srv", "/tmp"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """A folder or file of the host that is visible inside at `target`; `read_only`, or with its own permissions."""

    source: str
    target: str
    read_only: bool


def bind_of(text: str, base: Path | None = None) -> Bind:
    """Parse a bind and make its source absolute; a relative source is below `base`, the current folder if None.

    Raises `ValueError` with a sentence on what is wrong.
    """
    source, target, mode, *more = (*(part.replace("\\:", ":") for part in SEPARATOR.split(text)), "", "", "")
    if not source or not target or mode not in ("", "ro", "rw") or any(more):
        raise ValueError(f"{text!r} is not a bind: {FORM}")
    if not target.startswith("/") or os.path.normpath(target) in KERNELS_OWN or ".." in Path(target).parts:
        raise ValueError(f"{text!r} cannot be bound at {target}: name an absolute path, not /, /dev, /proc or /sys")
    return Bind(source=absolute(source, base), target=os.path.normpath(target), read_only=mode == "ro")


def absolute(path: str, base: Path | None = None) -> str:
    """Return a user's path as an absolute one; a relative one is below `base`, the current folder if None.

    Links keep their names, unless `..` follows one: then what it leads to decides, as for the kernel.
    """
    whole = (base or Path.cwd()) / Path(path).expanduser()
    above = next((number for number in range(len(whole.parts), 0, -1) if whole.parts[number - 1] == ".."), 0)
    return os.path.normpath(
        Path(os.path.realpath(Path(*whole.parts[:above])), *whole.parts[above:]) if above else whole
    )


def writable(binds: Iterable[str], cwd: str = "") -> tuple[str, ...]:
    """Return the folders and files of the host that programs may write to: a working folder, and binds."""
    shown = (bind for bind in map(bind_of, binds) if not bind.read_only)
    return tuple(dict.fromkeys((*([cwd] if cwd else []), *(bind.source for bind in shown))))


def format_bind(bind: Bind) -> str:
    """Return a bind in its written form."""
    source, target = (path.replace(":", "\\:") for path in (bind.source, bind.target))
    return f"{source}:{target}{':ro' if bind.read_only else ''}"


def merged(binds: Iterable[Bind]) -> tuple[Bind, ...]:
    """Return binds without those whose target a later one has, too."""
    return tuple({bind.target: bind for bind in binds}.values())


def check_variable(text: str) -> str:
    """Return a variable `NAME=value`; raise `ValueError` if it is malformed, or one of tare's own."""
    name, sign, value = text.partition("=")
    if not sign or not VARIABLE.fullmatch(name):
        raise ValueError(f"{text!r} is not an assignment: write it as NAME=value")
    if name.startswith("TARE_"):
        raise ValueError(f"{name} is reserved for tare: choose another name")
    if "\0" in value or "\n" in value:
        raise ValueError(f"the value of {name} must be one line")
    return text


def check_workdir(text: str) -> str:
    """Return a working folder; raise `ValueError` if it is not absolute."""
    if text and not text.startswith("/"):
        raise ValueError(f"{text!r} cannot be the working folder: name an absolute path")
    return text


def probe(binds: Iterable[str]) -> str | None:
    """Return why one of the binds is not possible on this machine, or None."""
    sources = (bind_of(text).source for text in binds)
    lacking = next((source for source in sources if not os.path.exists(source)), None)
    return None if lacking is None else f"binds: {lacking} does not exist on this machine"


def has_selinux(folder: Path = SELINUX) -> bool:
    """Return whether the kernel enforces SELinux's rules, or only reports them: labels matter in both cases."""
    return (folder / "enforce").exists()


def labelled(bind: str, *, enabled: bool) -> str:
    """Return a bind, `SOURCE:TARGET` or `SOURCE:TARGET:MODE`, with the label that containers share if it needs one."""
    source, target, mode = (*bind.split(":", 2), "", "")[:3]
    if not enabled or not needs_label(source) or SHARED in mode.split(","):
        return bind
    return f"{source}:{target}:{f'{mode},' if mode else ''}{SHARED}"


def needs_label(source: str) -> bool:
    """Return whether a folder or file may get the label: it is a user's, and no top folder as a whole."""
    path = "/" + os.path.normpath(source).lstrip("/")
    return source.startswith("/") and path not in _WHOLE and PurePosixPath(path).parts[1] not in SYSTEM


def label(bind: str) -> str:
    """Return a bind as Docker and Podman need it on this machine."""
    return labelled(bind, enabled=has_selinux())


def mount_fields(bind: Bind, *options: str, read_only: str = "readonly") -> str:
    """Return a bind as the fields of `--mount`, in which colons separate nothing and CSV quotes a comma."""
    line = io.StringIO()
    fields = ("type=bind", f"source={bind.source}", f"destination={bind.target}", *options)
    csv.writer(line, lineterminator="").writerow((*fields, *((read_only,) if bind.read_only else ())))
    return line.getvalue()


def client_option(bind: Bind, *, labels: bool = True, relabels: bool = False) -> str:
    """Return a bind as an option of docker and podman; only Podman has labels for paths with colons (`relabels`)."""
    if ":" not in bind.source + bind.target:
        plain = format_bind(bind)
        return f"--volume={label(plain) if labels else plain}"
    shared = labels and relabels and has_selinux() and needs_label(bind.source)
    return f"--mount={mount_fields(bind, *(('relabel=shared',) if shared else ()))}"
