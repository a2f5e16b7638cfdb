"""Cluster `local` as an ordinary user (tools/ordinary_user.py): what needs no root runs, and nothing of it is left."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "tools"))

import ordinary_user

from integration.live import Ended, by_environment, compiled, ended, live, outcome, start, trials, wait_for, write_study
from integration.studies import stopped

pytestmark = live("apptainer", "charliecloud", "mmdebstrap", "podman", "uidmap", "passt")
ANYWHERE = ["bare", "bare+image", "charliecloud", "apptainer", "apptainer-sif-squashfuse", "apptainer-sif-extracted",
            "apptainer-instance", "podman-rootless", "podman-rootless+pasta"]  # fmt: skip
ONE_NODE = "[{nodes: 1, ranks_per_node: 2}]"


@dataclass(frozen=True, kw_only=True)
class User(ordinary_user.User):
    """An ordinary user who runs tare."""

    def tare(self, *arguments: str | Path) -> Ended:
        python = (str(ordinary_user.PYTHON),)
        started = start(*arguments, cwd=self.folder, env=self.environment, before=self.becoming, python=python)
        return ended(started)

    def study(self, name: str, environments: list[str], **keys: str) -> Path:
        stated = {"cluster": "local", "placements": ONE_NODE, **keys}
        path = write_study(self.folder, name, environments, **stated)
        path.chmod(0o644)
        return path

    def left(self) -> list[str]:
        """Return the user's processes that still run, and the files of runs."""
        running = []
        for entry in Path("/proc").iterdir():
            try:
                if (
                    entry.name.isdigit()
                    and entry.stat().st_uid == ordinary_user.UID
                    and (entry / "cmdline").read_bytes()
                ):
                    running.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            except OSError:
                continue
        state = self.folder / "run" / "tare"
        return running + [str(path) for path in (state.iterdir() if state.exists() else ())]


@pytest.fixture(scope="module")
def user() -> Iterator[User]:
    with ordinary_user.ordinary_user() as made:
        yield User(folder=made.folder)


def test_every_runtime_without_root_runs_on_this_machine_and_says_its_rights(user: User) -> None:
    result = user.tare("run", user.study("all", ANYWHERE))
    assert result.status in (0, 3), result.stdout + result.stderr
    rights = {}
    for name, (trial,) in by_environment(user.folder / "results" / "all").items():
        assert outcome(trial) == "Completed", (name, trial["outcome"])
        rights[name] = trial["ranks"][0]["rights"]["by"]
    assert set(rights) == set(ANYWHERE)
    assert rights["bare"] == "the user's own"
    assert rights["podman-rootless"].startswith("setuid program newuidmap")
    assert {rights[name] for name in ANYWHERE if "podman" not in name and name != "bare"} == {"user namespace"}
    assert "On this machine" in result.stdout
    wait_for(lambda: not user.left(), "end of the user's processes")
    assert not (user.folder / "home" / ".config").exists(), "Podman wrote to the user's own folders"


def test_quick_compares_what_an_ordinary_user_has_here_and_names_the_rest(user: User) -> None:
    """What containers are shown has mounts below it: those of their own pods."""
    program = compiled("where", user.folder)
    result = user.tare("quick", "--rounds", "1", "--", f"./{program.name}")
    assert result.status in (0, 3), result.stdout + result.stderr
    (results,) = user.folder.glob(f"results/quick-{program.name}*")
    found = by_environment(results)
    assert {"bare", "bare+image", "apptainer", "charliecloud", "podman-rootless"} <= set(found)
    assert {outcome(trial) for its in found.values() for trial in its} == {"Completed"}, result.stderr
    assert "comparing on this machine as it is, with" in result.stderr
    assert "not here" not in result.stdout


def test_what_needs_more_than_this_machine_has_a_reason_and_the_rest_runs(user: User) -> None:
    placements = "[{nodes: 1, ranks_per_node: 2}, {nodes: 2, ranks_per_node: 1}]"
    study = user.study("more", ["bare", "bare+bridge", "docker", "apptainer-sif-setuid"], placements=placements)
    result = user.tare("run", study)
    assert result.status == 4, result.stdout + result.stderr  # with the baseline alone nothing could be compared
    assert [outcome(trial) for trial in trials(user.folder / "results" / "more")] == ["Completed"]
    told = " ".join(result.stdout.split())
    assert "cluster local is one node" in told
    assert "needs a data NIC of its own" in told


def test_the_time_of_the_job_is_not_counted_as_background(user: User) -> None:
    workloads = "{micro: {time_limit: 300s, kernels: [{latency: {message_bytes: 1MiB, iterations: 400, warmup: 5}}]}}"
    result = user.tare("run", user.study("time", ["bare", "podman-rootless"], workloads=workloads))
    found = by_environment(user.folder / "results" / "time")
    assert set(found) == {"bare", "podman-rootless"}, result.stderr
    for name, (trial,) in found.items():
        assert outcome(trial) == "Completed", (name, trial["outcome"])
        assert trial["noise"]["job_s"] > 0, (name, trial["noise"])


def test_what_a_killed_run_left_is_removed_by_the_next(user: User) -> None:
    study = user.study("cut", ["bare", "podman-rootless"])
    python = (str(ordinary_user.PYTHON),)
    options = {"cwd": user.folder, "env": user.environment, "before": user.becoming, "python": python}
    with stopped("store:after-trial", "run", study, **options) as process:
        os.kill(process.pid, signal.SIGKILL)
    ended(process)
    assert user.left()
    again = user.tare("run", study)
    assert again.status in (0, 3), again.stdout + again.stderr
    wait_for(lambda: not user.left(), "end of the user's processes")


def test_what_an_ordinary_user_may_do_in_containers_decides_the_claims_on_it(user: User) -> None:
    result = user.tare("run", user.folder / "repository/studies/comet-rights.yaml")
    assert result.status in (0, 3), result.stdout + result.stderr
    results = user.folder / "results" / "comet-rights"
    found = by_environment(results)
    in_sif = ("apptainer-sif-extracted", "apptainer-sif-squashfuse", "a folder of the machine")
    assert {"bare", "apptainer", "podman-rootless", *in_sif} == set(found)
    for name, made in found.items():
        for trial in made:
            assert outcome(trial) == "Completed", (name, trial["outcome"])
            told = {each["label"]: each["value"] for each in trial["outcome"]["figures"]}
            assert told.pop("ranks that tried") == 2, name
            assert {"mount", "becoming root", "change of a file", "new file", "deletion of a file"} <= set(told), name
            allowed = {label for label, value in told.items() if value}
            own = {"change of a file", "deletion of a file", "new file"} if name == "podman-rootless" else set()
            expected = {"shadow", *own}  # read a file of the image; Podman has a layer to write on
            assert allowed <= expected, f"in {name} a user may do {allowed}"
    claims = user.folder / "repository/claims/002.yaml"
    said = user.tare("claims", claims, "--on", results, "--json")
    verdicts = {each["claim"]["number"]: (each["verdict"], each["why"]) for each in json.loads(said.stdout)}
    assert [verdicts[number][0] for number in ("002-7", "002-26")] == ["reproduced", "reproduced"], verdicts


@pytest.mark.requires("podman-hpc")
def test_podman_hpc_starts_from_an_image_that_it_migrated_once(user: User) -> None:
    wanted = ["bare", "podman-hpc", "podman-hpc+pasta"]
    result = user.tare("run", user.study("hpc", wanted, repetition="{rounds: 2, max_rounds: 2}"))
    assert result.status in (0, 3), result.stdout + result.stderr
    assert result.stderr.count("podman-hpc migrate") == 1
    found = by_environment(user.folder / "results" / "hpc")
    assert set(found) == set(wanted)
    for name, made in found.items():
        assert [outcome(trial) for trial in made] == ["Completed", "Completed"], (name, made)
    for rank in found["podman-hpc"][0]["ranks"]:
        assert rank["rights"]["by"].startswith("setuid program newuidmap")
        assert rank["rights"]["seccomp"] == "0", "podman-hpc runs its containers without a filter"
        assert rank["namespaces"]["mnt"] != found["bare"][0]["ranks"][0]["namespaces"]["mnt"]
    (store,) = (user.folder / "cache" / "stores").glob("[0-9a-f]*")
    assert list((store / "overlay" / "l").glob("*.squash"))
    wait_for(lambda: not user.left(), "end of the user's processes")
    assert not (user.folder / "home" / ".config").exists(), "podman-hpc wrote to the user's own folders"
