"""Turn a container's limits of memory and CPUs into options of docker and podman. Pure."""

from __future__ import annotations

from typing import Any

from tare.system.node.limits import Limits


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
