"""Recipes for clusters: a Dockerfile and a Singularity definition that say the same."""

from __future__ import annotations

import re
import sys

import pytest
from typer.testing import CliRunner

from tare.cli.app import app
from tare.errors import MissingTool, UsageError
from tare.images.clusters import FORMATS, MPIS, VERSIONS, ClusterRecipe, recipe_text

pytest.importorskip("hpccm", reason="hpccm is missing: make setup")

CONTINUED = re.compile(r"\\\n\s*")


def steps(text: str, form: str) -> list[str]:
    """Return the shell commands of a recipe, one a line, whatever its form."""
    joined = CONTINUED.sub("", text)
    if form == "docker":
        runs = re.findall(r"^RUN (.*)$", joined, re.MULTILINE)
        return [step.strip() for run in runs for step in run.split(" && ")]
    found, within = [], False
    for line in joined.splitlines():
        if not line.startswith(" "):
            within = line == "%post"
        elif (within and not line.strip().startswith(("export", "cd /", ". /"))) or (within and "cd /var" in line):
            found += [step.strip() for step in line.split(" && ")]
    return found


@pytest.mark.parametrize("mpi", MPIS)
def test_both_forms_come_from_one_source(mpi: str) -> None:
    docker, singularity = (recipe_text(ClusterRecipe(mpi=mpi), form) for form in FORMATS)
    assert steps(docker, "docker") == steps(singularity, "singularity")
    assert len(steps(docker, "docker")) > 20
    assert re.search(r"^FROM debian:12$", docker, re.MULTILINE)
    assert re.search(r"^BootStrap: docker\nFrom: debian:12$", singularity, re.MULTILINE)


@pytest.mark.parametrize("form", FORMATS)
def test_a_recipe_has_open_mpi_over_ucx_over_rdma_core_in_versions_that_are_named(form: str) -> None:
    text = recipe_text(ClusterRecipe(), form)
    order = [text.index(f"{name}{VERSIONS[key]}") for name, key in
             [("rdma-core-", "rdma-core"), ("ucx-", "ucx"), ("openmpi-", "openmpi")]]  # fmt: skip
    assert order == sorted(order)
    assert "--with-verbs=/usr/local/rdma-core" in text
    assert "--with-ucx=/usr/local/ucx" in text
    assert "cuda" not in re.sub("--without-cuda", "", text)
    assert "openssh-server" in text


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("mpi", MPIS)
def test_no_recipe_asks_for_privileges(form: str, mpi: str) -> None:
    text = recipe_text(ClusterRecipe(mpi=mpi), form)
    for forbidden in ("privileged", "--cap-add", "setuid", "sudo", "chmod u+s", "--security"):
        assert forbidden not in text


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_not_wanted_is_left_out(form: str) -> None:
    text = recipe_text(ClusterRecipe(ucx=False, rdma_core=False, base="rockylinux:9"), form)
    assert "/usr/local/ucx" not in text
    assert "rdma-core" not in text
    assert "apt-get" not in text
    assert "rockylinux:9" in text


def test_the_command_prints_the_recipe() -> None:
    done = CliRunner().invoke(app, ["image", "recipe", "--format", "singularity", "--mpi", "mpich"])
    assert done.exit_code == 0
    assert done.stdout == recipe_text(ClusterRecipe(mpi="mpich"), "singularity")


def test_what_there_is_no_recipe_of_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="unknown format 'nix'"):
        recipe_text(ClusterRecipe(), "nix")
    with pytest.raises(UsageError, match="MPI 'lam'"):
        recipe_text(ClusterRecipe(mpi="lam"), "docker")
    monkeypatch.setitem(sys.modules, "hpccm", None)
    with pytest.raises(MissingTool, match="hpccm is not installed"):
        recipe_text(ClusterRecipe(), "docker")
