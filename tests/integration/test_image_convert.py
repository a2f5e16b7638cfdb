"""A tiny image is converted to every format, and each runs: what is in it greets."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from integration.live import lab_site, live
from integration.tiny import tiny_image
from tare.daemons import docker
from tare.images.build import Image
from tare.images.convert import convert
from tare.runtimes.apptainer import find_program

pytestmark = live("apptainer", "docker", "podman", "charliecloud")

GREETING = ("/bin/sh", "-c", 'echo "$GREETING from $(cat /etc/name)"')
SAID = "hello from tiny"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    return tiny_image(tmp_path_factory.mktemp("cache"))


def said(*argv: str | Path) -> str:
    done = subprocess.run([str(token) for token in argv], capture_output=True, text=True, check=False,
                          env={**os.environ, "USER": "root"})  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_sif_is_built_from_the_docker_archive_and_has_the_images_variables(image: Image, tmp_path: Path) -> None:
    program = find_program()
    assert program is not None
    sif = convert(image, "sif", tmp_path / "tiny.sif", program).path
    assert said(program, "exec", "--no-privs", "--no-mount", "home,cwd", "--pwd", "/", sif, *GREETING) == SAID


def test_a_squashfs_has_the_files_of_the_image(image: Image, tmp_path: Path) -> None:
    packed = convert(image, "squashfs", tmp_path / "tiny.squashfs").path
    assert said("unsquashfs", "-cat", packed, "etc/name") == "tiny"


def test_a_folder_for_charliecloud_has_the_images_variables(image: Image, tmp_path: Path) -> None:
    folder = convert(image, "charliecloud", tmp_path / "tiny").path
    assert said("ch-run", f"--set-env={folder}/ch/environment", folder, "--", *GREETING) == SAID


def test_a_docker_archive_and_an_oci_layout_are_read_by_others(image: Image, tmp_path: Path) -> None:
    storage = tmp_path / "podman"
    convert(image, "podman", storage)
    oci = convert(image, "oci", tmp_path / "tiny.oci.tar").path
    with tempfile.TemporaryDirectory(dir="/tmp") as state:  # Podman allows no long name for it
        client = ("podman", "--root", storage, "--runroot", f"{state}/run", "--tmpdir", f"{state}/tmp")
        told = said(*client, "image", "inspect", "--format", "{{.Config.Env}}", "tare/tiny:0123456789abcdef")
        assert told == "[PATH=/usr/bin:/bin GREETING=hello]"
        assert "oci-archive" not in said(*client, "load", "--quiet", "--input", oci)


def test_docker_loads_and_runs_the_docker_archive(image: Image, tmp_path: Path) -> None:
    packed = convert(image, "docker-archive", tmp_path / "tiny.tar").path
    with lab_site(docker=True) as site:
        node = site.daemon_nodes[0]
        assert "tare/tiny:0123456789abcdef" in docker.run_docker(node, "load", "--input", str(packed)).stdout
        ran = docker.run_docker(node, "run", "--rm", "--network", "none", "tare/tiny:0123456789abcdef", *GREETING)
        assert ran.stdout.strip() == SAID
        docker.run_docker(node, "image", "rm", "tare/tiny:0123456789abcdef")
