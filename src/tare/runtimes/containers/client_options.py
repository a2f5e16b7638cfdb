"""Turn a pod's request into the options that the clients of Docker and Podman have in common."""

from __future__ import annotations

from typing import Any, Final

from tare.runtimes.containers.request import PodRequest
from tare.system.binds import client_option
from tare.system.node.limits import Limits

DROPPED: Final = ("MKNOD", "SETFCAP", "FSETID")
"""Capabilities by which root of a container leaves device nodes and files with rights in folders of the host."""


def study_label(request: PodRequest) -> tuple[str, ...]:
    """Return the option by which a container is known as one of the study's."""
    return ("--label", f"tare.study={request.deployment.study}")


def memory_options(request: PodRequest) -> tuple[str, ...]:
    """Return the options for the memory that containers of a pod share, and for the hosts that the first one knows."""
    hosts = (f"--add-host={name}" for name in request.names)
    size = str(request.environment.shm_size or request.shared_memory)
    return ("--ipc", "shareable", "--shm-size", size, *hosts)


def volumes(request: PodRequest, *, relabels: bool = False) -> tuple[str, ...]:
    """Return folders of the host, variables, and the capabilities that are dropped, as options of the client."""
    return (*(f"--cap-drop={right}" for right in DROPPED), *shown(request, relabels=relabels))


def shown(request: PodRequest, *, relabels: bool) -> tuple[str, ...]:
    """Return folders of the host, and variables, as options of the client."""
    return (
        *(client_option(bind, relabels=relabels) for bind in request.folders),
        *(f"--env={variable}" for variable in request.variables),
    )


def work_options(request: PodRequest) -> tuple[str, ...]:
    """Return the option for the ranks' working folder, if there is one."""
    return ("--workdir", request.files.cwd) if request.files.cwd else ()


def limit_options(limits: Limits | None) -> tuple[str, ...]:
    """Return the options for docker and podman. Swap is disabled: a rank that swaps must not be measured."""
    if limits is None:
        return ()
    memory = ("--memory", str(limits.memory_bytes), "--memory-swap", str(limits.memory_bytes))
    return (*(memory if limits.memory_bytes else ()), *(("--cpus", f"{limits.cpus:g}") if limits.cpus else ()))


def limit_config(limits: Limits | None) -> dict[str, Any]:
    """Return the limits in the format of Docker's API."""
    if limits is None:
        return {}
    memory = {"Memory": limits.memory_bytes, "MemorySwap": limits.memory_bytes} if limits.memory_bytes else {}
    return {**memory, **({"NanoCpus": round(limits.cpus * 1e9)} if limits.cpus else {})}
