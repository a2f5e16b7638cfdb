"""What depends on the system: packages, SELinux's labels, the kernel's modules and its echo requests."""

from __future__ import annotations

import ast
import os
import platform
import re
import struct
import sys
import time
from pathlib import Path

import pytest

from nodes import make_node, make_request
from source_tree import trees
from tare.networks.wiring import ping as pings
from tare.networks.wiring.ping import checksum, is_reply, ping
from tare.runtimes import docker
from tare.runtimes.containers.client_options import shown
from tare.system import binds, kernel_modules, packages
from tare.system.binds import has_selinux, labelled, needs_label
from tare.system.packages import COMMANDS, install, install_python, name_of, package_manager

SOURCES = Path(packages.__file__).parents[1]
OTHERWISE = "with your package manager, or `module load` it"


def os_release(tmp_path: Path, text: str) -> Path:
    (tmp_path / "os-release").write_text(text)
    return tmp_path / "os-release"


@pytest.mark.parametrize(
    ("text", "manager"),
    [
        ("ID=debian\nVERSION_ID='12'\n", "apt"), ("ID=linuxmint\nID_LIKE='ubuntu debian'\n", "apt"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "dnf"), ("ID=fedora\n", "dnf"),
        ('ID="opensuse-leap"\nID_LIKE="suse opensuse"\n', "zypper"), ('# ID=debian\nID="sles"\n', "zypper"),
        ("ID=nixos\n", ""), ("ID='unbalanced\nID_LIKE=fedora\n", "dnf"), ("\0\nnonsense", ""), ("", ""),
    ],
)  # fmt: skip
def test_the_package_manager_follows_from_os_release(text: str, manager: str, tmp_path: Path) -> None:
    assert package_manager(os_release(tmp_path, text)) == manager


@pytest.mark.parametrize(
    ("system", "sentence"),
    [
        ("debian", "apt-get install openmpi-bin libopenmpi-dev"),
        ("fedora", "dnf install openmpi openmpi-devel"),
        ("sles", "zypper install openmpi4 openmpi4-devel"),
        ("gentoo", "install Open MPI and Open MPI with its compiler with your package manager, or `module load` it"),
    ],
)
def test_a_remedy_is_in_the_words_of_the_system(system: str, sentence: str, tmp_path: Path) -> None:
    release = os_release(tmp_path, f"ID={system}\n")
    assert install("openmpi-bin", "libopenmpi-dev", os_release=release) == sentence


def test_without_a_package_or_an_os_release_there_is_no_command(tmp_path: Path) -> None:
    release = os_release(tmp_path, "ID=fedora\n")
    assert install("hpcc", os_release=release) == f"install hpcc {OTHERWISE}"
    assert install("podman", "hpcc", os_release=release) == f"install Podman and hpcc {OTHERWISE}"
    assert install("podman", os_release=tmp_path / "none") == f"install Podman {OTHERWISE}"


def test_every_package_of_the_sources_is_known_to_all_package_managers_or_said_to_be_missing() -> None:
    text = "\n".join(path.read_text() for path in SOURCES.rglob("*.py"))
    named = set(re.findall(r'package="([^"]+)"', text))
    for arguments in re.findall(r"\binstall\(((?:\"[^\"]+\",? ?)+)\)", text):
        named |= set(re.findall(r'"([^"]+)"', arguments))
    assert {"podman", "openmpi-bin", "util-linux"} <= named
    assert named <= set(packages._NAMES)
    assert {name for name in packages._NAMES if not all(name_of(name, it) for it in COMMANDS)} == {
        "hpcc", "mmdebstrap", "charliecloud-runtime", "gromacs", "lammps",
    }  # fmt: skip


NODE = make_node()


@pytest.mark.parametrize(
    ("bind", "expected"),
    [
        ("/home/u/data:/data", "/home/u/data:/data:z"),
        ("/home/u/data:/data:ro", "/home/u/data:/data:ro,z"),
        ("/home/u/data:/data:rw", "/home/u/data:/data:rw,z"),
        ("/home/u/data:/data:ro,z", "/home/u/data:/data:ro,z"),
        ("/tmp/session:/tmp/session", "/tmp/session:/tmp/session:z"),
        ("/usr/lib64/openmpi:/usr/lib64/openmpi:ro", "/usr/lib64/openmpi:/usr/lib64/openmpi:ro"),
        ("/home/../etc:/x", "/home/../etc:/x"),
    ],
)
def test_a_users_folder_gets_the_shared_label_and_the_systems_keeps_its_own(bind: str, expected: str) -> None:
    assert (labelled(bind, enabled=True), labelled(bind, enabled=False)) == (expected, bind)


@pytest.mark.parametrize("source", ["/", "/home", "/tmp", "/tmp/", "//", "/var/lib/x", "relative", ""])
def test_a_top_folder_or_one_of_the_system_is_never_relabelled(source: str) -> None:
    assert not needs_label(source)


def test_selinux_is_seen_and_labels_reach_docker_and_podman(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not has_selinux(tmp_path)
    (tmp_path / "enforce").write_text("0")
    assert has_selinux(tmp_path)
    request = make_request(NODE, shown=("/home/u/kernels",), cwd="/home/u/work", binds=("/usr/share/x:/x:ro",))
    plain = ("/home/u/kernels:/home/u/kernels:ro", "/home/u/work:/home/u/work", "/usr/share/x:/x:ro")
    monkeypatch.setattr(binds, "has_selinux", lambda: False)
    assert docker.bind_config(request)["Binds"][:3] == [*plain]
    monkeypatch.setattr(binds, "has_selinux", lambda: True)
    assert docker.bind_config(request)["Binds"][:3] == [f"{plain[0]},z", f"{plain[1]}:z", plain[2]]
    assert f"--volume={plain[0]},z" in shown(request, relabels=True)


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    folder = tmp_path / platform.release()
    folder.mkdir()
    (folder / "modules.builtin").write_text("kernel/net/bridge/bridge.ko\n")
    (folder / "modules.dep").write_text(
        "kernel/drivers/net/ipvlan/ipvlan.ko.xz: kernel/x.ko\n"
        "kernel/net/ip-tables/nf-x.ko:\nkernel/net/last.ko: kernel/dep.ko\n"
    )
    return tmp_path


def test_kinds_of_links_depend_on_modules(modules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loaded" / "veth").mkdir(parents=True)
    names = ("veth", "bridge", "ipvlan", "nf_x", "dep", "v")
    found = [kernel_modules.has_module(name, loaded=tmp_path / "loaded", modules=modules) for name in names]
    assert found == [True] * 4 + [False] * 2
    assert not kernel_modules.has_module("bridge", loaded=tmp_path / "loaded", modules=tmp_path / "none")
    monkeypatch.setattr(kernel_modules, "_tried", lambda kind: kind == "veth")
    assert kernel_modules.probe_link("veth") is None
    told = str(kernel_modules.probe_link("ipvlan"))
    assert platform.release() in told
    assert "ipvlan" in told
    monkeypatch.setattr(kernel_modules, "_tried", lambda kind: None)
    monkeypatch.setattr(kernel_modules, "has_module", lambda name: name == "macvlan")
    assert kernel_modules.probe_link("macvlan") is None
    assert kernel_modules.probe_link("ipvlan") is not None


@pytest.mark.root
@pytest.mark.requires("root")
def test_trying_makes_links_in_a_namespace_that_is_not_ours() -> None:
    before = os.readlink("/proc/thread-self/ns/net")
    assert (kernel_modules._tried("macvlan"), kernel_modules._tried("nosuchkind")) == (True, False)
    assert os.readlink("/proc/thread-self/ns/net") == before


def test_a_request_has_a_right_checksum_and_only_its_answer_is_taken() -> None:
    packet = pings.make_request(7, 3, b"tare" * 400, 1500)
    assert len(packet) == 1500 - 20, "the rest is the header of IP"
    assert (packet[0], checksum(packet), checksum(b"\x01")) == (8, 0, 0xFEFF)
    header = b"\x45" + bytes(19)
    answer, asked = (header + struct.pack("!BBHHH", kind, 0, 0, 7, 3) for kind in (0, 8))
    assert is_reply(answer, 7, 3)
    others = ((answer, 7, 4), (answer, 8, 3), (asked, 7, 3), (header, 7, 3), (b"", 7, 3))
    assert not any(is_reply(*each) for each in others)


@pytest.mark.root
@pytest.mark.requires("root")
def test_the_loopback_answers_at_once_and_an_address_without_a_route_never() -> None:
    began_s = time.monotonic()
    trips = ping(os.getpid(), "127.0.0.1", count=3, timeout_s=600)
    assert len(trips) == 3
    assert all(trip > 0 for trip in trips)
    assert sum(trips) <= time.monotonic() - began_s
    assert ping(os.getpid(), "127.0.0.1", count=1, packet_bytes=65535, timeout_s=600)
    assert ping(os.getpid(), "240.0.0.1", count=1, timeout_s=0.1) == ()


def test_python_packages_come_from_an_index_that_has_them_and_tare_from_its_wheel() -> None:
    assert install_python("hpccm") == f"{sys.executable} -m pip install hpccm"
    top = Path(__file__).parents[3]
    texts = [top / "README.md", *(top / "docs").rglob("*.md"), *(top / "src/tare").rglob("*.py")]
    asked = re.compile(r"pip install[^\n`]*\btare-hpc\b|tare-hpc\[")
    assert [str(path) for path in texts if asked.search(path.read_text())] == []


def test_a_script_of_a_clone_is_told_to_be_in_one_where_tare_was_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert packages.script("tools/networks etcd") == "tools/networks etcd"
    monkeypatch.setattr(packages, "CLONE", tmp_path)
    assert packages.script("tools/networks etcd") == "tools/networks etcd (in a clone of tare)"


def test_no_message_names_a_script_of_a_clone_otherwise() -> None:
    wrong = []
    for module, tree in trees():
        stated = {id(own) for node in ast.walk(tree) if isinstance(node, ast.Call) for own in node.args[:1]
                  if getattr(node.func, "id", "") == "script"}  # fmt: skip
        prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        wrong += [
            f"{module}: {node.value}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
            if re.search(r"\btools/[a-z]", node.value) and not {id(node)} & (stated | prose)
        ]
    assert wrong == []
