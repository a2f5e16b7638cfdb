"""Say why the counters of an interface may not be read; an interface that does not exist is no such case."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tare.system.devices import CLASSES

DENIED: Final = "permission denied"
HIDDEN: Final = "/proc hides the processes of other users"
NO_COUNTERS: Final = "the adapter has no such counters"
NO_NUMBER: Final = "it is not a number"


def of_process(pid: int) -> str:
    """Return why the interfaces in a process's network namespace may not be read; "" if it has ended.

    Process 0 is this one.
    """
    try:
        Path(f"/proc/{pid or 'self'}/net/dev").read_bytes()
    except PermissionError:
        return DENIED
    except OSError:
        return HIDDEN if _is_of_another(pid) else ""
    return ""


def of_port(port: str, names: tuple[str, ...], classes: Path = CLASSES) -> str:
    """Return why these counters of an adapter's port (`mlx5_0:1`) may not be read; "" if there is no such port."""
    adapter, _, number = port.partition(":")
    folder = classes / "infiniband" / adapter / "ports" / number
    for name in names:
        try:
            text = (folder / "counters" / name).read_text()
        except PermissionError:
            return f"{name}: {DENIED}"
        except FileNotFoundError:
            return f"{name}: {NO_COUNTERS}" if folder.is_dir() else ""
        except OSError as error:
            return f"{name}: {error.strerror}"
        if not text.strip().isdigit():
            return f"{name}: {NO_NUMBER}"
    return ""


def _is_of_another(pid: int) -> bool:
    """Return whether a process runs to which this one may send no signal."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return False
