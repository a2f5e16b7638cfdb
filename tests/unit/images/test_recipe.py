from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tare.cli.app import app
from tare.errors import MissingTool, UsageError
from tare.images import RECIPES, find_recipe
from tare.images import recipe as recipes
from tare.images.clusters import FORMATS, MPIS, VERSIONS, ClusterRecipe, recipe_text
from tare.images.recipe import Recipe


def test_the_digest_is_stable_and_does_not_depend_on_where_the_sources_are(recipe: Recipe, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    recipe.kernels.rename(moved)
    before = dataclasses.replace(recipe, kernels=moved).digest
    moved.rename(recipe.kernels)
    assert (recipe.digest, len(recipe.digest)) == (before, 32)


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"}, {"suite": "trixie"}, {"packages": ("a",)}, {"packages": ("a", "b", "c")},
        {"packages": ("a",), "build_packages": ("b", "gcc")}, {"build_packages": ("clang",)},
        {"mpi_compiler": "mpicc.mpich"},
    ],
)  # fmt: skip
def test_the_digest_changes_with_every_part_of_the_recipe(recipe: Recipe, change: dict[str, Any]) -> None:
    assert dataclasses.replace(recipe, **change).digest != recipe.digest


def test_changing_renaming_or_adding_a_source_changes_the_image_but_not_its_debian_part(recipe: Recipe) -> None:
    digests, debian = {recipe.digest}, recipe.debian_digest
    for change in (
        lambda: (recipe.kernels / "main.c").write_text("int main(void) { return 1; }\n"),
        lambda: (recipe.kernels / "main.c").rename(recipe.kernels / "start.c"),
        (recipe.kernels / "empty.c").touch,
        lambda: (recipe.miniapps / "main.c").write_text("int main(void) { return 1; }\n"),
    ):
        change()
        digests.add(recipe.digest)
    assert (len(digests), recipe.debian_digest) == (5, debian)


def test_the_digest_changes_with_scripts_and_not_with_build_folders_hidden_files_and_notes(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = recipe.digest
    for name in ("build/x.c", "build-asan/y.h", ".cache/z.c", ".#main.c", "NOTES.md"):
        path = recipe.kernels / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("anything")
    assert recipe.digest == before
    before = recipe.digest
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    for path in recipes.SCRIPTS.iterdir():
        (scripts / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(recipes, "SCRIPTS", scripts)
    assert recipe.digest == before
    (scripts / "compile.sh").write_text("true\n")
    assert recipe.digest != before


def test_the_command_lines_of_the_builder_are_those_of_its_user_and_paths(recipe: Recipe) -> None:
    argv = recipes.debian_argv(recipe, base=Path("/with space/b.tar"), target=Path("t.tar"))
    hook = next(token for token in argv if token.startswith("--customize-hook="))
    assert "'/with space/b.tar' gcc" in hook
    places = {"root": Path("r"), "result": Path("o")}
    assert "--map-root-user" in recipes.compile_argv(recipe, as_root=False, **places)
    assert "--map-root-user" not in recipes.compile_argv(recipe, as_root=True, **places)


@pytest.mark.parametrize("script", sorted(recipes.SCRIPTS.glob("*.sh")), ids=lambda path: path.name)
def test_scripts_never_install_packages_on_the_machine_itself(script: Path) -> None:
    code = [line for line in script.read_text().splitlines() if not line.lstrip().startswith("#")]
    for line in code:
        if any(tool in line for tool in ("apt-get", "apt ", "dpkg ")):
            assert 'chroot "$root" ' in line, f"not inside the new root: {line}"
        assert "APT_CONFIG" not in line, f"with APT_CONFIG apt unpacks into the machine itself: {line}"


@pytest.mark.requires("openmpi5", "mpich5")
def test_every_recipe_knows_its_name_and_an_unknown_one_is_refused() -> None:
    for name in RECIPES:
        assert find_recipe(name).name == name
    with pytest.raises(UsageError, match="debian-openmpi"):
        find_recipe("windows")


def test_an_image_with_more_packages_has_them_sorted_in_its_name_and_another_debian_part() -> None:
    usual, more = find_recipe("debian-openmpi"), find_recipe("debian-openmpi+python3-numpy+gfortran")
    assert more.name == "debian-openmpi+gfortran+python3-numpy"
    assert set(more.packages) - set(usual.packages) == {"gfortran", "python3-numpy"}
    assert more.debian_digest != usual.debian_digest
    with pytest.raises(UsageError):
        find_recipe("windows+gfortran")


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


def test_the_command_prints_the_recipe_and_others_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    done = CliRunner().invoke(app, ["image", "recipe", "--format", "singularity", "--mpi", "mpich"])
    assert (done.exit_code, done.stdout) == (0, recipe_text(ClusterRecipe(mpi="mpich"), "singularity"))
    with pytest.raises(UsageError, match="unknown format 'nix'"):
        recipe_text(ClusterRecipe(), "nix")
    with pytest.raises(UsageError, match="MPI 'lam'"):
        recipe_text(ClusterRecipe(mpi="lam"), "docker")
    monkeypatch.setitem(sys.modules, "hpccm", None)
    with pytest.raises(MissingTool, match="hpccm is not installed"):
        recipe_text(ClusterRecipe(), "docker")
