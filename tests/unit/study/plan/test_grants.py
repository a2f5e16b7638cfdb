"""Before a study is run as root, `tare plan` tells what it is given of the machine."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tare import study
from tare.cli import commands
from tare.cli.options import PlanOptions
from tare.model import Environment, NodeCommand, Study, Workload
from tare.study.plan.grants import grants, in_words

GOLDEN = Path(__file__).parents[3] / "golden" / "plan" / "grants.txt"
OWN = """
name: own
environments: [bare, docker+bridge]
placements: [2x1]
workloads: {micro: {kernels: [barrier]}}
"""
GIVEN = """
name: given
environments:
  bare: {}
  bare with an image: {runtime: bare, image: /srv/images/mine.sif}
  docker:
    runtime: docker
    image: /srv/images/mine.sif
    devices: [/dev/fuse, infiniband]
    binds: ["/data:/data", "/opt/licence:/opt/licence:ro"]
    env: {LD_PRELOAD: /data/x.so}
placements:
  - {nodes: 2, ranks_per_node: 1, memory_per_container: 512MiB, cpus_per_container: 1}
workloads:
  app: {command: [/home/user/app, "--text", "a b"], time_limit: 30s}
  osu: {program: osu_latency, path: /opt/osu/osu_latency}
"""


def parsed(text: str) -> Study:
    return study.parse(text, file="it.yaml")


def given() -> Study:
    stated = parsed(GIVEN)
    wired = Environment(name="podman+cni", runtime="podman", network="cni:/srv/mine.conflist", image="debian-openmpi")
    return replace(stated, environments=(*stated.environments, wired))


def test_all_that_a_study_is_given_is_listed_once_and_tares_own_programs_are_nothing() -> None:
    assert in_words(grants(given())) + "\n" == GOLDEN.read_text()
    assert grants(parsed(OWN)) == ()
    assert in_words(()).startswith("This study runs only tare's own programs and images")


@pytest.mark.parametrize(
    ("cluster", "account"),
    [("local", "the user who runs tare"), ("ssh", "the user of ssh on its node"), ("lab", "root of its node")],
)
def test_programs_without_a_container_run_as_the_user_of_the_cluster(cluster: str, account: str) -> None:
    command = Workload(name="app", command=("/bin/echo",))
    text = in_words(grants(replace(parsed(OWN), cluster=cluster, workloads=(command,))))
    assert f"/bin/echo: as {account} in " in text


def test_a_folder_to_which_programs_may_write_and_a_file_that_they_read_are_listed() -> None:
    stated = replace(parsed(OWN), workloads=(Workload(name="app", command=("/app",), input="/in"),), writable="/srv/x")
    text = in_words(grants(stated))
    assert re.search(r"folder +/srv/x of this machine at the same path, WRITABLE", text)
    assert re.search(r"input +/in: read as standard input  \(workload app\)", text)


def test_commands_on_a_node_and_words_that_steer_a_terminal_are_listed_as_text() -> None:
    command = Workload(name="app", command=("/bin/echo", "\x1b]0;owned\x07"))
    text = in_words(grants(replace(parsed(OWN), workloads=(command,))))
    assert "\x1b" not in text
    assert "\\x1b]0;owned\\x07" in text
    commands_ = (NodeCommand(run=("docker", "run", "a b")),)
    workload = Workload(name="w", commands=commands_, undo=(("docker", "rm", "x"),))
    text = in_words(grants(replace(parsed(OWN), workloads=(workload,))))
    assert "node command  docker run 'a b': as root of its node, in no container" in text
    assert "(workload w, on the first node)" in text
    assert "node command  docker rm x: as root of its node, in no container" in text


def test_the_plan_of_a_study_shows_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(OWN.replace("docker+bridge", "bare+bridge").replace("2x1", "1x1"))
    commands.show_plan(PlanOptions(study=file))
    assert "This study runs only tare's own programs and images" in capsys.readouterr().out
