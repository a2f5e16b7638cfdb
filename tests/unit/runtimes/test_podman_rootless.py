"""The command lines of rootless Podman, its user and its probe; nothing is started."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nodes import make_node, make_pod, make_request, value
from tare.containers import user_podman
from tare.model import Environment, Placement, Share
from tare.plan.composition import refuse
from tare.runtimes import PodRequest, podman, podman_rootless
from tare.runtimes.podman_rootless import (
    FOLDER_OWNERS,
    IMAGE_OWNERS,
    PLACE,
    RANGE,
    RANGE_SIZE,
    USER,
    PodmanRootless,
    as_user,
    client,
    folders,
    join_options,
    kernel,
    run_options,
)
from tare.wiring.plug import Wiring

NODE = make_node(cores=(2, 3))
POD = make_pod(NODE, runtime="podman", container="tare-s-n0")


def request(**more: object) -> PodRequest:
    return make_request(NODE, **more)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(podman_rootless, "need", lambda program, package: f"/usr/bin/{program}")
    monkeypatch.setattr(user_podman, "find", lambda program: f"/usr/bin/{program}")
    monkeypatch.setattr(podman_rootless, "is_real_root", lambda: True)
    monkeypatch.setattr(podman, "INIT", Path("/"))


def test_a_container_keeps_its_user_and_what_joins_it_is_the_same() -> None:
    options = run_options(request())
    assert value(options, "--userns") == "keep-id"
    assert value(options, "--network") == "none"
    assert value(run_options(request(wiring=Wiring.NODE)), "--network") == "host"
    assert (value(options, "--hostname"), value(options, "--shm-size")) == ("n0", "1g")
    assert options[-4:] == ("--rootfs", f"{PLACE}/image:O", "sleep", "infinity")
    assert "--cpuset-cpus" not in options, "an ordinary user has no cpuset under cgroup v1"
    options = join_options(POD, request(), "tare-s-n0-1")
    assert {value(options, name) for name in ("--userns", "--network", "--ipc", "--pid")} == {"container:tare-s-n0"}
    assert value(options, "--user") == f"{USER}:{USER}"
    assert "--volume=/run/tare/s-1:/run/tare/s-1" in options
    # the node's own network is not the user's to hand on
    assert value(join_options(POD, request(wiring=Wiring.NODE), "x"), "--network") == "host"


def test_folders_are_shown_where_they_are_also_below_root_s_home() -> None:
    asked = request(shown=("/home/u", "/opt/x"), cwd="/home/u")
    assert folders(asked) == {f"{PLACE}/shown/0": ("ro", "/opt/x"), f"{PLACE}/shown/cwd": ("rw", "/home/u")}
    volumes = [option for option in run_options(asked) if option.startswith("--volume")]
    assert volumes == [f"--volume={PLACE}/shown/0:/opt/x:ro", f"--volume={PLACE}/shown/cwd:/home/u"]
    assert folders(request()) == {}
    assert "--tmpfs=/root:mode=755" in run_options(request(shown=("/root/app",)))
    assert "--tmpfs=/root:mode=755" in run_options(request(cwd="/root"))
    assert not any("tmpfs" in option for option in run_options(request(shown=("/rooted/app",), cwd="/home/u")))


def ranges(owners: str) -> list[tuple[int, int, int]]:
    return [tuple(map(int, part.split())) for part in owners.split(",")]


def test_the_image_s_owners_are_numbered_as_podman_numbers_those_of_the_container() -> None:
    inside, outside = set(), set()
    for first, other, count in ranges(IMAGE_OWNERS):
        assert not inside & set(range(first, first + count))
        assert not outside & set(range(other, other + count))
        inside |= set(range(first, first + count))
        outside |= set(range(other, other + count))
    assert inside == set(range(RANGE_SIZE + 1))
    assert outside == {USER} | set(range(RANGE, RANGE + RANGE_SIZE))
    assert ranges(FOLDER_OWNERS) == [(0, USER, 1)]
    assert RANGE + RANGE_SIZE < 2**32


@pytest.mark.usefixtures("installed")
def test_an_old_kernel_is_told_and_podman_is_run_as_the_user_in_the_pod_s_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert as_user()[:6] == ("setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups")
    argv = client("exec", "tare-s-n0")
    for name in ("--root", "--runroot", "--tmpdir"):
        assert value(argv, name).startswith(f"{PLACE}/")
    assert (value(argv, "--runtime"), value(argv, "--cgroup-manager")) == ("crun", "cgroupfs")
    monkeypatch.setattr(podman_rootless, "kernel", lambda release: (5, 10))
    monkeypatch.setattr(Path, "exists", lambda path: True)
    assert "older than 5.19" in str(PodmanRootless().probe())


@pytest.mark.parametrize(
    ("missing", "package"),
    [("podman", "podman"), ("crun", "crun"), ("newuidmap", "uidmap"), ("catatonit", "catatonit")],
)
@pytest.mark.usefixtures("installed")
def test_the_probe_names_what_is_missing_and_its_package(
    missing: str, package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(podman, "INIT", tmp_path / "nowhere")
    for module in (podman, user_podman):
        monkeypatch.setattr(module, "find", lambda program: None if program == missing else f"/usr/bin/{program}")
    assert str(PodmanRootless().probe()).endswith(f"apt-get install {package}")


@pytest.mark.parametrize(
    ("release", "numbers"), [("6.1.0-13-amd64", (6, 1)), ("5.19.17", (5, 19)), ("6.18.44-fc-v595\n", (6, 18))]
)
def test_a_kernel_s_numbers_are_read(release: str, numbers: tuple[int, int]) -> None:
    assert kernel(release) == numbers


@pytest.mark.parametrize(
    ("containers", "share", "refused"), [(1, Share.POD, False), (2, Share.POD, True), (2, Share.NONE, False)]
)
def test_containers_of_one_pod_cannot_have_limits_of_their_own(containers: int, share: Share, refused: bool) -> None:
    environment = Environment(name="e", runtime="podman-rootless", network="bridge", image="i")
    placement = Placement(ranks_per_node=2, containers_per_node=containers, share=share)
    assert refuse(environment, placement) is None
    reason = refuse(environment, replace(placement, memory_per_container=1 << 30))
    assert (reason is not None and "use share: none" in reason) == refused


def test_who_is_not_root_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(podman_rootless, "is_real_root", lambda: False)
    assert "run as root" in str(PodmanRootless().probe())
