"""`tare check` finds faults that are planted in real launch lines, and none in lines that are right."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from integration.live import compiled, live, tare
from tare.images import find_recipe
from tare.images.build import ensure_image

pytestmark = live("mpich", "apptainer", "charliecloud")

START = {"openmpi": "mpirun.openmpi --allow-run-as-root --oversubscribe", "mpich": "mpirun.mpich"}
"""Both with as many ranks as are asked for: a check must work on a machine with one core, too."""
APPTAINER = shutil.which("apptainer") or "/opt/tare/apptainer/bin/apptainer"
FREE = {"openmpi": "--bind-to none", "mpich": "-bind-to none"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a small program for each MPI, and the root directory of its image."""
    made = tmp_path_factory.mktemp("check")
    for mpi in START:
        compiled("where", made, mpi=mpi)
        (made / f"image-{mpi}").symlink_to(ensure_image(find_recipe(f"debian-{mpi}")).rootfs)
    (made / "script").write_text("#!/bin/sh\nexit 0\n")
    (made / "script").chmod(0o755)
    return made


def checked(folder: Path, line: str, *options: str, **variables: str) -> tuple[int, dict[str, Any]]:
    found = tare("check", "--json", *options, "--", *shlex.split(line), cwd=folder, env={"USER": "root", **variables})
    assert found.stdout, found.stderr
    return found.status, json.loads(found.stdout)


def inside(mpi: str, container: str, folder: Path, options: str = "") -> str:
    image = (folder / f"image-{mpi}").resolve()
    if container == "apptainer":
        return f"{APPTAINER} exec --no-privs {options} --bind {folder} {image} {folder}/where-{mpi}"
    return f"ch-run --join --join-ct=2 --join-tag=tare {options} -b {folder}:/srv {image} -- /srv/where-{mpi}"


@pytest.mark.parametrize("mpi", START)
@pytest.mark.parametrize("container", ["", "apptainer", "charliecloud"])
def test_a_line_that_is_right_is_called_right(mpi: str, container: str, folder: Path) -> None:
    program = inside(mpi, container, folder) if container else f"./where-{mpi}"
    status, found = checked(folder, f"{START[mpi]} {FREE[mpi]} -n 2 {program}")
    assert (status, found["findings"], found["ranks"]) == (0, [], 2)


PLANTS = {
    "mpirun of the other MPI": ("{openmpi} -n 2 ./where-mpich", "alone", "mpirun.mpich"),
    "mpiexec of the other MPI": ("{mpich} -n 2 ./where-openmpi", "alone", "mpirun.openmpi"),
    "an image of the other MPI": ("{openmpi} -n 2 {apptainer-mpich}", "alone", "image with the MPI of your launcher"),
    "a clean environment": ("{openmpi} -n 2 {apptainer-openmpi:--cleanenv}", "alone", "--cleanenv"),
    "a program that is not there": ("{openmpi} -n 2 ./nothing", "no-program", "path"),
    "an image that is not there": ("{openmpi} -n 2 apptainer exec none.sif ./where", "no-ranks", "hostname"),
    "an image without the MPI": ("{mpich} -n 2 {apptainer:where-mpich:image-openmpi}", "missing-library", "package"),
    "no shared memory, Open MPI": (
        "{openmpi} --bind-to none --mca btl tcp,self -n 2 ./where-openmpi",
        "apart",
        "OMPI_MCA_btl",
    ),
    "no shared memory, MPICH": ("env UCX_TLS=tcp,self {mpich} -n 2 ./where-mpich", "apart", "unset UCX_TLS"),
    "all ranks on one core": ("taskset -c 0 {mpich} -bind-to none -n 2 ./where-mpich", "shared-cores", "bind"),
    "containers that may not share memory": (
        "{mpich} -bind-to none -n 2 {alone-in-charliecloud}",
        "fails-to-start",
        "ch-run --join",
    ),
    "more threads than cores": (
        "env OMP_NUM_THREADS=99 {openmpi} -n 1 ./where-openmpi",
        "crowded-threads",
        "PE=99",
    ),
}


MENDED = {
    "mpirun of the other MPI",
    "a clean environment",
    "no shared memory, Open MPI",
    "no shared memory, MPICH",
    "all ranks on one core",
    "containers that may not share memory",
    "more threads than cores",
    *(["mpiexec of the other MPI"] if os.geteuid() else []),
}
"""Those that the line which is printed mends. Open MPI's mpirun refuses root, and adding that it may is not ours."""


def written(line: str, folder: Path) -> str:
    for name, start in START.items():
        line = line.replace(f"{{{name}}}", start)
        line = line.replace(f"{{apptainer-{name}}}", inside(name, "apptainer", folder))
        line = line.replace(f"{{apptainer-{name}:--cleanenv}}", inside(name, "apptainer", folder, "--cleanenv"))
    image = (folder / "image-openmpi").resolve()
    line = line.replace("{alone-in-charliecloud}", re.sub(r"--join\S*", "", inside("mpich", "charliecloud", folder)))
    bare = f"{APPTAINER} exec --no-privs --bind {folder} {image} {folder}/where-mpich"
    return line.replace("{apptainer:where-mpich:image-openmpi}", bare)


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_fault_is_named_first_with_its_remedy(plant: str, folder: Path) -> None:
    line, rule, remedy = PLANTS[plant]
    status, found = checked(folder, written(line, folder))
    assert found["findings"][0]["rule"] == rule, found
    assert remedy in found["findings"][0]["remedy"]
    assert status == 1
    if plant in MENDED:
        _, again = checked(folder, found["findings"][0]["line"])
        assert rule not in {each["rule"] for each in again["findings"]}, again
    elif plant != "mpiexec of the other MPI":
        assert not found["findings"][0]["line"]


def test_a_script_is_no_verdict(folder: Path) -> None:
    status, found = checked(folder, f"{START['openmpi']} -n 2 ./script")
    assert (status, found["findings"]) == (3, [])


def test_the_line_with_the_probe_is_printed_and_a_job_that_never_starts_is_ended(folder: Path) -> None:
    shown = tare("check", "--print", "--", *shlex.split("srun -n 64 apptainer exec app.sif ./app x"), cwd=folder)
    words = shlex.split(shown.stdout)
    assert words[:5] == ["srun", "-n", "64", "apptainer", "exec"]
    assert words[5] == "--bind"
    assert words[-2:] == ["./app", "x"]
    (folder / "mpirun").write_text("#!/bin/sh\nexec sleep 60\n")
    (folder / "mpirun").chmod(0o755)
    status, found = checked(folder, "./mpirun -n 1 ./app", "--time-limit", "3")
    assert (status, found["findings"][0]["rule"]) == (1, "no-ranks")
