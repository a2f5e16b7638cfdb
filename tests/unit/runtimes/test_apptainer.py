"""Apptainer: which program is taken, what it is told, and where a container's process is started."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from golden_texts import check_commands
from nodes import change_request, make_node, make_request
from tare.errors import MissingTool, RefusedError
from tare.networks.wiring.plug import Wiring
from tare.runtimes import RUNTIMES, PodRequest, apptainer, apptainer_sif
from tare.runtimes.apptainer import Apptainer, exec_options
from tare.runtimes.apptainer_instance import ApptainerInstance
from tare.runtimes.apptainer_sif import ApptainerSif
from tare.runtimes.containers.held_namespaces import on_cores
from tare.system.node.cgroups import Group
from unit.scripts import script

NODE = make_node(cores=(2, 3), pid=1000)

ROOT = Path(__file__).parents[3]
ROOTFS = Path("/cache/images/0123/rootfs")


def request(wiring: Wiring = Wiring.NODE, shown: tuple[str, ...] = ()) -> PodRequest:
    return make_request(NODE, wiring=wiring, rootfs=ROOTFS, shown=shown)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Let PATH be one folder, and the place of tools/apptainer another, which is empty."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "rm").symlink_to("/bin/rm")
    monkeypatch.setenv("PATH", str(folder))
    unpacked = str(tmp_path / "opt/bin/apptainer")
    monkeypatch.setattr(apptainer, "PROGRAMS", (apptainer.PROGRAMS[0], unpacked, apptainer.PROGRAMS[2]))
    return folder


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let us be root of the machine, whoever runs the tests."""
    monkeypatch.setattr(apptainer, "is_real_root", lambda: True)


def program(path: Path, says: str, status: int = 0) -> Path:
    return script(path, f"echo '{says}'\nexit {status}")


@pytest.fixture
def nothing_is_held(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a pod have numbers instead of namespaces."""

    @contextmanager
    def held(asked: PodRequest) -> Iterator[int]:
        yield NODE.pid if asked.wiring is Wiring.NODE else 2000

    monkeypatch.setattr(apptainer, "held", held)
    monkeypatch.setattr(apptainer, "enter", lambda pid: ("nsenter", str(pid), "--"))


@pytest.mark.parametrize(
    ("name", "says", "status", "version", "reason"),
    [
        ("apptainer", "apptainer version 1.4.5", 0, "apptainer 1.4.5", None),
        ("apptainer", "apptainer version 1.3.2-1.el9", 0, "apptainer 1.3.2-1.el9", None),
        ("singularity", "singularity version 3.8.7", 0, "singularity 3.8.7", None),
        ("singularity", "singularity-ce version 4.1.0", 0, "singularity-ce 4.1.0", None),
        ("apptainer", "", 127, "", "tools/apptainer"),
        ("singularity", "singularity 1.00", 0, "", "another program"),
    ],
)
def test_either_name_will_do_if_it_starts_and_is_not_the_game(
    name: str, says: str, status: int, version: str, reason: str | None, machine: Path
) -> None:
    path = program(machine / name, says, status)
    found = Apptainer().probe()
    assert (found is None) if reason is None else (reason in str(found) and str(path) in str(found))
    assert Apptainer().version() == version


@pytest.mark.usefixtures("nothing_is_held")
def test_the_unpacked_one_is_found_before_the_older_name_and_after_the_machine_s_own(machine: Path) -> None:
    def used() -> str:
        with Apptainer().pod(request()) as pod:
            return pod.enter[5]

    program(machine / "singularity", "singularity version 3.8.7")
    assert used() == str(machine / "singularity")
    unpacked = program(Path(apptainer.PROGRAMS[1]), "apptainer version 1.4.5")
    assert used() == str(unpacked)
    program(machine / "apptainer", "apptainer version 1.4.0")
    assert used() == str(machine / "apptainer")


def test_a_sif_needs_root_its_packer_and_a_program(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Apptainer().version() == ""
    assert all(words in str(Apptainer().probe()) for words in ("tools/apptainer", "apt-get install apptainer"))
    with pytest.raises(MissingTool, match="tools/apptainer"), Apptainer().pod(request()):
        pass
    assert ApptainerSif().probe() == apptainer.MISSING
    program(machine / "apptainer", "apptainer version 1.4.5")
    with pytest.raises(RefusedError, match="needs a SIF"), ApptainerSif().pod(request()):
        pass
    assert "apt-get install squashfs-tools" in str(ApptainerSif().probe())
    program(machine / "mksquashfs", "")
    monkeypatch.setattr(apptainer_sif, "is_real_root", lambda: False)
    assert "needs root" in str(ApptainerSif().probe())
    monkeypatch.setattr(apptainer_sif, "is_real_root", lambda: True)
    monkeypatch.setattr(apptainer_sif, "LOOP", machine / "none")
    assert "loop" in str(ApptainerSif().probe())


def test_a_container_sees_the_image_and_gets_no_right_but_a_user_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    assert exec_options(request(shown=("/home/u", "/opt/x")), ROOTFS) == (
        "exec", "--no-privs", "--no-mount", "home,cwd,tmp", "--bind=/tmp:/tmp", "--pwd", "/",
        "--bind=/home/u:/home/u:ro", "--bind=/opt/x:/opt/x:ro", "/cache/images/0123/rootfs",
    )  # fmt: skip
    monkeypatch.setattr(apptainer, "is_real_root", lambda: False)
    assert exec_options(request(), ROOTFS)[:3] == ("exec", "--no-privs", "--userns")


@pytest.mark.parametrize("alone", [False, True])
def test_no_container_has_rights_or_a_shared_memory_or_network_of_its_own(alone: bool) -> None:
    options = exec_options(request(), ROOTFS, alone=alone)
    assert "--no-privs" in options
    assert not {
        "--keep-privs", "--add-caps", "--contain", "--containall", "--ipc", "--pid", "--net", "--writable",
    } & set(options)  # fmt: skip


@pytest.mark.usefixtures("nothing_is_held")
def test_containers_of_ranks_and_sifs_are_those_of_a_folder_but_for_cores_and_image(machine: Path) -> None:
    program(machine / "apptainer", "apptainer version 1.4.5")
    with Apptainer().pod(request()) as pod, Apptainer().containers(pod, request(), ((2,), (3, 4))) as (first, second):
        assert first.enter[:3] == ("taskset", "--cpu-list", "2") == on_cores((2,))
        assert second.enter[:3] == ("taskset", "--cpu-list", "3,4")
        assert "--bind=/run/tare/s-1:/run/tare/s-1" in first.enter
        assert first.name != second.name
        assert pod.outside == ("nsenter", "1000", "--")
    program(machine / "apptainer", "apptainer version 1.4.5")
    asked = change_request(request(), packed=Path("/cache/sif/0123/image.sif"))
    with Apptainer().pod(asked) as folder, ApptainerSif().pod(asked) as packed:
        assert (packed.enter[:-1], packed.enter[-1]) == (folder.enter[:-1], "/cache/sif/0123/image.sif")
        assert (folder.runtime, packed.runtime) == ("apptainer", "apptainer-sif")


@pytest.mark.usefixtures("nothing_is_held")
def test_a_container_has_the_rights_of_an_sshd_only_if_there_is_to_be_one_and_we_are_root(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(machine / "apptainer", "apptainer version 1.4.5")
    asked = change_request(request(), sshd="/run/tare/s-1/ssh-0/empty")
    with Apptainer().pod(asked) as with_one, Apptainer().pod(request()) as without:
        assert set(without.enter) <= set(with_one.enter)
        assert set(with_one.enter) - set(without.enter) == {
            "--add-caps=CAP_NET_BIND_SERVICE,CAP_SETGID,CAP_SETUID,CAP_SYS_CHROOT",
            "--bind=/run/tare/s-1/ssh-0/empty:/run/sshd:ro",
        }
    assert Apptainer().probe_sshd() is None
    monkeypatch.setattr(apptainer, "is_real_root", lambda: False)
    assert "needs root: use launch: hybrid" in (Apptainer().probe_sshd() or "")


@pytest.mark.usefixtures("nothing_is_held")
@pytest.mark.parametrize(("wiring", "pid"), [(Wiring.NODE, 1000), (Wiring.OWN, 2000)])
def test_a_pod_is_entered_by_namespaces_and_joins_the_job_group(wiring: Wiring, pid: int, machine: Path) -> None:
    path = program(machine / "apptainer", "apptainer version 1.4.5")
    with Apptainer().pod(request(wiring)) as pod:
        assert pod.enter[:3] == ("nsenter", str(pid), "--")
        assert pod.enter[3:6] == ("env", apptainer.SETTINGS, str(path))
        assert (pod.enter[6:], pod.pid) == (exec_options(request(wiring), ROOTFS), pid)
        assert pod.keepers == ({2000} if wiring is Wiring.OWN else frozenset())
        assert pod.own_network is (wiring is Wiring.OWN)
        assert pod.join_groups
        assert pod.group.path == "lab/n0/job"


def tool(*arguments: str, path: str) -> subprocess.CompletedProcess[str]:
    argv = (str(ROOT / "tools" / "apptainer"), *arguments)
    return subprocess.run(argv, env={"PATH": path}, capture_output=True, text=True, check=False)


def test_the_tool_agrees_with_the_runtime_and_leaves_a_machine_s_own(tmp_path: Path) -> None:
    lines = [line for line in (ROOT / "lock/apptainer.txt").read_text().splitlines() if not line.startswith("#")]
    assert [line.split()[0] for line in lines] == ["apptainer", "libc6"]
    assert all(re.fullmatch(r"[a-z0-9.+-]+ [\w.:+~-]+ [0-9a-f]{64}", line) for line in lines)
    assert "readonly PREFIX=/opt/tare/apptainer " in (ROOT / "tools/apptainer").read_text()
    assert "/opt/tare/apptainer/bin/apptainer" in apptainer.PROGRAMS
    program(tmp_path / "apptainer", "apptainer version 1.3.0")
    done = tool(path=f"{tmp_path}:/usr/bin:/bin")
    assert (done.returncode, done.stderr) == (0, "")
    assert "one of its own: apptainer version 1.3.0" in done.stdout


@pytest.mark.parametrize("arguments", [("remove",), ("renew", "now")])
def test_what_the_tool_does_not_know_is_refused(arguments: tuple[str, ...]) -> None:
    assert tool(*arguments, path="/usr/bin:/bin").returncode == 2


GOLDEN = Path(__file__).parents[2] / "golden" / "apptainer"
"""`TARE_UPDATE_GOLDEN=1 pytest tests/unit/runtimes/test_apptainer.py` rewrites the golden files."""
MACHINE = make_node(pid=0, group=Group(path="", hierarchies=()))
"""An ordinary user's own: Apptainer's usual folders are shown there as they are."""
LEVELS = ("apptainer-sif-setuid", "apptainer-sif-squashfuse", "apptainer-sif-extracted", "apptainer-instance")


@pytest.mark.parametrize("name", LEVELS)
def test_the_command_of_each_level_is_golden(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program(tmp_path / "apptainer", "apptainer version 1.4.5")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(apptainer, "is_real_root", lambda: False)
    runtime = RUNTIMES[name]
    assert isinstance(runtime, Apptainer)
    asked = change_request(
        make_request(MACHINE, wiring=Wiring.NODE, rootfs=Path("/cache/rootfs"), shown=("/opt/x",), variables=("A=b",)),
        packed=Path("/cache/image.sif"),
        state="/run/user/1000/tare/s1-a/p0-0",
    )
    if isinstance(runtime, ApptainerInstance):
        commands = [runtime.start_command(asked), runtime.exec_command(asked)]
    else:
        commands = [runtime.command(asked)]
    words = ([word.replace(str(tmp_path), "/usr/bin") for word in command] for command in commands)
    check_commands(GOLDEN / f"{name}.txt", words)
    assert (runtime.starts_from == "sif") == isinstance(runtime, ApptainerSif)
