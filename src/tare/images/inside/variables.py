"""Read the environment of an image, from the three places where images store it.

A Docker or OCI image has it in its configuration, a folder of Charliecloud in `ch/environment`, a SIF in small shell
scripts. Of these only `export NAME=value` is parsed: nothing in an image is started to inspect it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from tare.images.inside.safe_paths import inside, read_file

CHARLIECLOUD: Final = "/ch/environment"
SIF_SCRIPTS: Final = "/.singularity.d/env"
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
EXPORT: Final = re.compile(r"^[ \t]*export[ \t]+([A-Za-z_][A-Za-z0-9_]*)=(.*)$", re.MULTILINE)
VALUE: Final = re.compile(r"\$\{(\w{1,256})(?::?-([^${}]{0,1024}))?\}|\$(\w{1,256})")
USUAL_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
UNUSUAL: Final = re.compile(r"[\0\n]")
LONGEST: Final = 100_000
"""The kernel accepts no variable longer than 128 KiB."""

MOST_BYTES: Final = 1 << 20
MOST_SCRIPTS: Final = 200
OF_THE_RUNTIME: Final = (
    "APPTAINER_",
    "SINGULARITY_",
    "LD_LIBRARY_PATH=/.singularity.d/libs",
    "PROMPT_COMMAND=",
    "PS1=",
)


def variables_of(rootfs: Path) -> tuple[str, ...]:
    """Return the variables in an image's files, as `NAME=value`.

    A file that is missing, too large, or not a regular file inside the image has none.
    """
    with suppress(OSError):
        return select_settable(_text(rootfs, CHARLIECLOUD).splitlines())
    folder = inside(rootfs, SIF_SCRIPTS)
    if folder is None or not folder.is_dir():
        return ()
    return parse_exports("\n".join(_scripts(rootfs, folder)))


def _scripts(rootfs: Path, folder: Path) -> Iterator[str]:
    for name in sorted(path.name for path in folder.glob("*.sh"))[:MOST_SCRIPTS]:
        with suppress(OSError):
            yield _text(rootfs, f"/{folder.relative_to(rootfs)}/{name}")


def _text(rootfs: Path, path: str) -> str:
    return read_file(rootfs, path, MOST_BYTES).decode(errors="replace")


def select_settable(variables: Iterable[str]) -> tuple[str, ...]:
    """Return the entries that are `NAME=value` and can be set; of several with one name, the last."""
    named = {name: value for name, sign, value in (variable.partition("=") for variable in variables) if sign}
    return tuple(f"{name}={value}" for name, value in named.items() if NAME.fullmatch(name) and _can_be_set(value))


def _can_be_set(value: str) -> bool:
    """Return whether a program can be started with a value: it is not too long, and can be encoded as UTF-8."""
    return len(value) <= LONGEST and UNUSUAL.search(value) is None and value == value.encode(errors="replace").decode()


def parse_exports(script: str) -> tuple[str, ...]:
    """Return the variables from a script's plain `export` lines, expanding `$NAME` and `${NAME:-default}`."""
    known: dict[str, str] = {"PATH": USUAL_PATH}
    stated: dict[str, str] = {}
    for name, rest in EXPORT.findall(script):
        text = rest.rstrip().removesuffix(";").rstrip()
        if len(text) > LONGEST or "$(" in text or "`" in text:
            continue
        bare = text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text
        value = bare if text.startswith("'") else _expanded(bare, known)
        if value is not None:
            known[name] = stated[name] = value
    kept = (f"{name}={value}" for name, value in stated.items())
    return select_settable(variable for variable in kept if not variable.startswith(OF_THE_RUNTIME))


def merged(*parts: Iterable[str]) -> tuple[str, ...]:
    """Merge lists of variables; later values override earlier ones."""
    return select_settable(variable for part in parts for variable in part)


def _expanded(text: str, known: dict[str, str]) -> str | None:
    """Return a text with its variables expanded, None if it grows too long: it may double with each line."""
    left = LONGEST

    def value_of(match: re.Match[str]) -> str:
        nonlocal left
        name, default, plain = match.groups()
        value = known.get(name or plain, (default or "").strip("\"'"))
        left -= len(value)
        return value if left >= 0 else ""

    expanded = VALUE.sub(value_of, text)
    return expanded if left >= 0 else None
