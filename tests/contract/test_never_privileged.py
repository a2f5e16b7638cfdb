"""No runtime is ever started as privileged, and devices reach containers exactly as asked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from contract.compositions import NODE
from nodes import change_request, make_pod, make_request
from tare.clusters.pods import manifests
from tare.runtimes import (
    RUNTIMES,
    PodRequest,
    apptainer,
    apptainer_instance,
    apptainer_sif_levels,
    charliecloud,
    docker,
    podman,
    podman_hpc,
    podman_rootless,
)
from tare.runtimes.containers import user_podman
from tare.runtimes.containers.site_runtime import SiteRuntime
from tare.system.devices import NVIDIA, ROCM, host_config

INFINIBAND = ("/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm")
FORBIDDEN = ("privileged", "--cap-add", "CapAdd", "unconfined", "SecurityOpt", "IPC_LOCK", "umad")
SOCKETS = ("docker.sock", "containerd.sock", "podman.sock", "/run/tare-kubernetes", "/run/tare-etcd", "tls.key")
"""What daemons are reached by, and what makes one their client: no container is shown any of it."""
NOT_OF_DOCKER = (*FORBIDDEN, "--security-opt", "--device", "--pid", "--userns")
POD = make_pod(NODE, pid=7, container="p")
POD_SPEC = manifests.PodSpec(
    name="p", namespace="n", run="r", slot=0, node="m", image="i", node_image="s", cpus=2, memory="1Gi",
    host_network=True,
)  # fmt: skip


def request(devices: tuple[str, ...]) -> PodRequest:
    return make_request(NODE, image_tag="i", shown=("/opt/x",), devices=devices)


def of_docker(asked: PodRequest) -> tuple[str, ...]:
    return (*docker.run_options(asked), json.dumps(docker.join_config(POD, asked, (2,))))


def of_podman(asked: PodRequest) -> tuple[str, ...]:
    return (*podman.run_options(asked, network="host"), *podman.join_options(POD, asked, "p-0", (2,)))


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apptainer_instance, "find_program", lambda: "apptainer")


def of_level(level: apptainer.Apptainer, asked: PodRequest) -> tuple[str, ...]:
    return apptainer.exec_options(asked, Path("/image.sif"), level.privileges)


COMMANDS: Mapping[str, Callable[[PodRequest], tuple[str, ...]]] = {
    "docker": of_docker,
    "podman": of_podman,
    "apptainer": lambda asked: (
        *apptainer.exec_options(asked, Path("/image")),
        *apptainer.exec_options(asked, Path("/image"), alone=True),
    ),
    "apptainer-instance": lambda asked: (
        *apptainer_instance.ApptainerInstance().start_command(asked),
        *apptainer_instance.ApptainerInstance().exec_command(asked),
    ),
    "apptainer-sif-setuid": lambda asked: of_level(apptainer_sif_levels.ApptainerSifSetuid(), asked),
    "apptainer-sif-squashfuse": lambda asked: of_level(apptainer_sif_levels.ApptainerSifSquashfuse(), asked),
    "apptainer-sif-extracted": lambda asked: of_level(apptainer_sif_levels.ApptainerSifExtracted(), asked),
    "podman-rootless": lambda asked: (
        *podman_rootless.run_options(asked),
        *podman_rootless.join_options(POD, asked, "p-0"),
        *user_podman.run_options(asked),
        *user_podman.join_options(POD, asked, "p-0"),
    ),
    "podman-hpc": lambda asked: podman_hpc.client(Path("/s"), Path("/store"), *podman_hpc.run_options(asked)),
    "charliecloud": lambda asked: charliecloud.ch_run("ch-run"),
    "kubernetes": lambda asked: tuple(json.dumps(manifests.pod(POD_SPEC)).split()),
    **{
        name: lambda asked, runtime=runtime: (*runtime.command(asked), *runtime.command(asked, alone=True))
        for name, runtime in RUNTIMES.items()
        if isinstance(runtime, SiteRuntime)
    },
}
"""The commands of each runtime that makes containers. A new runtime adds its own here."""
SAME = {"apptainer-sif": "apptainer"}


def test_every_runtime_with_containers_is_held_to_it() -> None:
    made = {name for name, runtime in RUNTIMES.items() if runtime.makes_containers and name != "fake"}
    assert made == set(COMMANDS) | set(SAME)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("devices", [(), ("/dev/fuse",), INFINIBAND], ids=["none", "fuse", "infiniband"])
def test_no_command_is_privileged_or_asks_for_a_right(name: str, devices: tuple[str, ...]) -> None:
    gpus = tuple(gpu for gpu in (NVIDIA, ROCM, "cdi:nvidia.com/gpu=0") if not RUNTIMES[name].refuse_gpu(gpu, "i"))
    for word in (*COMMANDS[name](request(devices)), *COMMANDS[name](change_request(request(devices), gpus=gpus))):
        assert not any(forbidden.lower() in word.lower() for forbidden in (*FORBIDDEN, *SOCKETS)), word


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - {"charliecloud", "kubernetes"}))
def test_programs_and_keys_are_shown_read_only(name: str) -> None:
    found = [word for word in COMMANDS[name](request(())) if re.search(r"/opt/x\b", word)]
    assert found
    assert [word for word in found if not re.search(r"[:,](ro|readonly)\b", word)] == []


def test_no_golden_command_is_privileged() -> None:
    texts = {path.name: path.read_text() for path in (Path(__file__).parents[1] / "golden" / "argv").glob("*.txt")}
    assert sum(text.count("  docker\n") for text in texts.values()) > 10
    assert [name for name, text in texts.items() if any(word in text for word in NOT_OF_DOCKER)] == []


def test_root_of_a_container_can_make_no_device_nodes_and_no_files_with_capabilities() -> None:
    none = {"MKNOD", "SETFCAP", "FSETID"}
    for words in (of_docker(request(())), podman.run_options(request(()), network="host"), of_podman(request(()))):
        assert {word.removeprefix("--cap-drop=") for word in words if word.startswith("--cap-drop=")} == none
    assert set(docker.join_config(POD, request(()), (2,))["HostConfig"]["CapDrop"]) == none
    assert sum(word.startswith("--cap-drop=") for word in of_podman(request(()))) == 2 * len(none)
    for name in (each for each in COMMANDS if each.startswith("apptainer")):
        assert "--no-privs" in COMMANDS[name](request(())), name


@pytest.mark.parametrize("name", ["docker", "podman", "podman-rootless", "podman-hpc"])
def test_a_client_is_told_exactly_the_devices_and_one_of_root_the_limit(name: str) -> None:
    words = COMMANDS[name](request(INFINIBAND))
    assert {words[at + 1] for at, word in enumerate(words) if word == "--device"} == set(INFINIBAND)
    assert "--device" not in COMMANDS[name](request(()))
    if name in ("docker", "podman"):
        assert words[words.index("--ulimit") + 1] == "memlock=-1:-1"
        assert "--ulimit" not in COMMANDS[name](request(("/dev/fuse",)))


def test_further_containers_of_docker_get_the_same() -> None:
    host = docker.join_config(POD, request(INFINIBAND), (2,))["HostConfig"]
    assert {key: host[key] for key in ("Devices", "Ulimits")} == host_config(INFINIBAND)
    assert not {"Devices", "Ulimits", "Privileged"} & set(docker.join_config(POD, request(()), (2,))["HostConfig"])


def test_apptainer_does_not_bind_devices_for_what_it_binds_cannot_be_opened_as_one() -> None:
    assert COMMANDS["apptainer"](request(INFINIBAND)) == COMMANDS["apptainer"](request(()))
