"""A user's own image is used as it comes: a SIF, an archive, a squashfs or a folder, with binds and variables."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from integration.live import by_environment, live, outcome, tare, write_study
from integration.tiny import tiny_image
from tare.images import find_recipe
from tare.images.build import ensure_image
from tare.images.convert import convert
from tare.runtimes.apptainer import find_program

pytestmark = live("apptainer", "docker", "podman", "charliecloud", "mmdebstrap")

ASKED = 'read said < /data/said; echo "$ADDED $said in $(pwd)"; echo x 2> /dev/null > /data/no || echo kept'
FORMATS = {"apptainer-sif": "sif", "docker": "docker-archive"}


@pytest.mark.parametrize(
    "runtime", [pytest.param("apptainer-sif", marks=pytest.mark.long), "docker"]
)  # a SIF is packed
def test_an_application_runs_in_a_user_s_own_image_with_what_is_bound_and_set(runtime: str, tmp_path: Path) -> None:
    wanted = FORMATS[runtime]
    convert(ensure_image(find_recipe()), wanted, tmp_path / f"mine.{wanted}", find_program() or "")
    (tmp_path / "data").mkdir()
    (tmp_path / "data/said").write_text("word\n")
    done = tare(
        "launch", "--runtime", runtime, "--image", f"./mine.{wanted}", "--bind", "./data:/data:ro",
        "--workdir", "/data", "--env", "ADDED=a, b", "--", "sh", "-c", ASKED, cwd=tmp_path,
    )  # fmt: skip
    assert done.status == 0, done.stderr
    assert done.stdout.splitlines() == ["a, b word in /data", "kept"]
    assert not (tmp_path / "data/no").exists()


def test_kernels_of_this_machine_are_shown_in_an_image_that_has_none_and_the_folder_is_not_written_to(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "mine"
    convert(ensure_image(find_recipe()), "directory", folder)
    shutil.rmtree(folder / "opt/tare")
    before = sorted(path.name for path in folder.iterdir())
    own = "{image: ./mine, binds: [./mine/etc:/there], env: {ADDED: yes}}".replace("yes", "'yes'")
    environments = f"{{bare+image: {own}, podman: {own}, charliecloud: {own}}}"
    study = write_study(tmp_path, "own", environments)
    done = tare("run", study, cwd=tmp_path)
    found = by_environment(tmp_path / "results/own")
    assert set(found) == {"bare+image", "podman", "charliecloud"}, done.stderr
    assert [outcome(trial) for trials in found.values() for trial in trials] == ["Completed"] * 3
    assert sorted(path.name for path in folder.iterdir()) == before
    assert list((folder / "opt").iterdir()) == []


def test_an_image_that_cannot_be_used_is_named_before_anything_starts(tmp_path: Path) -> None:
    tiny = tiny_image(tmp_path / "cache")
    sif = convert(tiny, "sif", tmp_path / "mine.sif", find_program() or "").path
    study = write_study(tmp_path, "none", "{bare: {}, docker: {image: ./mine.sif}}")
    told = tare("plan", study, cwd=tmp_path)
    assert (told.status, "mine.sif has no MPI that launch: exec could start" in told.stdout) == (0, True)
    assert "use launch: host-mpi" in told.stdout
    sif.write_bytes(sif.read_bytes()[:60000])
    told = tare("run", study, cwd=tmp_path)
    assert told.status == 2
    assert "mine.sif is truncated" in told.stderr
    assert not (tmp_path / "results").exists()
