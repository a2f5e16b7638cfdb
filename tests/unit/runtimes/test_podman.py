"""The command lines of Podman for root and for users, and their probes; nothing is started."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from nodes import make_node, make_pod, make_request, value
from tare.model import Environment, Placement, Share
from tare.networks.wiring.plug import Wiring
from tare.runtimes import PodRequest, podman
from tare.runtimes import podman_rootless as rootless
from tare.runtimes.containers import user_podman
from tare.runtimes.podman import STATE, Podman
from tare.runtimes.podman_rootless import FOLDER_OWNERS, IMAGE_OWNERS, PLACE, RANGE, RANGE_SIZE, USER, PodmanRootless
from tare.study.plan.composition import refuse

NODE = make_node(cores=(2, 3))
POD = make_pod(NODE, runtime="podman", container="tare-s-n0")
FORBIDDEN = ("--privileged", "--cap-add", "--security-opt", "--device", "--pid=host", "--userns", "--cgroups")


def request(**more: object) -> PodRequest:
    return make_request(NODE, **more)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(podman, "need", lambda program, package: f"/usr/bin/{program}")
    monkeypatch.setattr(podman, "find", lambda program: f"/usr/bin/{program}")
    monkeypatch.setattr(podman, "is_real_root", lambda: True)


@pytest.mark.parametrize("shown", [(), ("/home/u", "/opt/x")])
def test_a_pod_s_container_has_what_docker_s_has_and_is_not_privileged(shown: tuple[str, ...]) -> None:
    options = podman.run_options(request(shown=shown), network="ns:/proc/7/ns/net")
    assert not any(option.startswith(FORBIDDEN) for option in options)
    assert (options[:3], value(options, "--network")) == (("run", "--detach", "--init"), "ns:/proc/7/ns/net")
    assert (value(options, "--cpuset-cpus"), value(options, "--hostname")) == ("2,3", "n0")
    assert value(options, "--label") == "tare.study=s"
    assert (value(options, "--ipc"), value(options, "--shm-size")) == ("shareable", "1g")
    assert options[-4:] == ("--rootfs", "/image/rootfs:O", "sleep", "infinity")
    assert [o for o in options if o.startswith("--volume")] == [f"--volume={p}:{p}:ro" for p in shown]


def test_a_pod_has_its_own_name_and_cores_and_what_joins_it_shares_all_but_these() -> None:
    options = podman.run_options(request(host="n0c1", cores=(3,)), network="host")
    assert (value(options, "--hostname"), value(options, "--cpuset-cpus")) == ("n0c1", "3")
    options = podman.join_options(POD, request(shown=("/home/u",)), "tare-s-n0-1", (3,))
    assert not any(option.startswith(FORBIDDEN) for option in options)
    assert {value(options, name) for name in ("--network", "--ipc", "--pid")} == {"container:tare-s-n0"}
    assert (value(options, "--name"), value(options, "--hostname")) == ("tare-s-n0-1", "n0")
    assert value(options, "--cpuset-cpus") == "3"
    assert "--volume=/home/u:/home/u:ro" in options
    assert "--volume=/run/tare/s-1:/run/tare/s-1" in options


@pytest.mark.usefixtures("installed")
def test_all_that_podman_keeps_is_in_one_folder_of_the_node() -> None:
    argv = podman.client("exec", "tare-s-n0")
    assert (argv[0], argv[-2:]) == ("/usr/bin/podman", ("exec", "tare-s-n0"))
    for name in ("--root", "--runroot", "--tmpdir"):
        assert value(argv, name).startswith(f"{STATE}/")
    assert (value(argv, "--runtime"), value(argv, "--cgroup-manager")) == ("crun", "cgroupfs")


@pytest.mark.parametrize("missing", ["podman", "crun", "catatonit"])
@pytest.mark.usefixtures("installed")
def test_the_probe_names_the_missing_package(missing: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert Podman().probe() is None
    monkeypatch.setattr(podman, "find", lambda program: None if program == missing else f"/usr/bin/{program}")
    monkeypatch.setattr(podman, "INIT", tmp_path / "nowhere")
    assert str(Podman().probe()).endswith(f"apt-get install {missing}")


def test_an_ordinary_user_is_told_that_root_is_needed_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "need root" in str(Podman().probe())
    monkeypatch.setattr(rootless, "is_real_root", lambda: False)
    assert "run as root" in str(PodmanRootless().probe())


def test_a_process_of_a_node_is_named_as_the_node_numbers_it(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"NSpid": "\t4711\t17", "CapBnd": "\t000001fffeffffff"}
    monkeypatch.setattr(podman, "_status", lambda pid, key: told[key])
    assert podman._network(request(), 4711) == "ns:/proc/17/ns/net"
    assert podman._network(request(wiring=Wiring.NODE), 4711) == "host"
    assert podman._is_limited(4711), "without CAP_SYS_RESOURCE"
    told["CapBnd"] = "\t000001ffffffffff"
    assert not podman._is_limited(4711)


REQUEST = make_request(NODE, binds=("/data:/in:ro",), variables=("GIVEN=it is", "OTHER=1"))
OPTIONS = {
    "podman, the pod": podman.run_options(REQUEST, network="none"),
    "podman, one of several": podman.join_options(POD, REQUEST, "c1", (2,)),
    "podman-rootless, the pod": rootless.run_options(REQUEST),
    "podman-rootless, one of several": rootless.join_options(POD, REQUEST, "c1"),
}


@pytest.mark.parametrize("container", OPTIONS)
def test_binds_and_variables_reach_the_container(container: str) -> None:
    options = OPTIONS[container]
    assert "--volume=/data:/in:ro" in options
    assert ("--env=GIVEN=it is" in options, "--env=OTHER=1" in options) == (True, True)


@pytest.fixture
def ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rootless, "need", lambda program, package: f"/usr/bin/{program}")
    monkeypatch.setattr(user_podman, "find", lambda program: f"/usr/bin/{program}")
    monkeypatch.setattr(rootless, "is_real_root", lambda: True)
    monkeypatch.setattr(podman, "INIT", Path("/"))


def test_a_container_keeps_its_user_and_what_joins_it_is_the_same() -> None:
    options = rootless.run_options(request())
    assert (value(options, "--userns"), value(options, "--network")) == ("keep-id", "none")
    assert value(rootless.run_options(request(wiring=Wiring.NODE)), "--network") == "host"
    assert (value(options, "--hostname"), value(options, "--shm-size")) == ("n0", "1g")
    assert options[-4:] == ("--rootfs", f"{PLACE}/image:O", "sleep", "infinity")
    assert "--cpuset-cpus" not in options, "an ordinary user has no cpuset under cgroup v1"
    options = rootless.join_options(POD, request(), "tare-s-n0-1")
    assert {value(options, name) for name in ("--userns", "--network", "--ipc", "--pid")} == {"container:tare-s-n0"}
    assert value(options, "--user") == f"{USER}:{USER}"
    assert "--volume=/run/tare/s-1:/run/tare/s-1" in options
    # the node's own network is not the user's to hand on
    assert value(rootless.join_options(POD, request(wiring=Wiring.NODE), "x"), "--network") == "host"


def test_folders_are_shown_where_they_are_also_below_root_s_home() -> None:
    asked = request(shown=("/home/u", "/opt/x"), cwd="/home/u")
    assert rootless.folders(asked) == {
        f"{PLACE}/shown/0": ("ro", "/opt/x"),
        f"{PLACE}/shown/cwd": ("rw", "/home/u"),
    }
    volumes = [option for option in rootless.run_options(asked) if option.startswith("--volume")]
    assert volumes == [f"--volume={PLACE}/shown/0:/opt/x:ro", f"--volume={PLACE}/shown/cwd:/home/u"]
    assert rootless.folders(request()) == {}
    assert "--tmpfs=/root:mode=755" in rootless.run_options(request(shown=("/root/app",)))
    assert "--tmpfs=/root:mode=755" in rootless.run_options(request(cwd="/root"))
    assert not any("tmpfs" in option for option in rootless.run_options(request(shown=("/rooted/app",), cwd="/home/u")))


def ranges(owners: str) -> list[tuple[int, int, int]]:
    return [tuple(map(int, part.split())) for part in owners.split(",")]


def test_the_image_s_owners_are_numbered_as_podman_numbers_those_of_the_container() -> None:
    inside, outside = set(), set()
    for first, other, count in ranges(IMAGE_OWNERS):
        assert not inside & set(range(first, first + count))
        assert not outside & set(range(other, other + count))
        inside |= set(range(first, first + count))
        outside |= set(range(other, other + count))
    assert (inside, outside) == (set(range(RANGE_SIZE + 1)), {USER} | set(range(RANGE, RANGE + RANGE_SIZE)))
    assert ranges(FOLDER_OWNERS) == [(0, USER, 1)]
    assert RANGE + RANGE_SIZE < 2**32


@pytest.mark.usefixtures("ready")
def test_an_old_kernel_is_told_and_podman_is_run_as_the_user_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rootless.as_user()[:6] == ("setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups")
    argv = rootless.client("exec", "tare-s-n0")
    for name in ("--root", "--runroot", "--tmpdir"):
        assert value(argv, name).startswith(f"{PLACE}/")
    assert (value(argv, "--runtime"), value(argv, "--cgroup-manager")) == ("crun", "cgroupfs")
    monkeypatch.setattr(rootless, "kernel", lambda release: (5, 10))
    monkeypatch.setattr(Path, "exists", lambda path: True)
    assert "older than 5.19" in str(PodmanRootless().probe())


@pytest.mark.parametrize(
    ("missing", "package"),
    [("podman", "podman"), ("crun", "crun"), ("newuidmap", "uidmap"), ("catatonit", "catatonit")],
)
@pytest.mark.usefixtures("ready")
def test_the_probe_names_packages(missing: str, package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(podman, "INIT", tmp_path / "nowhere")
    for module in (podman, user_podman):
        monkeypatch.setattr(module, "find", lambda program: None if program == missing else f"/usr/bin/{program}")
    assert str(PodmanRootless().probe()).endswith(f"apt-get install {package}")


@pytest.mark.parametrize(
    ("release", "numbers"), [("6.1.0-13-amd64", (6, 1)), ("5.19.17", (5, 19)), ("6.18.44-fc-v595\n", (6, 18))]
)
def test_a_kernel_s_numbers_are_read(release: str, numbers: tuple[int, int]) -> None:
    assert rootless.kernel(release) == numbers


@pytest.mark.parametrize(
    ("containers", "share", "refused"), [(1, Share.POD, False), (2, Share.POD, True), (2, Share.NONE, False)]
)
def test_containers_of_one_pod_cannot_have_limits_of_their_own(containers: int, share: Share, refused: bool) -> None:
    environment = Environment(name="e", runtime="podman-rootless", network="bridge", image="i")
    placement = Placement(ranks_per_node=2, containers_per_node=containers, share=share)
    assert refuse(environment, placement) is None
    reason = refuse(environment, replace(placement, memory_per_container=1 << 30))
    assert (reason is not None and "use share: none" in reason) == refused
