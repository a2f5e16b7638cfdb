"""Choose which of the caller's variables reach what tare starts.

A batch job's TMPDIR is no folder of a node or a container, a preloaded library is in no other mount namespace, and a
shell's settings of Podman, Docker and proxies are not those of a lab. What a command needs of them is given to it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

OF_CALLER: Final = (
    "BASH_ENV", "BASH_FUNC_", "CDPATH", "ENV", "GCONV_PATH", "GLOBIGNORE", "LD_AUDIT", "LD_DEBUG", "LD_PRELOAD",
    "LOCPATH", "POSIXLY_CORRECT", "SHELLOPTS", "TEMP", "TEMPDIR", "TMP", "TMPDIR",
)  # fmt: skip
"""Names, and beginnings of names with a `_` at their end, of what no command gets unless it is given to it."""

OF_SITE: Final = (
    "ALL_PROXY", "BUILDAH_", "CONTAINERD_", "CONTAINERS_", "CONTAINER_HOST", "DOCKER_", "FTP_PROXY", "HTTPS_PROXY",
    "HTTP_PROXY", "KUBECONFIG", "NO_PROXY", "PODMAN_", "REGISTRIES_CONFIG_", "STORAGE_",
)  # fmt: skip
"""The same of what daemons and a lab's commands do not get either; commands of a real cluster need its settings."""

_labs: list[None] = []


def environment() -> dict[str, str]:
    """Return the variables for a command."""
    left_out = (*OF_CALLER, *OF_SITE) if _labs else OF_CALLER
    return {name: value for name, value in os.environ.items() if not _is_of(name, left_out)}


def of_daemon() -> dict[str, str]:
    """Return the variables for a daemon."""
    return {name: value for name, value in os.environ.items() if not _is_of(name, (*OF_CALLER, *OF_SITE))}


@contextmanager
def in_lab() -> Iterator[None]:
    """Leave the settings of the site out while the block runs."""
    _labs.append(None)
    try:
        yield
    finally:
        _labs.pop()


def _is_of(name: str, names: tuple[str, ...]) -> bool:
    upper = name.upper()  # proxies are often in small letters
    return any(upper.startswith(each) if each.endswith("_") else upper == each for each in names)
