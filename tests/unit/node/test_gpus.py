"""GPUs are found in made-up machines, and one that is asked for and missing is said with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tare.node import gpus

A100 = "Model: \t\t NVIDIA A100-SXM4-40GB\nIRQ:   \t\t 90\n"


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def pci(number: int, vendor: str, kind: str) -> dict[str, str]:
    place = f"sys/bus/pci/devices/0000:0{number}:00.0"
    return {f"{place}/vendor": f"{vendor}\n", f"{place}/class": f"{kind}\n"}


def test_gpus_are_counted_by_model_or_vendor(tmp_path: Path) -> None:
    network, of_a_server = pci(1, "0x8086", "0x020000"), pci(2, "0x1a03", "0x030000")
    assert gpus.find_gpus(write(tmp_path, network | of_a_server)) == ()
    assert gpus.in_words(()) == "none"
    tmp_path /= "nvidia"
    places = [f"proc/driver/nvidia/gpus/0000:0{number}:00.0/information" for number in (1, 2)]
    write(tmp_path, dict.fromkeys(places, A100) | pci(1, "0x10de", "0x030200") | pci(2, "0x10de", "0x030200"))
    assert gpus.in_words(gpus.find_gpus(tmp_path)) == "2 x NVIDIA A100-SXM4-40GB, not given to containers"
    tmp_path /= "vendors"
    write(tmp_path, pci(1, "0x10de", "0x030200") | pci(2, "0x1002", "0x120000") | pci(3, "0x1002", "0x038000"))
    told = gpus.in_words(gpus.find_gpus(tmp_path), ("apptainer", "podman"))
    assert told == "2 x AMD GPU, 1 x NVIDIA GPU, given to containers of apptainer, podman"


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("nvidia", "no NVIDIA GPU with a loaded driver (no /dev/nvidia0)"),
        ("rocm", "no AMD GPU with ROCm's driver (no /dev/kfd)"),
        ("cdi:nvidia.com/gpu=0", "no CDI specification in /etc/cdi or /var/run/cdi describes nvidia.com/gpu=0"),
    ],
)
def test_a_gpu_that_is_missing_is_said(word: str, reason: str, tmp_path: Path) -> None:
    assert reason in str(gpus.probe(("infiniband", word), tmp_path))
    assert gpus.probe(("infiniband", "/dev/fuse"), tmp_path) is None


def test_only_nodes_and_specifications_of_a_device_count(tmp_path: Path) -> None:
    write(tmp_path, {"dev/nvidia0": "", "dev/nvidiactl": "", "dev/kfd": ""})
    assert gpus.probe(("nvidia", "rocm"), tmp_path) is None
    assert gpus.probe(("nvidia",), write(tmp_path / "control", {"dev/nvidiactl": ""})) is not None
    write(tmp_path, {"etc/cdi/nvidia.txt": "kind: nvidia.com/gpu\ndevices:\n- name: all\n"})
    assert gpus.probe(("cdi:nvidia.com/gpu=all",), tmp_path) is not None


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("etc/cdi/nvidia.yaml", 'cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n- name: "0"\n- name: all\n'),
        ("var/run/cdi/n.json", '{"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [{"name": "0"}]}'),
    ],
)
def test_a_device_of_a_cdi_specification_is_found_by_kind_and_name(file: str, text: str, tmp_path: Path) -> None:
    write(tmp_path, {file: text})
    assert gpus.probe(("cdi:nvidia.com/gpu=0",), tmp_path) is None
    assert gpus.probe(("cdi:nvidia.com/gpu=1",), tmp_path) is not None
    assert gpus.probe(("cdi:nvidia.com/mig=0",), tmp_path) is not None
