"""Find the GPUs of this machine, and why one that is asked for cannot be given to a container.

Everything is read below `root`, so that tests can make up a machine. None of it was run on a machine with a GPU: the
files are those that the drivers' and the Container Device Interface's documentation names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tare.system.devices import CDI, NVIDIA, ROCM, gpus_of

ROOT: Final = Path("/")
VENDORS: Final = {"0x10de": "NVIDIA", "0x1002": "AMD", "0x8086": "Intel"}
CLASSES: Final = ("0x0300", "0x0302", "0x0380", "0x1200")
"""PCI classes of GPUs: VGA, 3D and other display controllers, processing accelerators."""

SPECIFICATIONS: Final = ("etc/cdi", "var/run/cdi", "run/cdi")
"""Folders of CDI specifications, the first two as the CDI specification lists them; /var/run may be a link to /run."""

_MOST_BYTES: Final = 1 << 20


def find_gpus(root: Path = ROOT) -> tuple[str, ...]:
    """Return the GPUs of this machine: an NVIDIA one by its model if its driver is loaded, others by their vendor."""
    models = sorted(_nvidia_models(root))
    vendors = sorted(_vendors(root))
    return (*models, *(f"{name} GPU" for name in vendors if not (models and name == VENDORS["0x10de"])))


def in_words(gpus: Sequence[str], given: Sequence[str] = ()) -> str:
    """Return GPUs as a report names them, with the environments whose containers are `given` them."""
    if not gpus:
        return "none"
    counted = ", ".join(f"{count} x {name}" for name, count in Counter(gpus).items())
    return f"{counted}, given to containers of {', '.join(given)}" if given else f"{counted}, not given to containers"


def probe(wanted: Sequence[str], root: Path = ROOT) -> str | None:
    """Return why the GPUs of an environment's `devices` are not available on this machine, or None."""
    for word in gpus_of(wanted):
        if word == NVIDIA and not any((root / "dev").glob("nvidia[0-9]*")):
            return "this machine has no NVIDIA GPU with a loaded driver (no /dev/nvidia0): remove devices: nvidia"
        if word == ROCM and not (root / "dev" / "kfd").exists():
            return "this machine has no AMD GPU with ROCm's driver (no /dev/kfd): load amdgpu, or remove devices: rocm"
        if word.startswith(CDI) and not _is_specified(word.removeprefix(CDI), root):
            return (
                f"no CDI specification in /etc/cdi or /var/run/cdi describes {word.removeprefix(CDI)}: generate it "
                "(for NVIDIA: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml), or remove it from devices"
            )
    return None


def _nvidia_models(root: Path) -> Iterator[str]:
    for file in (root / "proc" / "driver" / "nvidia" / "gpus").glob("*/information"):
        model = re.search(r"^Model:\s*(.+?)\s*$", _text(file), re.MULTILINE)
        yield model.group(1) if model else "NVIDIA GPU"


def _vendors(root: Path) -> Iterator[str]:
    for device in (root / "sys" / "bus" / "pci" / "devices").glob("*"):
        vendor = VENDORS.get(_text(device / "vendor").strip())
        if vendor and _text(device / "class").startswith(CLASSES):
            yield vendor


def _is_specified(name: str, root: Path) -> bool:
    """Return whether a CDI specification (JSON or YAML) has a device: `VENDOR/CLASS=NAME`."""
    kind, _, device = name.partition("=")
    files = (file for folder in SPECIFICATIONS for file in (root / folder).glob("*"))
    texts = (_text(file) for file in files if file.suffix in (".json", ".yaml"))
    return any(_has(text, "kind", kind) and _has(text, "name", device) for text in texts)


def _has(text: str, key: str, value: str) -> bool:
    """Return whether a line of JSON or YAML gives a key this value."""
    pattern = rf"""["']?\b{key}["']?\s*:\s*["']?{re.escape(value)}["']?\s*(?:[,}}#]|$)"""
    return re.search(pattern, text, re.MULTILINE) is not None


def _text(file: Path) -> str:
    try:
        with file.open("rb") as handle:
            return handle.read(_MOST_BYTES).decode(errors="replace")
    except OSError:
        return ""
