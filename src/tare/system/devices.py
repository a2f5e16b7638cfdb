"""Select the devices of a node for a container, one by one and never all of them, and set the limits that they need.

PEARC'18 gave containers their InfiniBand adapter with `--privileged`: every device of the machine, every capability and
no seccomp filter. What verbs need of it is two or three device nodes and a limit:

- `uverbsN`, one an adapter, through which queues and memory are set up, and `rdma_cm`, which finds peers by address.
  Not `umadN` and `issmN`: with these a container could speak for the fabric's subnet manager, and no MPI asks for them.
- Memory that an adapter reads and writes is pinned, and pages that are pinned count against RLIMIT_MEMLOCK, so that has
  to be unlimited. The capability IPC_LOCK only lifts that same limit (ib_umem_get asks for one or the other), so it is
  not given.

GPUs are asked for by words (`nvidia`, `rocm`, or the CDI name of a device), because each runtime has its own way to
give them to a container (`tare.runtimes.containers.gpu_options`): a GPU needs the libraries of its driver, too.
"""

from __future__ import annotations

import re
import resource
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tare.errors import RefusedError

INFINIBAND: Final = "infiniband"
NVIDIA: Final = "nvidia"
ROCM: Final = "rocm"
CDI: Final = "cdi:"
"""Begins the name of a device that a Container Device Interface specification describes: `cdi:VENDOR/CLASS=NAME`."""

CDI_NAME: Final = re.compile(
    r"cdi:[A-Za-z][A-Za-z0-9._-]*[A-Za-z0-9]/[A-Za-z][A-Za-z0-9_-]*=[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?"
)
FOLDER: Final = "/dev/infiniband"
DEV: Final = Path("/dev")
CLASSES: Final = Path("/sys/class")
ACTIVE: Final = "ACTIVE"
PATH: Final = re.compile(r"/dev/(?:[A-Za-z0-9_-][A-Za-z0-9_.-]*/)*[A-Za-z0-9_-][A-Za-z0-9_.-]*")
NUMBER: Final = re.compile(r"uverbs(\d+)")
CAP_SYS_RESOURCE: Final = 24
UNLIMITED: Final = "memlock=-1:-1"


def given(wanted: Sequence[str], dev: Path = DEV, classes: Path = CLASSES) -> tuple[str, ...]:
    """Return the device nodes that an environment's `devices` mean on this machine, without those of GPUs.

    Raises `RefusedError` if one of them does not exist.
    """
    paths: list[str] = []
    for word in without_gpus(wanted):
        paths += find_infiniband(dev, classes) if word == INFINIBAND else [_present(word)]
    return tuple(dict.fromkeys(paths))


def check_word(text: str) -> str:
    """Return one of an environment's `devices` unchanged; raise `ValueError` if it is none.

    Runtimes cannot express other paths, or give them another meaning.
    """
    if text in (INFINIBAND, NVIDIA, ROCM) or PATH.fullmatch(text) or CDI_NAME.fullmatch(text):
        return text
    raise ValueError(
        f"{text!r} is not a device: write {INFINIBAND}, {NVIDIA}, {ROCM}, a path such as /dev/fuse, or a CDI name such "
        "as cdi:nvidia.com/gpu=0"
    )


def gpus_of(wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the words of an environment's `devices` that ask for GPUs."""
    return tuple(word for word in dict.fromkeys(wanted) if word in (NVIDIA, ROCM) or word.startswith(CDI))


def without_gpus(wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the words of an environment's `devices` that do not ask for GPUs."""
    gpus = gpus_of(wanted)
    return tuple(word for word in wanted if word not in gpus)


def probe(wanted: Sequence[str]) -> str | None:
    """Return why an environment's devices are not available on this machine, or None."""
    try:
        paths = given(wanted)
    except RefusedError as refused:
        return f"{refused.message}: {refused.remedy}"
    hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    return locked_too_little(hard, can_raise=_may_raise_limits()) if pins_memory(paths) else None


def find_infiniband(dev: Path = DEV, classes: Path = CLASSES) -> tuple[str, ...]:
    """Return the device nodes that verbs need: one of every adapter with an active port, and the connection manager's.

    Raises `RefusedError` if there is no adapter, or none with an active port.
    """
    folder = dev / "infiniband"
    names = sorted(
        (path.name for path in folder.glob("uverbs*") if NUMBER.fullmatch(path.name)), key=lambda name: int(name[6:])
    )
    if not names:
        raise RefusedError(
            f"this machine has no InfiniBand device (no {FOLDER}/uverbs0)",
            remedy="load the driver of its adapter and ib_uverbs, or remove devices: infiniband",
        )
    ports = {name: _ports(classes, name) for name in names}
    active = [name for name in names if any(ACTIVE in state for state in ports[name].values())]
    if not active:
        states = ", ".join(f"{port} is {state}" for of_adapter in ports.values() for port, state in of_adapter.items())
        raise RefusedError(
            f"no InfiniBand port of this machine is active ({states or 'no adapter reports one'})",
            remedy="check the cable and the subnet manager, or remove devices: infiniband",
        )
    manager = ["rdma_cm"] if (folder / "rdma_cm").exists() else []
    return tuple(f"{FOLDER}/{name}" for name in (*active, *manager))


def pins_memory(paths: Sequence[str]) -> bool:
    """Return whether one of these devices pins the memory that it reads or writes."""
    return any(path.startswith(f"{FOLDER}/") for path in paths)


def client_options(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the options of Docker and Podman that pass devices, one by one, and lift the limit of locked memory."""
    memory = ("--ulimit", UNLIMITED) if pins_memory(paths) else ()
    return (*(word for path in paths for word in ("--device", path)), *memory)


def without_limits(options: Sequence[str]) -> tuple[str, ...]:
    """Return a client's options without the limit of locked memory that `client_options` sets."""
    at = options.index(UNLIMITED) if UNLIMITED in options else 0
    return (*options[: at - 1], *options[at + 1 :]) if at else tuple(options)


def host_config(paths: Sequence[str]) -> dict[str, Any]:
    """Return the same for Docker's API, as part of a HostConfig."""
    passed = [{"PathOnHost": path, "PathInContainer": path, "CgroupPermissions": "rwm"} for path in paths]
    memory = [{"Name": "memlock", "Soft": -1, "Hard": -1}] if pins_memory(paths) else []
    return {key: value for key, value in {"Devices": passed, "Ulimits": memory}.items() if value}


def inherited(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the argv prefix that lifts the limit of locked memory, for containers that inherit it."""
    return ("prlimit", "--memlock=unlimited:unlimited") if pins_memory(paths) else ()


def locked_too_little(hard: int, *, can_raise: bool) -> str | None:
    """Return why memory cannot be pinned under a hard limit of locked memory, or None."""
    if hard == resource.RLIM_INFINITY or can_raise:
        return None
    return (
        f"InfiniBand pins memory, and at most {hard // 1024} KiB may be locked here (ulimit -H -l): raise the "
        "limit, with LimitMEMLOCK=infinity in the service that starts tare or memlock in /etc/security/limits.conf"
    )


def _may_raise_limits() -> bool:
    mask = Path("/proc/self/status").read_text().partition("CapEff:")[2].partition("\n")[0]
    return bool(int(mask, 16) >> CAP_SYS_RESOURCE & 1)


def _present(path: str) -> str:
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        raise RefusedError(f"{path} does not exist on this machine", remedy="remove it from devices") from None
    if not (stat.S_ISCHR(mode) or stat.S_ISBLK(mode)):
        raise RefusedError(f"{path} is not a device", remedy="remove it from devices; use binds for a file or folder")
    return path


def _ports(classes: Path, verbs: str) -> dict[str, str]:
    """Return the state of each port of the adapter behind a device: `mlx5_0 port 1` -> `4: ACTIVE`."""
    try:
        adapter = (classes / "infiniband_verbs" / verbs / "ibdev").read_text().strip()
        ports = sorted((classes / "infiniband" / adapter / "ports").iterdir())
        return {f"{adapter} port {port.name}": (port / "state").read_text().strip() for port in ports}
    except OSError:
        return {}
