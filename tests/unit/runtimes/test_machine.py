"""What runtimes and networks do on a machine itself: what they say is missing, and their command lines."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from nodes import make_request, value
from tare.daemons import docker as daemon
from tare.images import build, find_recipe
from tare.model import Environment, Placement
from tare.networks import NETWORKS, pasta
from tare.networks.wiring import user_mode
from tare.networks.wiring.plug import Wiring
from tare.runtimes import RUNTIMES, apptainer, apptainer_sif_levels, charliecloud, docker
from tare.runtimes.containers import runtime as base
from tare.runtimes.containers import user_podman
from tare.study.plan import composition
from tare.system import user_namespace
from tare.system.node import Nic, Node, Pod
from tare.system.node.cgroups import Group
from tare.system.process import run

NODE = Node(
    name="n0", index=0, cores=(0, 1), control_address="127.0.0.1", pid=0, group=Group(path="", hierarchies=()),
    nics=(Nic(name="lo", address="127.0.0.1", prefix=8),), boot_id="b", head_ports=(20000, 20063),
)  # fmt: skip
REQUEST = make_request(
    NODE, study="s1-0", wiring=Wiring.NODE, rootfs=Path("/image"), shown=("/kernels",), session="",
    state="/run/user/1000/tare/s1-a/p0-0",
)  # fmt: skip
POD = Pod(name="p", node=NODE, runtime="bare", pid=77, enter=(), group=NODE.group)


@pytest.fixture
def ordinary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let us be the user 1000."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "getegid", lambda: 1000)
    monkeypatch.setattr(base, "is_real_root", lambda: False)


def test_a_machine_s_own_daemon_and_user_stay_as_they_are() -> None:
    assert NODE.is_machine
    assert not replace(NODE, pid=1).is_machine
    assert not replace(NODE, group=Group(path="fake/n0", hierarchies=())).is_machine
    assert (docker.container_group(NODE, 1), docker.on_node(NODE, 1)) == (NODE.group, ())
    argv = charliecloud.ch_run("ch-run", place="/p", user=(1000, 1001))
    assert {"--uid=1000", "--gid=1001"} <= set(argv)
    assert "/p/root" in argv
    assert apptainer.settings(REQUEST) == f"APPTAINER_CONFIGDIR={REQUEST.state}/apptainer"
    assert apptainer.settings(replace(REQUEST, state="")) == apptainer.SETTINGS


@pytest.mark.usefixtures("ordinary")
def test_podman_keeps_all_in_the_pod_s_folder_and_ranks_are_the_user_of_the_daemon() -> None:
    argv = user_podman.client(REQUEST, *user_podman.run_options(REQUEST))
    stored = [value(argv, f"--{name}") for name in ("root", "runroot", "tmpdir")]
    assert all(path.startswith(f"{REQUEST.state}/") for path in stored)
    assert f"HOME={REQUEST.state}" in argv
    assert (value(argv, "--userns"), value(argv, "--network")) == ("keep-id", "host")
    assert "--privileged" not in argv
    assert "--volume=/kernels:/kernels:ro" in argv
    assert argv[-4:] == ("--rootfs", "/image:O", "sleep", "infinity")
    pod = replace(POD, container="first")
    argv = user_podman.join_options(pod, replace(REQUEST, session="/s"), "second")
    assert value(argv, "--user") == "1000:1000"
    assert {value(argv, f"--{kind}") for kind in ("userns", "ipc", "pid")} == {"container:first"}


@pytest.mark.parametrize(
    ("text", "count"),
    [("me:100000:65536\n", 65536), ("1000:1:5\nme:9:7\n", 12), ("you:100000:65536\n", 0), ("", 0), ("me:x\n", 0)],
)
def test_subordinate_ids_are_counted_by_name_and_number(text: str, count: int) -> None:
    assert user_namespace.count_ids(text, "me", 1000) == count


def test_who_lacks_ids_cgroups_or_docker_s_group_is_told_so(
    ordinary: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    controllers = tmp_path / "cgroup.controllers"
    assert user_podman.hybrid_cgroups(controllers) is None
    controllers.write_text("hugetlb\n")
    assert "unified_cgroup_hierarchy" in str(user_podman.hybrid_cgroups(controllers))
    monkeypatch.setattr(user_namespace, "text_of", lambda path: "")
    monkeypatch.setattr(user_namespace, "user_name", lambda: "me")
    assert "usermod --add-subuids" in str(user_namespace.lacks_ids())
    monkeypatch.setattr(daemon, "find", lambda program: f"/usr/bin/{program}")
    assert "systemctl start docker" in str(daemon.probe_machine(str(tmp_path / "none")))
    socket = tmp_path / "docker.sock"
    socket.touch()
    assert daemon.probe_machine(str(socket)) is None
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert "root's rights" in str(daemon.probe_machine(str(socket)))


def test_a_daemon_is_the_container_s_first_process_and_setuid_is_root_s_bit(tmp_path: Path) -> None:
    script = ("/bin/sh", "-c", apptainer_sif_levels.STAY, "tare-stay", "/bin/echo", "-c")
    assert run((*script, "orted --daemonize -mca x y")).stdout == "-c orted -mca x y\n"
    assert run((*script, "hydra_pmi_proxy --control-port 1")).stdout == "-c hydra_pmi_proxy --control-port 1\n"
    program = tmp_path / "starter-suid"
    assert not apptainer_sif_levels.is_setuid(program)
    program.touch(mode=0o755)
    assert not apptainer_sif_levels.is_setuid(program)
    if os.geteuid() == 0:
        program.chmod(0o4755)
        assert apptainer_sif_levels.is_setuid(program)


@pytest.mark.parametrize("name", ["apptainer-sif-setuid", "apptainer-sif-extracted"])
def test_root_is_referred_to_the_way_that_it_takes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apptainer_sif_levels.ApptainerSif, "probe_pack", lambda self: None)
    monkeypatch.setattr(apptainer_sif_levels, "is_real_root", lambda: True)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "use apptainer-sif" in str(RUNTIMES[name].probe_machine())


@pytest.mark.usefixtures("ordinary")
@pytest.mark.parametrize(
    ("runtime", "pod", "rights"),
    [
        ("bare", replace(POD, pid=0), "the user's own"),
        ("bare", POD, "user namespace"),
        ("apptainer", replace(POD, pid=0), "user namespace"),
        ("apptainer-sif-setuid", replace(POD, setuid="starter-suid"), "setuid program starter-suid"),
        ("podman-rootless", replace(POD, setuid=user_podman.SETUID), "setuid program newuidmap, newgidmap"),
        ("docker", POD, "daemon (dockerd, as root), by group"),
    ],
)
def test_a_runtime_says_which_rights_it_used(runtime: str, pod: Pod, rights: str) -> None:
    assert RUNTIMES[runtime].rights(pod) == rights


@pytest.mark.parametrize("name", [name for name, network in NETWORKS.items() if not network.is_fake])
def test_a_machine_has_the_host_s_network_or_pasta(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(user_mode, "find", lambda program: f"/usr/bin/{program}")
    monkeypatch.setattr(user_mode, "TUN", tmp_path)
    monkeypatch.setattr(user_mode, "ROUTES", tmp_path / "route")
    (tmp_path / "route").write_text("Iface\tDestination\neth0\t00000000\t010011AC\n")
    reason = NETWORKS[name].probe_machine()
    assert (reason is None) == (name in ("host", "pasta"))
    if name == "pasta":
        (tmp_path / "route").write_text("Iface\tDestination\n")
        assert "default route" in str(NETWORKS[name].probe_machine())


@pytest.mark.usefixtures("ordinary")
def test_pasta_forwards_the_head_s_ports_and_nothing_else() -> None:
    argv = pasta.machine_command("pasta", POD)
    assert value(argv, "--tcp-ns") == "20000-20063"
    assert {value(argv, f"--{kind}") for kind in ("tcp-ports", "udp-ports", "udp-ns")} == {"none"}
    assert (value(argv, "--userns"), value(argv, "--netns")) == ("/proc/77/ns/user", "/proc/77/ns/net")
    assert "--runas" not in argv


def test_every_part_that_asks_for_root_in_a_lab_says_so_in_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_namespace, "is_real_root", lambda: False)
    for module in (
        "tare.networks.flannel", "tare.networks.calico", "tare.networks.wiring.vswitch",
        "tare.networks.wiring.user_mode", "tare.daemons.docker", "tare.runtimes.podman",
        "tare.runtimes.podman_rootless", "tare.runtimes.apptainer_sif",
    ):  # fmt: skip
        monkeypatch.setattr(f"{module}.is_real_root", lambda: False)
    for part in (*RUNTIMES.values(), *NETWORKS.values()):
        if "needs root" in str(part.probe()):
            assert part.needs_root, part.name


def test_who_cannot_build_an_image_is_told_other_ways(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    recipe = find_recipe("debian-openmpi")
    monkeypatch.setattr(build.process, "find", lambda program: None)
    reason = str(build.cannot_build(recipe, tmp_path))
    assert all(words in reason for words in ("mmdebstrap is not installed", "tare bundle", "apptainer build"))
    monkeypatch.setattr(build.process, "find", lambda program: f"/usr/bin/{program}")
    monkeypatch.setattr(build, "_is_root", lambda: True)
    assert build.cannot_build(recipe, tmp_path) is None
    monkeypatch.setattr(build, "_is_root", lambda: False)
    monkeypatch.setattr(build, "lacks_ids", lambda: "too few subordinate IDs")
    assert "too few subordinate IDs" in str(build.cannot_build(recipe, tmp_path))


def test_a_plan_says_what_needs_root_and_root_s_pods_are_root_s(monkeypatch: pytest.MonkeyPatch) -> None:
    def needs_root(runtime: str, network: str = "host", **more: object) -> bool:
        wanted = Environment(name="e", runtime=runtime, network=network)
        return composition.needs_root(wanted, Placement(**more))  # type: ignore[arg-type]

    assert not needs_root("bare")
    assert not needs_root("apptainer", "bridge")
    assert needs_root("docker")
    assert needs_root("bare", "flannel")
    assert needs_root("charliecloud", memory_per_container=2**29)
    monkeypatch.setattr(base, "is_real_root", lambda: True)
    assert RUNTIMES["docker"].rights(POD) == "root"
