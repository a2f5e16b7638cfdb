"""Return the options by which a client gives GPUs to a container. Pure.

`gpus` are words of an environment's `devices`: `nvidia`, `rocm`, or `cdi:VENDOR/CLASS=NAME`. Options are those of the
documentation of Docker, Podman, ROCm and the NVIDIA Container Toolkit; none of them was run on a machine with a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tare.system.devices import CDI, NVIDIA, ROCM

ROCM_DEVICES: Final = ("/dev/kfd", "/dev/dri")
"""The compute interface of all AMD GPUs, and the folder with a device for each. ROCm's libraries are in the image."""

NVIDIA_CDI: Final = "nvidia.com/gpu=all"


def podman_options(gpus: Sequence[str]) -> tuple[str, ...]:
    """Return Podman's options: NVIDIA's GPUs are CDI devices, which its toolkit describes."""
    named = (name for gpu in gpus for name in ((NVIDIA_CDI,) if gpu == NVIDIA else _other_devices(gpu)))
    return tuple(word for name in named for word in ("--device", name))


def docker_options(gpus: Sequence[str]) -> tuple[str, ...]:
    """Return the options of Docker's client."""
    words = []
    for gpu in gpus:
        if gpu == NVIDIA:
            words += ["--gpus", "all"]
        else:
            words += [word for name in _other_devices(gpu) for word in ("--device", name)]
    return tuple(words)


def docker_config(gpus: Sequence[str]) -> dict[str, Any]:
    """Return the same for Docker's API, as part of a HostConfig; `Devices` are in addition to other devices."""
    requests: list[dict[str, Any]] = []
    if NVIDIA in gpus:
        requests.append({"Driver": "", "Count": -1, "Capabilities": [["gpu"]]})
    if names := [gpu.removeprefix(CDI) for gpu in gpus if gpu.startswith(CDI)]:
        requests.append({"Driver": "cdi", "DeviceIDs": names})
    return {"DeviceRequests": requests} if requests else {}


def rocm_devices(gpus: Sequence[str]) -> tuple[str, ...]:
    """Return the devices of AMD's GPUs, if they are asked for."""
    return ROCM_DEVICES if ROCM in gpus else ()


def _other_devices(gpu: str) -> tuple[str, ...]:
    return ROCM_DEVICES if gpu == ROCM else (gpu.removeprefix(CDI),)
