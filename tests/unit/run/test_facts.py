"""What is recorded of the machine and its software is read at once, and what is missing is unknown."""

from __future__ import annotations

import json
import os
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import large_cluster
from counted_calls import count_calls
from large_cluster import RANKS_PER_NODE
from nodes import make_node
from tare.agent.local import LocalNode
from tare.analysis.summary.disturbance import migrated_within
from tare.cli import session
from tare.errors import ResultsError
from tare.model import Workload
from tare.run import facts
from tare.run.core_watch import CoreWatch, is_virtual, place, speed
from tare.runtimes.containers.deployment import Files
from tare.store.writer import Store
from tare.study.feasibility.study_files import StudyFiles, make_files
from tare.system.process import Result
from unit.runs import known_study
from unit.scripts import script
from waiting import wait_until

CPUINFO = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 143
model name\t: Intel(R) Xeon(R) Processor
stepping\t: 8
microcode\t: 0x2b000603
cpu MHz\t\t: 2100.000
flags\t\t: fpu hypervisor

processor\t: 1
microcode\t: 0x1
"""


def image_of(folder: Path, packages: dict[str, str], tar_digest: str = "sha256:1") -> StudyFiles:
    """Return the files of a study with an image of so many packages."""
    place = folder / "images" / "0123456789abcdef01234567"
    (place / "rootfs").mkdir(parents=True, exist_ok=True)
    (place / "rootfs.tar").touch()
    record = {"name": "i", "digest": place.name, "tar_digest": tar_digest, "packages": packages}
    (place / "image.json").write_text(json.dumps(record))
    files = Files(
        host_prefix=Path("/k"), rootfs=place / "rootfs", tar=place / "rootfs.tar", image_tag=f"tare:{place.name[:16]}"
    )
    return StudyFiles(made={("fake", ""): Files(host_prefix=Path("/nowhere")), ("openmpi", "i"): files})


def test_the_manifest_names_what_the_figures_depend_on() -> None:
    plan = session.make_plan(known_study())
    found = facts.facts(plan, make_files(plan))
    assert set(found["versions"]) == set(facts.programs())
    assert all(isinstance(version, str) and version for version in found["versions"].values())
    assert {"model", "microcode", "MHz", "mitigations", "virtual"} <= set(found["processor"])
    wanted = {"command line", "clocksource", "transparent huge pages", "cgroup version"}
    assert wanted <= set(found["system"])
    assert found["tare commit"]
    json.dumps(found)


def test_programs_are_asked_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answered_when_others_are_asked(program: str) -> str:
        asked.append(program)
        wait_until(lambda: len(asked) > 1)
        return "1.0"

    monkeypatch.setattr(facts, "version_of", answered_when_others_are_asked)
    monkeypatch.setattr(facts, "commit", lambda: "c")
    plan = session.make_plan(known_study())
    versions = facts.facts(plan, make_files(plan))["versions"]
    assert versions == dict.fromkeys(facts.programs(), "1.0")


def test_a_program_that_was_compiled_again_is_another_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "app"
    program.write_bytes(b"first")
    workload = Workload(name="app", command=(str(program), "20"))
    plan = session.make_plan(replace(known_study(), workloads=(workload,)))
    (first,) = facts.programs_of(plan).values()
    assert first.startswith("sha256:")
    program.write_bytes(b"second")
    assert facts.programs_of(plan) != {str(program): first}
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", lambda *_: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
        assert set(facts.programs_of(plan).values()) == {"unknown"}, "it can be executed, but not read"
    program.unlink()
    assert facts.programs_of(plan) == {}, "a command of images only is no file of this machine"


def test_the_processor_is_told_with_its_microcode_and_mitigations(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(CPUINFO)
    (tmp_path / "vulnerabilities").mkdir()
    (tmp_path / "vulnerabilities" / "meltdown").write_text("Not affected\n")
    assert facts.processor(tmp_path / "cpuinfo", tmp_path) == {
        "model": "GenuineIntel 6 143 8",
        "microcode": "0x2b000603",
        "MHz": "2100.000",
        "virtual": True,
        "mitigations": {"meltdown": "Not affected"},
    }
    unknown = facts.processor(tmp_path / "none", tmp_path / "none")
    assert unknown == dict.fromkeys(("model", "microcode", "MHz"), "unknown") | {"virtual": False, "mitigations": {}}


@pytest.mark.parametrize(
    ("said", "status", "version"),
    [
        ("Docker version 20.10.24+dfsg1, build 5d6db84\n", 0, "20.10.24+dfsg1"),
        ("containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u3\n", 0, "1.6.20~ds1"),
        ("runc version 1.1.5+ds1\ncommit: 1.1.5\n", 0, "1.1.5+ds1"),
        ("gcc (Debian 12.2.0-14+deb12u1) 12.2.0\n", 0, "12.2.0-14+deb12u1"),
        ("what?\n", 0, "unknown"),
        ("1.0\n", 1, "unknown"),
    ],
)
def test_a_version_is_what_the_program_tells(
    said: str, status: int, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "find", lambda program: f"/usr/bin/{program}")
    result = Result(argv=(), status=status, stdout=said, stderr="", elapsed_s=0.1)
    monkeypatch.setattr(facts, "run", lambda argv, **_: result)
    assert facts.version_of("x") == version


def test_a_program_that_hangs_is_unknown_after_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "never")
    program = script(tmp_path / "hangs", f"read line < {tmp_path}/never")
    monkeypatch.setattr(facts, "find", lambda name: str(program))
    monkeypatch.setattr(facts, "LIMIT_S", 0.2)
    assert facts.version_of("hangs") == "unknown"


def test_the_commit_is_that_of_a_checkout_and_unknown_elsewhere(tmp_path: Path) -> None:
    assert facts.version_of("no-such-program-of-anybody") == "not installed"
    assert facts.commit(tmp_path) == "unknown"
    commit = facts.commit(Path(__file__).parents[3])
    assert commit == "unknown" or len(commit.rstrip("+")) == 40


def test_a_rebuild_with_other_packages_does_not_go_on_with_the_same_results(tmp_path: Path) -> None:
    plan = session.make_plan(known_study(rounds=1, kernels=1))
    first = facts.facts(plan, image_of(tmp_path, {"libc6": "2.36-9", "openmpi": "4.1.4"}))
    Store.create_or_open(tmp_path / "r", plan, first).close()
    again = facts.facts(plan, image_of(tmp_path, {"openmpi": "4.1.4", "libc6": "2.36-9"}, "sha256:2"))
    Store.create_or_open(tmp_path / "r", plan, again).close()
    other = facts.facts(plan, image_of(tmp_path, {"libc6": "2.36-10", "openmpi": "4.1.4"}))
    with pytest.raises(ResultsError, match="image contents was"):
        Store.create_or_open(tmp_path / "r", plan, other)
    (image,) = first["images"].values()
    assert (image["packages"], image["tar_digest"]) == (2, "sha256:1")


def test_results_go_on_with_the_same_packages_and_those_from_before_packages_were_recorded(tmp_path: Path) -> None:
    plan = session.make_plan(known_study(rounds=1, kernels=1))
    found = facts.facts(plan, image_of(tmp_path, {"libc6": "2.36-9"}))
    older: dict[str, Any] = {"identity": {k: v for k, v in found["identity"].items() if k != "image contents"}}
    Store.create_or_open(tmp_path / "r", plan, older).close()
    Store.create_or_open(tmp_path / "r", plan, found).close()
    (image,) = facts.images(image_of(tmp_path, {})).values()
    assert image["contents"] == "sha256:1"


def test_rules_and_offloads_are_told_for_nodes_with_and_without_a_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    node = make_node(pid=70)
    nodes = [replace(node, pid=each, docker_socket=socket) for each, socket in ((70, ""), (71, ""), (80, "/d.sock"))]

    def said(argv: tuple[str, ...], **_: object) -> Result:
        daemon = argv[1] == "--net=/proc/80/ns/net"
        program = Path(argv[2]).name
        texts = {
            "iptables-save": "*filter\n:INPUT ACCEPT\n" + "-A INPUT -j DOCKER\n" * 7 * daemon,
            "ethtool": "Features for data0:\ntcp-segmentation-offload: on\n",
        }
        return Result(argv=argv, status=int(program == "nft"), stdout=texts.get(program, ""), stderr="", elapsed_s=0.0)

    monkeypatch.setattr("tare.agent.facts.find", lambda program: f"/usr/sbin/{program}")
    monkeypatch.setattr("tare.agent.facts.run", said)
    found = facts.of_nodes([LocalNode(each, Path("/"), nullcontext) for each in nodes])  # type: ignore[arg-type]
    assert {kind: each["iptables rules"] for kind, each in found.items()} == {"with a daemon": 7, "without a daemon": 0}
    assert {each["nft rules"] for each in found.values()} == {"unknown"}
    assert found["with a daemon"]["offloads"] == {"tso": "on"}
    assert facts.of_nodes([LocalNode(replace(node, pid=0), Path("/"), nullcontext)]) == {}, (
        "nodes that tare did not create are not inspected"
    )


# --- GPUs ---------------------------------------------------------------------------------------------------------


def test_gpus_are_named_with_those_who_get_them_or_as_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tare.system.node.gpus.find_gpus", lambda: ("AMD GPU", "AMD GPU"))
    plan = session.make_plan(known_study())
    assert facts.gpus_of_machines(plan, []) == "2 x AMD GPU, not given to containers"
    cell = plan.cells[0]
    given = replace(cell, environment=replace(cell.environment, devices=("rocm",)))
    told = facts.gpus_of_machines(replace(plan, cells=(given,)), [])
    assert told == f"2 x AMD GPU, given to containers of {cell.environment.name}"


def test_the_gpus_of_other_machines_are_asked_of_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tare.agent.facts.find", lambda program: None)
    monkeypatch.setattr("tare.system.node.gpus.find_gpus", lambda: ("NVIDIA H100",))
    nodes = [make_node(number, pid=0, machine=f"gpu{number % 2}") for number in range(3)]
    services = [LocalNode(node, Path("/"), nullcontext) for node in nodes]  # type: ignore[arg-type]
    plan = session.make_plan(known_study())
    expected = "1 x NVIDIA H100, not given to containers"
    assert facts.gpus_of_machines(plan, services) == {"gpu0": expected, "gpu1": expected}


NEAR_NS, FAR_NS = (33.0, 31.0, 36.0, 34.0), (152.0, 147.0, 163.0, 157.0)


def written(folder: Path, *samples: tuple[float, float], tail: str = "") -> CoreWatch:
    file = folder / "cores.log"
    file.write_text("".join(f"{moment:.3f} {hand_over:.1f} 880\n" for moment, hand_over in samples) + tail)
    return CoreWatch(file=file)


def seconds(values_ns: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(value * 1e-9 for value in values_ns)


def test_places_within_a_spread_have_not_moved_and_cores_beside_a_guest_are_slower() -> None:
    noise = place(seconds(NEAR_NS), seconds(NEAR_NS * 5 + FAR_NS))
    assert noise == {"cores_elsewhere": 0, "core_hand_over_s": pytest.approx(33.5e-9)}
    assert not migrated_within(noise)
    beside = speed(seconds((1150.0, 1400.0, 1300.0)))
    assert beside == {"core_counting_s": pytest.approx(1300e-9)}
    assert not migrated_within(beside)
    assert speed(()) == {}


@pytest.mark.parametrize(
    ("within", "elsewhere", "migrated"),
    [(FAR_NS, 1.0, False), (NEAR_NS + FAR_NS[:1], 0.2, True), (NEAR_NS[:1] + FAR_NS, 0.8, True), ((11.0,), 1.0, False)],
    ids=["across", "in part", "mostly", "nearer"],
)
def test_what_is_elsewhere_has_moved_and_in_part_it_migrated_within_the_launch(
    within: tuple[float, ...], elsewhere: float, migrated: bool
) -> None:
    noise = place(seconds(within), seconds(NEAR_NS * 9))
    assert noise["cores_elsewhere"] == pytest.approx(elsewhere)
    assert migrated_within(noise) == migrated


def test_cores_that_stay_where_they_went_are_usual_there_after_half_a_minute(tmp_path: Path) -> None:
    near = [(float(moment), 33.0) for moment in range(100)]
    far = [(float(moment), 152.0) for moment in range(100, 140)]
    watch = written(tmp_path, *near, *far)
    assert watch.during(100.0, 102.0)["cores_elsewhere"] == 1.0
    assert watch.during(135.0, 139.0)["cores_elsewhere"] == 0.0


def test_samples_are_read_on_and_a_torn_line_is_waited_for(tmp_path: Path) -> None:
    watch = written(tmp_path, (1.0, 33.0), (2.0, 34.0), tail="3.000 15")
    assert watch.during(0.0, 9.0)["core_hand_over_s"] == pytest.approx(33.5e-9)
    with watch.file.open("a") as file:
        file.write("2.0 880\n4.000 150.0 1400\n")
    assert watch.moments_s == [1.0, 2.0], "a torn line waits"
    assert watch.during(2.5, 9.0)["cores_elsewhere"] == 1.0
    assert watch.during(2.5, 9.0)["core_counting_s"] == pytest.approx(1140e-9)


@pytest.mark.parametrize("tail", ["", "tare-cores: no real-time priority: Operation not permitted\n"])
def test_where_nothing_is_known_nothing_has_moved(tail: str, tmp_path: Path) -> None:
    assert written(tmp_path, tail=tail).during(0.0, 9.0) == {}
    assert CoreWatch().during(0.0, 9.0) == {}
    assert CoreWatch(file=tmp_path / "none").during(0.0, 9.0) == {}
    assert not migrated_within({})


def test_a_virtual_machine_is_known_by_its_cpus(tmp_path: Path) -> None:
    cpus = tmp_path / "cpuinfo"
    cpus.write_text("processor\t: 0\nflags\t\t: fpu vme hypervisor lahf_lm\n")
    assert is_virtual(cpus)
    cpus.write_text("processor\t: 0\nflags\t\t: fpu vme lahf_lm\n")
    assert not is_virtual(cpus)
    assert not is_virtual(tmp_path / "none")


FEW, MANY = 60, 240


def test_four_times_the_nodes_take_four_times_the_calls(tmp_path: Path) -> None:
    large_cluster.took(2, tmp_path)  # imports and caches
    calls = {nodes: count_calls(lambda nodes=nodes: large_cluster.took(nodes, tmp_path)) for nodes in (FEW, MANY)}
    assert calls[MANY] < 4.4 * calls[FEW], calls
    launch_map = json.loads((tmp_path / "map.json").read_text())
    assert len(launch_map["hosts"]) == MANY
    assert sum(len(host["ranks"]) for host in launch_map["hosts"].values()) == MANY * RANKS_PER_NODE
