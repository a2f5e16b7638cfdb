"""`tare lab`, `tare quick`, `tare doctor`, `tare clean`: the commands beside studies."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from integration.live import (
    APPS,
    Ended,
    Watch,
    by_environment,
    compiled,
    counters,
    live,
    outcome,
    pids_of,
    start,
    tare,
    trials,
    wait_for,
    write_study,
)

pytestmark = live()
RUN = Path("/run/tare")
STREAM = APPS / "stream.py"
MTU_FRAME = 1514


@contextmanager
def lab(folder: Path, *options: str, name: str = "") -> Iterator[str]:
    """Keep a lab up that `tare lab up` made, with a name of this process's own."""
    name = name or f"t{os.getpid()}"
    up = tare("lab", "up", "--name", name, *options, cwd=folder)
    assert up.status == 0, up.stderr
    try:
        yield name
    finally:
        tare("lab", "down", "--name", name, cwd=folder)


def on(name: str, node: str, *command: str, cwd: Path) -> Ended:
    return tare("lab", "exec", "--name", name, node, "--", *command, cwd=cwd)


def pid_of(name: str, node: str) -> int:
    state = json.loads((RUN / f"{name}-stays" / "lab.json").read_text())
    return int(next(n["pid"] for n in state["nodes"] if n["name"] == node))


def test_a_lab_stays_between_commands_and_each_node_is_a_host_of_its_own(tmp_path: Path) -> None:
    watch = Watch()
    with lab(tmp_path, "--nodes", "2", "--nics", "2") as name:
        watch.look(name)
        status = tare("lab", "status", cwd=tmp_path)
        assert f"lab {name}: 2 nodes, up" in status.stdout
        told = [on(name, node, "sh", "-c", SELF, cwd=tmp_path) for node in ("n0", "n1")]
        assert [one.status for one in told] == [0, 0], told
        first, second = (one.stdout.split("|") for one in told)
        assert (first[0], second[0]) == ("n0", "n1")
        for a, b, what in zip(first[1:], second[1:], ("boot_id", "ipc", "shm", "cores"), strict=True):
            assert a != b, what
        assert first[1].strip() != Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        assert on(name, "n0", "sh", "-c", "echo x > /tmp/mine; exit 7", cwd=tmp_path).status == 7
        assert on(name, "n0", "cat", "/tmp/mine", cwd=tmp_path).stdout == "x\n"
        assert on(name, "n1", "test", "-e", "/tmp/mine", cwd=tmp_path).status == 1
        assert not Path("/tmp/mine").exists()
        assert on(name, "n1", "ping", "-c1", "-W2", "10.214.1.1", cwd=tmp_path).status == 0
        assert on(name, "head", "ping", "-c1", "-W2", "10.213.0.2", cwd=tmp_path).status == 0
        assert on(name, "n1", "pwd", cwd=tmp_path).stdout.strip() == str(tmp_path)
    assert len(watch.namespaces) > 10
    assert watch.left(name) == []
    assert tare("lab", "exec", "--name", name, "n0", "--", "true", cwd=tmp_path).status == 2


SELF = (
    "printf '%s|%s|%s|%s|%s' $(hostname) $(cat /proc/sys/kernel/random/boot_id) $(readlink /proc/self/ns/ipc) "
    "$(stat -c %d /dev/shm) $(taskset -cp $$ | sed 's/.*: //')"
)


def test_a_lab_is_not_made_twice_and_a_broken_one_is_told_and_replaced(tmp_path: Path) -> None:
    watch = Watch()
    with lab(tmp_path) as name:
        again = tare("lab", "up", "--name", name, cwd=tmp_path)
        assert again.status == 2
        assert f"tare lab down --name {name}" in again.stderr
        unknown = on(name, "n7", "true", cwd=tmp_path)
        assert unknown.status == 2
        assert "its nodes: n0, n1, head" in unknown.stderr
        os.kill(pid_of(name, "n0"), 9)
        broken_line = f"lab {name}: 2 nodes, broken"
        wait_for(lambda: broken_line in tare("lab", "status", cwd=tmp_path).stdout, "broken lab")
        broken = on(name, "n0", "true", cwd=tmp_path)
        assert broken.status == 5
        assert "tare lab down" in broken.stderr
        assert tare("lab", "up", "--name", name, cwd=tmp_path).status == 0
        assert on(name, "n0", "true", cwd=tmp_path).status == 0
    assert watch.left(name) == []


@pytest.mark.parametrize("options", [["--link-rate", "fast"], ["--nodes", "500"], ["--cores", "4096"]])
def test_an_impossible_lab_is_refused_and_leaves_nothing(options: list[str], tmp_path: Path) -> None:
    watch = Watch()
    name = f"t{os.getpid()}"
    result = tare("lab", "up", "--name", name, *options, cwd=tmp_path)
    assert result.status == 2, result.stderr
    assert "Traceback" not in result.stderr
    assert watch.left(name) == []


@pytest.mark.measures
def test_a_link_rate_limits_what_a_link_carries(tmp_path: Path) -> None:
    with lab(tmp_path, "--link-rate", "1Gbit") as name:
        for _ in range(3):  # a busy host takes the cores away for as long as this lasts
            rate, frame = streamed(name, 96 << 20, tmp_path)
            if rate >= 0.5e9:
                break
    assert 0.5e9 <= rate <= 1.1e9
    assert frame > MTU_FRAME, "a wire that is not segmented carries large packets"


def test_a_segmented_wire_carries_frames_of_mtu_size(tmp_path: Path) -> None:
    with lab(tmp_path, "--segmented") as name:
        _, frame = streamed(name, 32 << 20, tmp_path)
    assert 1000 < frame <= MTU_FRAME


def streamed(name: str, count: int, folder: Path) -> tuple[float, float]:
    """Send bytes from n0 to n1; return bits per second and the mean size of the frames that arrived."""
    exec_ = ("lab", "exec", "--name", name)
    receiver = start(*exec_, "n1", "--", "/usr/bin/python3", "-c", STREAM.read_text(), "receive", "5201", cwd=folder)
    assert receiver.stdout.readline() == "listening\n", receiver.communicate()
    before = counters(pid_of(name, "n1"))["data0"]
    argv = ("/usr/bin/python3", "-c", STREAM.read_text(), "send", "10.214.0.2", "5201", str(count))
    sender = on(name, "n0", *argv, cwd=folder)
    assert sender.status == 0, sender.stderr
    got, seconds = receiver.communicate()[0].split()
    after = counters(pid_of(name, "n1"))["data0"]
    assert int(got) == count
    return int(got) * 8 / float(seconds), (after[0] - before[0]) / (after[1] - before[1])


@pytest.mark.requires("docker")
def test_a_lab_with_docker_has_a_daemon_a_node_joined_in_a_swarm(tmp_path: Path) -> None:
    watch = Watch()
    with lab(tmp_path, "--docker", "--nodes", "2") as name:
        watch.look(name)
        ps = on(name, "n0", "docker", "ps", cwd=tmp_path)
        assert ps.status == 0, ps.stderr
        assert ps.stdout.startswith("CONTAINER ID")
        nodes = on(name, "n0", "docker", "node", "ls", "--format", "{{.Hostname}} {{.Status}}", cwd=tmp_path)
        assert sorted(nodes.stdout.splitlines()) == ["n0 Ready", "n1 Ready"], nodes.stderr
        assert on(name, "n1", "docker", "network", "create", "mine", cwd=tmp_path).status == 0
        assert "mine" not in on(name, "n0", "docker", "network", "ls", cwd=tmp_path).stdout
    assert watch.most_processes >= 6
    assert watch.left(name) == []


# --- quick --------------------------------------------------------------------------------------------------------


def test_quick_compares_a_program_in_the_named_environments_with_bare_ones(tmp_path: Path) -> None:
    program = compiled("misbehave", tmp_path)
    watch = Watch()
    named = ("--environments", "bare,bare+image,docker+overlay")
    result = tare("quick", "--rounds", "1", *named, "--", f"./{program.name}", "well", cwd=tmp_path)
    assert result.status == 3, result.stderr
    results = next(tmp_path.glob(f"results/quick-{program.name}-*"))
    found = by_environment(results)
    assert {"bare", "bare+image", "docker+overlay"} <= set(found)
    assert len(found) == 4
    assert {outcome(trial) for its in found.values() for trial in its} == {"Completed"}, result.stderr
    assert (results / "report.html").is_file()
    assert watch.left(result.lab) == []


def test_a_program_is_seen_inside_the_image_wherever_it_is(tmp_path: Path) -> None:
    home = Path("/srv/tare-test")  # the image has no such folder, and its files are read-only
    home.mkdir(exist_ok=True)
    try:
        program = compiled("where", home)
        workloads = f"{{app: {{command: [{program}], time_limit: 20s}}}}"
        study = write_study(tmp_path, "far", ["bare", "bare+image"], workloads=workloads)
        result = tare("run", study, cwd=tmp_path)
        assert result.status == 3, result.stderr
        assert [outcome(trial) for trial in trials(tmp_path / "results" / "far")] == ["Completed"] * 2
    finally:
        shutil.rmtree(home)


def test_quick_names_a_library_that_is_missing_and_shows_the_folder_of_one_that_the_program_names(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    library = tmp_path / "libborrowed.so"
    source = tmp_path / "borrowed.c"
    source.write_text("int borrowed(void) { return 0; }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    there = compiled("borrowed", tmp_path, f"-L{tmp_path}", "-lborrowed")
    nowhere = tare("quick", "--rounds", "1", "--", f"./{there.name}", cwd=tmp_path)
    assert nowhere.status == 2
    assert "needs libborrowed.so, which this machine lacks: " in nowhere.stderr
    assert "needs libborrowed.so, which the image lacks: libborrowed.so is not found on this machine" in nowhere.stderr
    assert not (tmp_path / "results").exists()
    private = tmp_path_factory.mktemp("private")  # what lies below the current folder is shown in the image
    library.rename(private / library.name)
    here_only = compiled("borrowed", tmp_path, f"-L{private}", "-lborrowed", f"-Wl,-rpath,{private}")
    result = tare(
        "quick", "--rounds", "1", "--environments", "bare,docker+host", "--", f"./{here_only.name}", cwd=tmp_path
    )
    assert result.status in (0, 3), result.stderr
    assert "docker+host" in result.stdout


def test_quick_says_what_is_not_a_program(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("x")
    for name, said in (("./nothing", "there is no program ./nothing"), ("./data", "is not executable")):
        result = tare("quick", "--", name, cwd=tmp_path)
        assert result.status == 2
        assert said in result.stderr


# --- doctor and clean ---------------------------------------------------------------------------------------------


@pytest.mark.requires("docker", "cni")
def test_the_doctor_finds_everything_that_the_bootstrap_installs(tmp_path: Path) -> None:
    result = tare("doctor", cwd=tmp_path)
    assert result.status == 0
    lines = [line.strip() for line in result.stdout.splitlines()]
    fine = [line.split(maxsplit=1)[1] for line in lines if line.startswith("ok ")]
    for part in ("cluster lab", "runtime docker", "network bridge", "network overlay", "bare+bridge", "docker+overlay"):
        assert any(line.startswith(part) for line in fine), part
    assert any(line.startswith("noise: ") for line in lines)


def test_clean_lists_first_and_removes_only_when_asked(tmp_path: Path) -> None:
    with lab(tmp_path) as name:
        listed = tare("clean", "--dry-run", cwd=tmp_path)
        assert listed.status == 0
        mine = [line for line in listed.stdout.splitlines() if name in line]
        assert f"would remove cgroup /tare/{name}" in mine
        assert len([line for line in mine if line.startswith("would remove process")]) == len(pids_of(name))
        assert on(name, "n0", "true", cwd=tmp_path).status == 0
