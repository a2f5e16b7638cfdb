"""Read the environment that an image states, in the three ways in which images do.

A Docker or OCI image has it in its configuration, a folder of Charliecloud in `ch/environment`, a SIF in small shell
scripts, of which only `export NAME=value` is read: nothing of an image is started to look into it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tare.images.inspect import inside

CHARLIECLOUD: Final = "/ch/environment"
SIF_SCRIPTS: Final = "/.singularity.d/env"
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
EXPORT: Final = re.compile(r"^\s*export\s+([A-Za-z_][A-Za-z0-9_]*)=(.*?)\s*;?\s*$", re.MULTILINE)
VALUE: Final = re.compile(r"\$\{(\w+)(?::?-([^}]*))?\}|\$(\w+)")
USUAL_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OF_THE_RUNTIME: Final = (
    "APPTAINER_",
    "SINGULARITY_",
    "LD_LIBRARY_PATH=/.singularity.d/libs",
    "PROMPT_COMMAND=",
    "PS1=",
)


def variables_of(rootfs: Path) -> tuple[str, ...]:
    """Return the variables that the files of an image state, as `NAME=value`."""
    file = inside(rootfs, CHARLIECLOUD)
    if file is not None and file.is_file():
        return checked(file.read_text(errors="replace").splitlines())
    folder = inside(rootfs, SIF_SCRIPTS)
    if folder is None or not folder.is_dir():
        return ()
    scripts = (path.read_text(errors="replace") for path in sorted(folder.glob("*.sh")) if path.is_file())
    return exported("\n".join(scripts))


def checked(variables: Iterable[str]) -> tuple[str, ...]:
    """Return those that are `NAME=value`; of several with one name the last."""
    named = {name: value for name, sign, value in (each.partition("=") for each in variables) if sign}
    return tuple(f"{name}={value}" for name, value in named.items() if NAME.fullmatch(name) and "\n" not in value)


def exported(script: str) -> tuple[str, ...]:
    """Return what a script's plain `export` lines leave, following `$NAME` and `${NAME:-default}`."""
    known: dict[str, str] = {"PATH": USUAL_PATH}
    stated: dict[str, str] = {}
    for name, text in EXPORT.findall(script):
        if "$(" in text or "`" in text:
            continue
        bare = text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text
        value = bare if text.startswith("'") else _expanded(bare, known)
        known[name] = stated[name] = value
    kept = (f"{name}={value}" for name, value in stated.items())
    return checked(each for each in kept if not each.startswith(OF_THE_RUNTIME))


def merged(*parts: Iterable[str]) -> tuple[str, ...]:
    """Return variables of several parts; what comes later holds."""
    return checked(each for part in parts for each in part)


def _expanded(text: str, known: dict[str, str]) -> str:
    def value_of(match: re.Match[str]) -> str:
        name, default, plain = match.groups()
        return known.get(name or plain, (default or "").strip("\"'"))

    return VALUE.sub(value_of, text)
