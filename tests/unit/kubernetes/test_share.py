"""Several containers of ranks in a pod: what is asked of a Kubernetes, and how a rank gets into its own container."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from tare.kubernetes import making, manifests
from tare.kubernetes.manifests import PodSpec
from tare.kubernetes.node import shells
from tare.kubernetes.relay import BEGINS, RANK, rank_of
from tare.launch import Context, Entry, Host, Launch
from tare.model import Environment, Placement, Share
from tare.node.cgroups import Group, Hierarchy
from tare.runtimes.kubernetes import first_process, group_of

SPEC = PodSpec(
    name="e0-n0", namespace="s", run="s", slot=0, node="worker", image="app", node_image="service", cpus=2, containers=3
)
PODS = Environment(name="pods", runtime="kubernetes", network="pod-network", mpi="openmpi", image="debian-openmpi")
ASKED = """#!/bin/sh
echo "$1 $2" >> "${0%/*}/asked"
exec /bin/sh -c "$(cat "${0%/*}/begins")" "$3"
"""
"""Stands for the agent and the head: becomes the rank at once."""
SHOWS = 'cat; printf "%s|" "$@"; echo error >&2; env | grep ^tare_; printf %s "$ODD"; exit 3'
WORDS = ["a b", "it's", "line\nbreak", '$HOME`"\\n', "%s", ""]


def test_every_container_of_ranks_has_the_same_and_shares_the_pod() -> None:
    made = manifests.pod(SPEC)["spec"]
    assert made["shareProcessNamespace"] is True
    *ranks, node = made["containers"]
    assert [each["name"] for each in ranks] == list(SPEC.of_ranks) == ["ranks", "ranks-1", "ranks-2"]
    assert node["name"] == "node"
    assert [each["command"][-1] for each in ranks] == ["tare-ranks", "tare-ranks-1", "tare-ranks-2"]
    for each in ranks:
        same = {name: value for name, value in each.items() if name not in ("name", "command")}
        assert same == {name: value for name, value in ranks[0].items() if name not in ("name", "command")}
        assert {"name": "shm", "mountPath": "/dev/shm"} in each["volumeMounts"]
        assert each["resources"]["limits"] == {"cpu": "2"}


@pytest.mark.parametrize(("share", "containers", "cpus"), [(Share.POD, 2, 2.0), (Share.NONE, 1, 2.0)])
def test_a_container_asks_for_the_cores_of_its_own_ranks(share: Share, containers: int, cpus: float) -> None:
    placement = Placement(ranks_per_node=4, containers_per_node=2, share=share)
    assert making.containers_of(PODS, placement) == containers
    assert making.asked(PODS, placement, exclusive=True) == (cpus, "")


def test_a_shell_waits_for_each_rank_of_a_further_container_and_starts_it_there() -> None:
    placement = Placement(ranks_per_node=6, containers_per_node=3)
    assert shells(SPEC, placement) == {"e0-n0": 2, "e0-n0/ranks-1": 2, "e0-n0/ranks-2": 2}
    assert rank_of(["--rank", "2", "/tmp/tare-s/rank.7"]) == (2, ["/bin/sh", "-c", BEGINS, "/tmp/tare-s/rank.7"])


@pytest.mark.parametrize("words", [[], ["-x", "n1", "orted"], ["--rank", "one", "f"], ["--rank", "1"]])
def test_what_a_launcher_asks_is_not_taken_for_a_rank(words: list[str]) -> None:
    assert rank_of(words) is None


@pytest.mark.parametrize("variable", ["OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK"])
@pytest.mark.parametrize(("rank", "asked"), [(0, ""), (1, ""), (2, "--rank 1\n"), (5, "--rank 2\n")])
def test_the_wrapper_behaves_as_the_rank_in_whatever_container_it_is(
    rank: int, asked: str, variable: str, tmp_path: Path
) -> None:
    for name, text in (("rank", RANK), ("agent", ASKED), ("begins", BEGINS)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(stat.S_IRWXU)
    ended = subprocess.run(
        [tmp_path / "rank", "2", "/bin/sh", "-c", SHOWS, "x", *WORDS],
        env={"PATH": os.environ["PATH"], "ODD": "q'\n\"x", variable: str(rank)},
        capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    said = "".join(f"{word}|" for word in WORDS)
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, f"{said}q'\n\"x", "error\n")
    assert ((tmp_path / "asked").read_text() if asked else "") == asked
    assert not list(tmp_path.glob("rank.*")), "files of a rank are left"


def test_the_wrapper_ends_if_its_rank_cannot_be_started(tmp_path: Path) -> None:
    for name, text in (("rank", RANK), ("agent", "#!/bin/sh\nexit 125\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(stat.S_IRWXU)
    ended = subprocess.run(
        [tmp_path / "rank", "1", "true"],
        env={"PATH": os.environ["PATH"], "PMI_LOCAL_RANK": "1"}, capture_output=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 125


def test_ranks_enter_by_the_wrapper_of_a_launch_that_has_one() -> None:
    inside = Host(name="n0", ranks=2, enter=(Entry(), Entry(argv=("enter", "ranks-1"), carry=True)))
    launch = Launch(
        head=(), launcher=("mpirun",), hosts=(inside,), contexts=(Context(hosts=(inside,), program=("app",)),)
    )
    assert launch.argv("/run/agent") == ("mpirun", "/run/agent", "--rank", "app")
    own = Launch(
        head=(), launcher=("mpirun",), hosts=(inside,), contexts=launch.contexts, wrapper=("/tmp/tare-s/rank", "1")
    )
    assert own.argv("/run/agent") == ("mpirun", "/tmp/tare-s/rank", "1", "app")


def test_a_container_is_found_by_its_first_process_and_its_cgroup_where_it_is_mounted(tmp_path: Path) -> None:
    for pid, words in ((5, "sh\0-c\0x\0tare-ranks\0"), (9, "sh\0-c\0x\0tare-ranks-1\0"), (11, "tare-ranks-1\0app\0")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "cmdline").write_text(words)
    assert [first_process(number, tmp_path) for number in range(3)] == [5, 9, None]
    own = tmp_path / "7" / "root" / "sys/fs/cgroup/memory"
    own.mkdir(parents=True)
    (own / "cgroup.procs").write_text("")
    (own / "memory.stat").write_text("cache 1\n")
    line = "30 29 0:27 / /sys/fs/cgroup/memory ro,nosuid - cgroup cgroup rw,memory\n"
    (tmp_path / "7" / "mountinfo").write_text(line)
    found = group_of(7, tmp_path)
    assert found == Group(
        path="", hierarchies=(Hierarchy(mountpoint=own, version=1, controllers=("memory",), below=""),)
    )
    assert (found.folders[0] / "memory.stat").exists()
