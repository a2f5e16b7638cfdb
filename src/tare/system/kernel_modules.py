"""Find out whether the kernel supports a kind of link: try it in a scratch namespace, or look it up among the modules.

Support is never assumed, and the machine's own network is not touched.
"""

from __future__ import annotations

import ctypes
import os
import platform
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Final

from tare.system.namespaces import CLONE_NEWNET

NAME: Final = "tareprobe"
MODULES: Final = Path("/lib/modules")
LOADED: Final = Path("/sys/module")
PACKED: Final = ("", ".xz", ".zst", ".gz")


def probe_link(kind: str) -> str | None:
    """Return that the kernel does not support a kind of link (such as `ipvlan`) on top of another, or None.

    If no link may be created here, the list of the kernel's modules decides.
    """
    supported = _tried(kind)
    if supported is None:
        supported = has_module(kind)
    return None if supported else _unsupported(kind)


def probe_module(name: str) -> str | None:
    """Return that the kernel has no module of this name, or None."""
    return None if has_module(name) else _unsupported(name)


def _unsupported(what: str) -> str:
    """Return the sentence on the feature that this kernel does not support."""
    return f"this kernel ({platform.release()}) has no {what}: boot one that has it, such as Debian's linux-image-amd64"


def has_module(name: str, loaded: Path = LOADED, modules: Path = MODULES) -> bool:
    """Return whether a module is loaded, built into the kernel, or installed for it."""
    if (loaded / name).exists():
        return True
    wanted = {f"{name}.ko{packed}" for packed in PACKED}
    for listing in ("modules.builtin", "modules.dep"):
        try:
            lines = (modules / platform.release() / listing).read_text().splitlines()
        except OSError:
            continue
        if any(line.partition(":")[0].rpartition("/")[2].replace("-", "_") in wanted for line in lines):
            return True
    return False


@cache
def _tried(kind: str) -> bool | None:
    """Return whether a link can be made, in a network namespace that ends with a thread; None: that cannot be tried."""
    answers: list[bool | None] = []
    thread = Thread(target=lambda: answers.append(_make(kind)), daemon=True)
    thread.start()
    thread.join()
    return answers[0] if answers else None


def _make(kind: str) -> bool | None:
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError

    if os.geteuid() != 0 or ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        return None
    route = IPRoute()
    try:
        route.link("add", ifname=NAME, kind="veth", peer={"ifname": f"{NAME}1"})
        route.link("add", ifname=f"{NAME}2", kind=kind, link=route.link_lookup(ifname=NAME)[0])
    except NetlinkError:
        return False
    finally:
        route.close()
    return True
