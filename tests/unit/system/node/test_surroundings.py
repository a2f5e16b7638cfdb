"""What is around ranks: devices, GPUs, file systems, processes that stay, and what the kernel lets them do."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from counted_calls import count_calls
from tare.system.node import gpus
from tare.system.node.allowed import OF_POD, read_allowed
from tare.system.node.stragglers import MOST, StuckProcess, listing, look, named, since, summary, told
from tare.system.node.surroundings import NodeHas, _tops, mounted_numbers, reach
from tare.system.process import run
from waiting import wait_until

NODE = (*(f"tty{number}" for number in range(64)), "fuse", "net/tun", "infiniband/uverbs0")
CONTAINER = "0123456789abcdef" * 4
HAS = NodeHas(devices=frozenset(NODE), file_systems=frozenset({"254:0", "0:31", "0:32"}))


@pytest.mark.parametrize(
    ("names", "facts"),
    [
        ((), ("", "0", "no")),
        (("infiniband/uverbs0", "infiniband/rdma_cm"), ("infiniband/rdma_cm infiniband/uverbs0", "2", "no")),
        (NODE, ("", "67", "yes")),
        ((*NODE, "console"), ("", "68", "yes")),
        (NODE[:40], ("", "40", "no")),
    ],
)
def test_devices_are_named_if_few_and_counted_otherwise(names: tuple[str, ...], facts: tuple[str, ...]) -> None:
    rights = reach({"devices": " ".join(names)}, HAS)
    assert (rights["devices"], rights["device_count"], rights["has_all_devices"]) == facts
    assert rights["node_device_count"] == "67"


def test_what_cannot_be_read_is_told_as_such() -> None:
    assert reach({"devices": "fuse"}, NodeHas())["has_all_devices"] == "no"
    rights = reach({"mounts": "\n".join(f"rw 0:99 /m{number}" for number in range(9))}, HAS)
    assert (rights["own_mounts"], rights["own_mount_count"]) == ("/m0 /m1 /m2 /m3 /m4 /m5", "9")
    assert reach({"seccomp": "2"}, HAS) == {"seccomp": "2"}
    own = "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n"
    container_s = f"40 36 0:99 / /run/{CONTAINER}/merged rw - overlay overlay rw\n"
    assert mounted_numbers(own + container_s) == frozenset({"98:0"})


@pytest.mark.parametrize(
    ("mounts", "root", "own", "node"),
    [
        ("rw 254:0 /\nrw 0:31 /dev/shm\nrw 0:32 /tmp", "rw", "", "/"),
        ("ro 254:0 /\nrw 0:31 /dev/shm\nrw 0:32 /tmp", "ro", "", "/dev/shm /tmp"),
        (f"rw 254:0 /\nrw 0:99 /run/{CONTAINER}/merged", "rw", "", "/"),
        ("ro 254:0 /\nrw 0:31 /dev/shm\nrw 0:99 /tmp", "ro", "/tmp", "/dev/shm"),
        ("rw 0:99 /\nrw 0:98 /dev\nro 0:97 /proc/acpi\nrw 0:96 /proc/kcore", "rw", "/", ""),
        ("rw 254:0 /\nro 254:0 /", "ro", "", ""),
        ("ro 254:0 /\nro 0:31 /tmp\nrw 0:99 /tmp", "ro", "/tmp", ""),
        ("ro 254:0 /\nrw 0:99 /with\\040blank", "ro", "/with\\040blank", ""),
        ("", "rw", "", ""),
        ("rw\nx y\nrw 0:99 /tmp", "rw", "/tmp", ""),  # as no kernel writes it
    ],
)
def test_folders_that_can_be_written_are_own_or_the_node_s(mounts: str, root: str, own: str, node: str) -> None:
    rights = reach({"mounts": mounts}, HAS)
    assert (rights["root"], rights["own_mounts"], rights["node_mounts"]) == (root, own, node)


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
    assert (gpus.find_gpus(write(tmp_path, network | of_a_server)), gpus.in_words(())) == ((), "none")
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


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("etc/cdi/nvidia.yaml", 'cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n- name: "0"\n- name: all\n'),
        ("var/run/cdi/n.json", '{"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [{"name": "0"}]}'),
    ],
)
def test_only_nodes_and_cdi_specifications_of_a_device_count(file: str, text: str, tmp_path: Path) -> None:
    write(tmp_path, {"dev/nvidia0": "", "dev/nvidiactl": "", "dev/kfd": ""})
    assert gpus.probe(("nvidia", "rocm"), tmp_path) is None
    assert gpus.probe(("nvidia",), write(tmp_path / "control", {"dev/nvidiactl": ""})) is not None
    write(tmp_path, {"etc/cdi/nvidia.txt": text})
    assert gpus.probe(("cdi:nvidia.com/gpu=0",), tmp_path) is not None, "it has another name"
    write(tmp_path, {file: text})
    assert gpus.probe(("cdi:nvidia.com/gpu=0",), tmp_path) is None
    for lacking in ("cdi:nvidia.com/gpu=1", "cdi:nvidia.com/mig=0"):
        assert gpus.probe((lacking,), tmp_path) is not None


def still(name: str, *, pid: int = 1, state: str = "S") -> StuckProcess:
    return StuckProcess(pid=pid, name=name, state=state, waits_in="do_poll", command=f"/usr/bin/{name} --flag")


def test_processes_are_counted_and_listed_but_no_more_than_can_be_read() -> None:
    mpirun, orted, ended = still("mpirun", pid=7), still("orted"), still("orted", state="Z")
    found = [summary(each) for each in ((), (mpirun,), (mpirun, orted, orted), (ended, orted))]
    assert found == ["", "1 mpirun", "1 mpirun, 2 orted", "1 ended orted, 1 orted"]
    assert listing(()) == ""
    assert listing([mpirun]).splitlines()[1:] == ["7 S do_poll /usr/bin/mpirun --flag"]
    assert len(listing([still("a", pid=pid) for pid in range(1, 3 * MOST)]).splitlines()) == 1 + MOST


def test_a_process_is_looked_at_until_it_has_ended_or_become_another() -> None:
    program = (sys.executable, "-IS", "-c", "input('up')")
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read(2) == b"up"
        (found,) = look({process.pid})
        assert found.pid == process.pid
        assert found.command.endswith("input('up')")
        assert found.state in "RSD"
        process.kill()
    assert look({process.pid}) == ()
    with subprocess.Popen(["sh", "-c", "read line && exec cat"], stdin=subprocess.PIPE) as shell:
        wait_until(lambda: named([shell.pid]) == {shell.pid: "sh"})
        before = named([shell.pid, os.getpid()])
        assert since(before, before) == set()
        assert shell.stdin is not None
        shell.stdin.write(b"go\n")
        shell.stdin.flush()
        wait_until(lambda: named([shell.pid]) == {shell.pid: "cat"})
        assert since([*before, 1], before) == {shell.pid, 1}
        shell.kill()
    assert named([shell.pid]) == {}


def test_a_command_is_looked_at_at_its_time_limit_before_it_is_ended() -> None:
    seen: list[str] = []
    pids: list[int] = []

    def at_limit() -> str:
        wait_until(lambda: named(pids) == {pids[0]: "sleep"})
        seen.append(told(pids))
        return seen[0].splitlines()[0]

    result = run(("sleep", "600"), timeout_s=0.05, check=False, started=pids.append, at_limit=at_limit)
    assert (result.timed_out, result.at_limit) == (True, "1 sleep")
    quick = run(("true",), timeout_s=600, check=False, at_limit=at_limit)
    assert (quick.at_limit, len(seen)) == ("", 1)


@pytest.mark.parametrize("folders", [
    [f"/m{number}" for number in range(1000)],
    [f"/m/{number}/x" for number in range(1000)],
    ["/" + "a/" * number + "a" for number in range(100)],
    ["/", "/b", "/a", "/a/b", "/a-b", "/a-b/c", "/a/b/c"],
])  # fmt: skip
def test_each_of_a_thousand_folders_is_compared_with_one(folders: list[str]) -> None:
    assert count_calls(lambda: _tops(folders)) <= 10 * len(folders) + 20
    few = folders[:300]
    below = {one for one in few for other in few if one != other and one.startswith(f"{other.rstrip('/')}/")}
    assert sorted(set(few) - below) == _tops(few)


def test_the_limits_and_rights_of_a_process_are_read_as_it_has_them_or_has_them_no_more(tmp_path: Path) -> None:
    (tmp_path / "pids.max").write_text("2048\n")
    found = read_allowed(os.getpid(), (tmp_path / "other", tmp_path), str(tmp_path))
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert found["pod open files"] == str(files)
    assert found["pod user"] == str(os.geteuid())
    assert found["pod processes in its cgroup"] == "2048"
    assert found["pod working folder"] == "writable"
    assert int(found["pod capabilities"], 16) >= 0
    assert {"pod stack", "pod seccomp", "pod no new privileges", "pod /dev/shm"} <= found.keys()
    assert all(name.startswith(OF_POD) and text for name, text in found.items())
    assert read_allowed(os.getpid(), folder=str(tmp_path / "no"))["pod working folder"] == "not there"
    assert read_allowed(2**22 + 1) == {}
