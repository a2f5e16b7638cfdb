"""Podman's command lines and probe; nothing is started."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodes import make_node, make_pod, make_request, value
from tare.runtimes import PodRequest, podman
from tare.runtimes.podman import STATE, Podman, client, join_options, run_options
from tare.wiring.plug import Wiring

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
    options = run_options(request(shown=shown), network="ns:/proc/7/ns/net")
    assert not any(option.startswith(FORBIDDEN) for option in options)
    assert options[:3] == ("run", "--detach", "--init")
    assert value(options, "--network") == "ns:/proc/7/ns/net"
    assert value(options, "--cpuset-cpus") == "2,3"
    assert value(options, "--hostname") == "n0"
    assert value(options, "--label") == "tare.study=s"
    assert (value(options, "--ipc"), value(options, "--shm-size")) == ("shareable", "1g")
    assert options[-4:] == ("--rootfs", "/image/rootfs:O", "sleep", "infinity")
    assert [o for o in options if o.startswith("--volume")] == [f"--volume={p}:{p}:ro" for p in shown]


def test_a_pod_has_its_own_name_and_cores_and_what_joins_it_shares_all_but_these() -> None:
    options = run_options(request(host="n0c1", cores=(3,)), network="host")
    assert (value(options, "--hostname"), value(options, "--cpuset-cpus")) == ("n0c1", "3")
    options = join_options(POD, request(shown=("/home/u",)), "tare-s-n0-1", (3,))
    assert not any(option.startswith(FORBIDDEN) for option in options)
    assert {value(options, name) for name in ("--network", "--ipc", "--pid")} == {"container:tare-s-n0"}
    assert (value(options, "--name"), value(options, "--hostname")) == ("tare-s-n0-1", "n0")
    assert value(options, "--cpuset-cpus") == "3"
    assert "--volume=/home/u:/home/u:ro" in options
    assert "--volume=/run/tare/s-1:/run/tare/s-1" in options


@pytest.mark.usefixtures("installed")
def test_all_that_podman_keeps_is_in_one_folder_of_the_node() -> None:
    argv = client("exec", "tare-s-n0")
    assert argv[0] == "/usr/bin/podman"
    assert argv[-2:] == ("exec", "tare-s-n0")
    for name in ("--root", "--runroot", "--tmpdir"):
        assert value(argv, name).startswith(f"{STATE}/")
    assert (value(argv, "--runtime"), value(argv, "--cgroup-manager")) == ("crun", "cgroupfs")


@pytest.mark.parametrize("missing", ["podman", "crun", "catatonit"])
@pytest.mark.usefixtures("installed")
def test_the_probe_names_what_is_missing_and_its_package(
    missing: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert Podman().probe() is None
    monkeypatch.setattr(podman, "find", lambda program: None if program == missing else f"/usr/bin/{program}")
    monkeypatch.setattr(podman, "INIT", tmp_path / "nowhere")
    assert str(Podman().probe()).endswith(f"apt-get install {missing}")


def test_an_ordinary_user_is_told_that_root_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "need root" in str(Podman().probe())


def test_a_process_of_a_node_is_named_as_the_node_numbers_it(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"NSpid": "\t4711\t17", "CapBnd": "\t000001fffeffffff"}
    monkeypatch.setattr(podman, "_status", lambda pid, key: told[key])
    assert podman._network(request(), 4711) == "ns:/proc/17/ns/net"
    assert podman._network(request(wiring=Wiring.NODE), 4711) == "host"
    assert podman._is_limited(4711), "without CAP_SYS_RESOURCE"
    told["CapBnd"] = "\t000001ffffffffff"
    assert not podman._is_limited(4711)
