from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tare.images import find_recipe
from tare.images.build import Image, ensure_image, list_images
from tare.images.kernels import ensure_kernels

pytestmark = [pytest.mark.integration, pytest.mark.requires("root", "mmdebstrap", "openmpi", "cmake")]


def say(*argv: str | Path) -> str:
    done = subprocess.run([str(token) for token in argv], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def image() -> Image:
    return ensure_image(find_recipe())


def test_the_image_is_found_again_and_not_built_again(image: Image) -> None:
    before = image.tar.stat()
    assert ensure_image(find_recipe()) == image
    assert image in list_images()
    assert image.tar.stat() == before


@pytest.mark.parametrize(
    ("file", "of_mpi"),
    [("bin/tare-kernels", True), ("lib/libtare_wall_report.so", True), ("lib/libtare_wall.so", False)],
)
def test_every_library_that_the_kernels_need_is_in_the_image(image: Image, file: str, of_mpi: bool) -> None:
    libraries = say("chroot", image.rootfs, "ldd", f"/opt/tare/{file}")
    assert ("libmpi.so" in libraries) == of_mpi
    assert "not found" not in libraries


def test_the_kernels_run_in_the_image_under_its_own_mpi(image: Image) -> None:
    launcher = ("mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", "--mca", "btl", "self,vader")
    told = say("chroot", image.rootfs, *launcher, "/opt/tare/bin/tare-kernels", "barrier:iterations=3,warmup=1")
    ranks = [json.loads(line[5:]) for line in told.splitlines() if line.startswith("@tare {")]
    assert sum(line["type"] == "rank" for line in ranks) == 2


def test_the_image_is_small_and_holds_neither_compilers_nor_anything_of_this_machine(image: Image) -> None:
    assert image.tar.stat().st_size < 330_000_000
    for absent in ("usr/bin/gcc", "usr/bin/cmake", "etc/apt/sources.list", "etc/apt/apt.conf.d/99mmdebstrap"):
        assert not (image.rootfs / absent).exists(), absent
    assert (image.rootfs / "etc/hosts").read_text() == "127.0.0.1 localhost\n"
    assert Path("/proc/self/mountinfo").read_text().count(str(image.rootfs.parent)) == 0
    assert image.packages["openmpi-bin"].startswith("4.1")


def test_the_tar_holds_what_the_folder_holds(image: Image) -> None:
    listed = set(say("tar", "--list", f"--file={image.tar}").splitlines())
    for name in ("./opt/tare/bin/tare-kernels", "./usr/bin/mpirun", "./tare/", "./etc/resolv.conf"):
        assert name in listed


@pytest.mark.slow
@pytest.mark.long
def test_other_sources_are_compiled_inside_the_image_and_this_machines_packages_are_left_alone(
    image: Image, tmp_path: Path
) -> None:
    recipe = find_recipe()
    installed = Path("/var/lib/dpkg/status").read_bytes()
    changed = tmp_path / "kernels"
    shutil.copytree(recipe.kernels, changed, ignore=shutil.ignore_patterns("build*"))
    with (changed / "main.c").open("a") as file:
        file.write("// changed\n")
    again = ensure_image(dataclasses.replace(recipe, kernels=changed), tmp_path / "cache")
    assert again.digest != image.digest
    assert (again.rootfs / "opt/tare/bin/tare-kernels").is_file()
    assert not (again.rootfs / "usr/bin/gcc").exists()
    assert [path.name for path in (tmp_path / "cache" / "roots").glob("*/builder/usr/bin/gcc")] == ["gcc"]
    assert Path("/var/lib/dpkg/status").read_bytes() == installed


@pytest.mark.parametrize("mpi", ["openmpi", pytest.param("mpich", marks=pytest.mark.requires("mpich"))])
def test_the_kernels_for_this_machine_use_the_mpi_that_was_asked_for(mpi: str) -> None:
    build = ensure_kernels(mpi)
    libraries = say("ldd", build.program)
    assert "not found" not in libraries
    assert ("libmpich" in libraries) == (mpi == "mpich")
    assert build.wall_library.is_file()
