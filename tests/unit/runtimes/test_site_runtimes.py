"""What tare starts with runtimes of sites, and how runtimes give GPUs, is in golden files: none of it can run here."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from golden_texts import check_commands
from nodes import change_request, make_node, make_pod, make_request, value
from tare.errors import InfrastructureError, RefusedError
from tare.model import Environment, Placement
from tare.networks.wiring.plug import Wiring
from tare.runtimes import RUNTIMES, apptainer, docker, enroot, podman, podman_hpc, podman_rootless, sarus, shifter
from tare.runtimes.containers import site_runtime, user_podman
from tare.runtimes.containers.request import PodRequest
from tare.runtimes.containers.site_runtime import SiteRuntime
from tare.study.plan.composition import refuse
from tare.system.process import Result

GOLDEN = Path(__file__).parents[2] / "golden" / "site-runtimes"
"""`TARE_UPDATE_GOLDEN=1 pytest tests/unit/runtimes/test_site_runtimes.py` rewrites the golden files."""
DIGEST = "0123456789abcdef0123456789abcdef"
NODE = make_node(pid=0, cores=(0, 1))
REQUEST = change_request(
    make_request(NODE, wiring=Wiring.NODE, rootfs=Path("/cache/rootfs"), image_tag="tare:0123456789abcdef"),
    shown=("/opt/kernels",), cwd="/home/me/work", binds=("/data:/in:ro", "/scratch:/out"), variables=("A=b c",),
    session="/run/user/1000/tare/session-0", state="/run/user/1000/tare/s1/p0-0",
)  # fmt: skip
PACKED = {
    "squashfs": f"/cache/squashfs/{DIGEST}/image.squashfs",
    "docker-archive": f"/cache/docker-archive/{DIGEST}/image.tar",
}
SITES = {name: runtime for name, runtime in RUNTIMES.items() if isinstance(runtime, SiteRuntime)}
GPUS = ("nvidia", "rocm", "cdi:nvidia.com/gpu=0")
Commands = Callable[[PodRequest], Sequence[tuple[str, ...]]]


def config(request: PodRequest) -> tuple[str, ...]:
    host = docker.join_config(make_pod(NODE, container="p"), request, (0,))["HostConfig"]
    return (json.dumps({key: host[key] for key in ("Devices", "DeviceRequests") if key in host}, sort_keys=True),)


GIVES: Mapping[str, Commands] = {
    "docker": lambda asked: [docker.run_options(asked), config(asked)],
    "apptainer": lambda asked: [apptainer.exec_options(asked, Path("/image"), ("--no-privs",))],
    "podman": lambda asked: [podman.run_options(asked, network="host")],
    "podman-rootless": lambda asked: [podman_rootless.run_options(asked), user_podman.run_options(asked)],
    "podman-hpc": lambda asked: [podman_hpc.run_options(asked)],
    **{name: lambda asked, runtime=runtime: [runtime.command(asked)] for name, runtime in SITES.items()},
}


def check(name: str, commands: Sequence[tuple[str, ...]]) -> None:
    check_commands(GOLDEN / f"{name}.txt", commands)


def asked_of(runtime: SiteRuntime) -> PodRequest:
    return change_request(REQUEST, packed=Path(PACKED[runtime.starts_from]))


@pytest.fixture(autouse=True)
def user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(user_podman, "UNIFIED", tmp_path)
    monkeypatch.setattr(podman_hpc, "user_name", lambda: "me")
    monkeypatch.setattr(podman_hpc, "find", lambda name: f"/opt/{name}")


@pytest.mark.parametrize("name", SITES)
def test_the_commands_of_a_site_s_runtime_equal_their_golden_file(name: str) -> None:
    asked = asked_of(SITES[name])
    check(name, [SITES[name].command(asked), SITES[name].command(asked, alone=True)])


def test_podman_hpc_is_for_users_with_fuse_and_is_golden(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder, store = Path(REQUEST.state), Path("/cache/stores/0123")
    check("podman-hpc", [
        podman_hpc.client(folder, store, *podman_hpc.run_options(REQUEST)),
        podman_hpc.client(folder, store, "exec", REQUEST.name),
    ])  # fmt: skip
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "for ordinary users" in str(RUNTIMES["podman-hpc"].probe_machine())
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(podman_hpc, "FUSE", tmp_path / "fuse")
    assert "which this user cannot open" in str(RUNTIMES["podman-hpc"].probe_machine())


@pytest.mark.parametrize("name", GIVES)
def test_how_a_runtime_gives_gpus_equals_its_golden_file(name: str) -> None:
    given = tuple(gpu for gpu in GPUS if RUNTIMES[name].refuse_gpu(gpu, "image") is None)
    asked = change_request(REQUEST, shown=(), cwd="", binds=(), variables=(), gpus=given)
    without = [set(command) for command in GIVES[name](change_request(asked, gpus=()))]
    more = [
        tuple(word for word in command if word not in before or word in ("--device", "--env"))
        for command, before in zip(GIVES[name](asked), without, strict=True)
    ]
    check(f"gpus-{name}", [given, *more])


@pytest.mark.parametrize(
    "name", [name for name, each in RUNTIMES.items() if each.sizes_shared_memory and not each.by_cluster]
)
def test_shared_memory_is_as_large_as_asked_for_or_as_its_node_s(name: str) -> None:
    for size, wanted in ((0, "1g"), (64 << 20, "67108864")):
        commands = GIVES[name](change_request(REQUEST, shm_size=size))
        assert {value(command, "--shm-size") for command in commands if "--shm-size" in command} == {wanted}


@pytest.mark.parametrize(
    ("runtime", "image", "gpu", "reason"),
    [
        ("apptainer", "i", "cdi:nvidia.com/gpu=0", "no CDI devices"), ("charliecloud", "i", "nvidia", "ch-fromhost"),
        ("bare", "i", "nvidia", "no libraries of the GPU's driver"),
        ("bare", "", "cdi:nvidia.com/gpu=0", "have all of its GPUs"), ("shifter", "i", "rocm", "only NVIDIA's"),
        ("sarus", "i", "cdi:nvidia.com/gpu=0", "by hooks"), ("enroot", "i", "cdi:nvidia.com/gpu=0", "no CDI devices"),
    ],
)  # fmt: skip
def test_a_runtime_that_has_no_way_to_give_a_gpu_refuses_it(runtime: str, image: str, gpu: str, reason: str) -> None:
    wanted = Environment(name="e", runtime=runtime, network="host", image=image, devices=(gpu,))
    assert reason in str(refuse(wanted, Placement()))
    assert refuse(replace(wanted, devices=()), Placement()) is None


def test_programs_on_the_node_itself_have_its_gpus() -> None:
    wanted = Environment(name="e", runtime="bare", network="host", devices=("nvidia", "rocm"))
    assert refuse(wanted, Placement()) is None


@pytest.mark.parametrize("name", SITES)
def test_a_site_s_runtime_that_is_missing_was_never_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_runtime, "find", lambda program: None)
    for reason in (SITES[name].probe(), SITES[name].probe_machine()):
        assert "is not installed" in str(reason)
        assert "has never been run with it" in str(reason)
    monkeypatch.setattr(site_runtime, "find", lambda program: f"/usr/bin/{program}")
    assert SITES[name].probe_machine() is None


@pytest.mark.parametrize("name", SITES)
def test_a_site_s_runtime_has_its_node_s_network(name: str) -> None:
    wanted = Environment(name="e", runtime=name, network="bridge", image="debian-openmpi")
    assert "have their node's network and no other" in str(refuse(wanted, Placement()))
    assert refuse(replace(wanted, network="host"), Placement()) is None


def answering(calls: list[tuple[str, ...]], stdout: str = "", status: int = 0) -> Callable[..., Result]:
    def run(argv: tuple[str, ...], **_: object) -> Result:
        calls.append(argv)
        return Result(argv=argv, status=status, stdout=stdout, stderr="", elapsed_s=0.0)

    return run


def test_sarus_loads_an_image_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, ...]] = []
    packed = Path(PACKED["docker-archive"])
    monkeypatch.setattr(sarus, "run", answering(calls))
    assert RUNTIMES["sarus"].stored(packed, lambda _: None) == packed
    assert calls[-1] == ("sarus", "load", str(packed), "tare:0123456789abcdef")
    calls.clear()
    listed = "REPOSITORY          TAG\nload/library/tare   0123456789abcdef   x   y   load\n"
    monkeypatch.setattr(sarus, "run", answering(calls, stdout=listed))
    RUNTIMES["sarus"].stored(packed, lambda _: None)
    assert [call[1] for call in calls] == ["images"]


def test_enroot_and_shifter_make_an_image_ready_or_say_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, ...]] = []
    monkeypatch.setattr(enroot, "run", answering(calls))
    runtime = SITES["enroot"]
    with runtime.ready(asked_of(runtime)):
        assert calls[-1][-4:] == ("create", "--name", REQUEST.name, PACKED["squashfs"])
    assert calls[-1][-3:] == ("remove", "--force", REQUEST.name)
    with pytest.raises(RefusedError, match="needs an image"), runtime.ready(REQUEST):
        pass
    runtime = SITES["shifter"]
    monkeypatch.setattr(shifter, "run", answering([], status=1))
    with pytest.raises(RefusedError, match="no image custom:tare:0123456789abcdef"), runtime.ready(asked_of(runtime)):
        pass
    monkeypatch.setattr(shifter, "run", answering([]))
    with runtime.ready(asked_of(runtime)):
        pass


def test_a_failed_migration_is_said_and_an_empty_store_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "overlay-images").mkdir()
    (tmp_path / "overlay-images" / "images.json").write_text('[{"id": "abc"}]')
    assert podman_hpc.image_of(tmp_path) == ""
    (tmp_path / "overlay" / "l").mkdir(parents=True)
    (tmp_path / "overlay" / "l" / "XY.squash").touch()
    assert podman_hpc.image_of(tmp_path) == "abc"

    def call(folder: Path, store: Path, *arguments: str, **_: object) -> Result:
        if arguments[0] == "load":
            (folder / "storage" / "overlay-images").mkdir(parents=True)
            (folder / "storage" / "overlay-images" / "images.json").write_text('[{"id": "abc"}]')
        return Result(argv=arguments, status=0, stdout="", stderr="Squash Failed\nno lz4\n", elapsed_s=0.0)

    monkeypatch.setattr(podman_hpc, "_call", call)
    with pytest.raises(InfrastructureError, match="could not migrate the image: no lz4"):
        podman_hpc.migrate(tmp_path / "image.tar", tmp_path / "new")
