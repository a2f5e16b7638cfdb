"""Read the file of a CNI network configuration: bounded in size, with the location of each error."""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections.abc import Mapping
from typing import Final, NoReturn

from tare.networks.wiring.conflist import VARIABLES, Conflist, Json, Values, fill_in, find_variables, shorten

MAX_BYTES: Final = 1 << 16
MAX_DEPTH: Final = 32
MAX_PLUGINS: Final = 32
MAX_NAME: Final = 100
"""The CNI project's own configurations have some hundred bytes and four plug-ins."""

_VERSION: Final = re.compile(r"([0-9][0-9A-Za-z.+-]{0,63})?")
_NAME: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_.-]{{0,{MAX_NAME - 1}}}")


def read(path: str) -> Conflist:
    """Return the configuration in a file; raise `ValueError` with a sentence on what is wrong and where."""
    try:
        data = _bytes_of(path)
    except FileNotFoundError:
        raise ValueError(f"{path} not found: name a CNI configuration, a .conflist or a .conf") from None
    except IsADirectoryError:
        raise ValueError(f"{path} is a folder: name the CNI configuration in it") from None
    except (OSError, ValueError) as error:
        raise ValueError(f"{path!r} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > MAX_BYTES:
        raise ValueError(f"{path} has more than {MAX_BYTES} bytes: it is not a CNI configuration")
    try:
        return parse(data.decode("utf-8-sig"), path)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path}:{line}: byte 0x{data[error.start]:02x} is not UTF-8") from None


def _bytes_of(path: str) -> bytes:
    """Return the beginning of a file, one byte more than the limit; a device or a pipe may be endless."""
    if not stat.S_ISREG(mode := os.stat(path).st_mode) and not stat.S_ISDIR(mode):
        raise ValueError("it is not a regular file")
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return file.read(MAX_BYTES + 1)


def parse(text: str, path: str) -> Conflist:
    """Parse a configuration's text; raise `ValueError` as `read` does."""
    try:
        stated = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}:{error.lineno}:{error.colno}: this is not valid JSON: {error.msg}") from None
    except RecursionError:
        raise ValueError(f"{path}: it is nested too deeply for a CNI configuration") from None
    except ValueError as error:  # a number that is invalid in JSON, or has thousands of digits
        raise ValueError(f"{path}: this is not valid JSON: {error}") from None
    if _is_deep(stated):
        raise ValueError(f"{path}: it is nested too deeply for a CNI configuration")
    if not isinstance(stated, dict):
        raise ValueError(f'{path}: a CNI configuration is an object, as {{"name": ..., "plugins": [...]}}')
    name, version = stated.get("name"), stated.get("cniVersion", "")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(
            f'{path}: "name" must be a word of letters, digits, dots, dashes and underscores, at most {MAX_NAME}'
        )
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise ValueError(f'{path}: "cniVersion" must be a version, as "1.0.0"')
    conflist = Conflist(path=path, name=name, version=version, plugins=_plugins(stated, path), text=text)
    for variable in find_variables(list(conflist.plugins)):
        if variable not in VARIABLES:
            allowed = ", ".join(f"${{{allowed_name}}}" for allowed_name in VARIABLES)
            raise ValueError(f"{path}: unknown variable ${{{shorten(variable)}}} (allowed: {allowed})")
    fill_in(conflist, Values(node=0, nodes=1))  # parses its addresses once
    return conflist


def _plugins(stated: Mapping[str, Json], path: str) -> tuple[Mapping[str, Json], ...]:
    """Return the chain that a file states; a plain .conf is a chain of one."""
    listed = stated.get("plugins", [stated] if "type" in stated else None)
    if not isinstance(listed, list) or not listed:
        raise ValueError(f'{path}: it has no plug-ins: "plugins" must be a list of at least one')
    if len(listed) > MAX_PLUGINS:
        raise ValueError(f"{path}: it has {len(listed)} plug-ins; at most {MAX_PLUGINS} are allowed")
    for number, plugin in enumerate(listed, start=1):
        where = f"{path}: plug-in {number} of {len(listed)}"
        if not isinstance(plugin, dict) or not isinstance(plugin.get("type"), str) or not plugin["type"]:
            raise ValueError(f'{where} has no "type", which is the name of its program')
        ipam = plugin.get("ipam", {})
        if not isinstance(ipam, dict) or not isinstance(ipam.get("type", ""), str):
            raise ValueError(f'{where} ({shorten(plugin["type"])}): "ipam" must be an object with a "type"')
        for program in (plugin["type"], ipam.get("type", "")):
            if program and not _NAME.fullmatch(program):
                what = f"no name of a program, which has at most {MAX_NAME} letters, digits, dots, dashes, underscores"
                raise ValueError(f'{where}: the "type" {shorten(program)!r} is {what}')
    return tuple(listed)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{shorten(name)} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse_constant(text)


def _is_deep(value: Json, depth: int = 0) -> bool:
    """Return whether a value is nested more deeply than a configuration can be."""
    if not isinstance(value, (dict, list)):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return depth >= MAX_DEPTH or any(_is_deep(member, depth + 1) for member in inner)
