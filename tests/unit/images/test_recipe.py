from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tare.errors import UsageError
from tare.images import RECIPES, find_recipe
from tare.images import recipe as recipes
from tare.images.recipe import Recipe


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    folder = tmp_path / "kernels"
    (folder / "common").mkdir(parents=True)
    (folder / "CMakeLists.txt").write_text("project(x)\n")
    (folder / "main.c").write_text("int main(void) { return 0; }\n")
    (folder / "common" / "clock.h").write_text("\n")
    return folder


@pytest.fixture
def miniapps(tmp_path: Path) -> Path:
    folder = tmp_path / "miniapps"
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text("project(y)\n")
    (folder / "main.c").write_text("int main(void) { return 0; }\n")
    return folder


@pytest.fixture
def recipe(kernels: Path, miniapps: Path) -> Recipe:
    return Recipe(
        name="test",
        suite="bookworm",
        mpi="openmpi",
        packages=("a", "b"),
        build_packages=("gcc",),
        mpi_compiler="mpicc",
        kernels=kernels,
        miniapps=miniapps,
    )


def test_the_digest_is_stable_and_does_not_depend_on_where_the_sources_are(recipe: Recipe, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    recipe.kernels.rename(moved)
    before = dataclasses.replace(recipe, kernels=moved).digest
    moved.rename(recipe.kernels)
    assert recipe.digest == before
    assert len(recipe.digest) == 32


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"suite": "trixie"},
        {"packages": ("a",)},
        {"packages": ("a", "b", "c")},
        {"packages": ("a",), "build_packages": ("b", "gcc")},
        {"build_packages": ("clang",)},
        {"mpi_compiler": "mpicc.mpich"},
    ],
)
def test_the_digest_changes_with_every_part_of_the_recipe(recipe: Recipe, change: dict[str, Any]) -> None:
    assert dataclasses.replace(recipe, **change).digest != recipe.digest


def test_changing_renaming_or_adding_a_source_changes_the_image_but_not_its_debian_part(recipe: Recipe) -> None:
    digests, debian = {recipe.digest}, recipe.debian_digest
    (recipe.kernels / "main.c").write_text("int main(void) { return 1; }\n")
    digests.add(recipe.digest)
    (recipe.kernels / "main.c").rename(recipe.kernels / "start.c")
    digests.add(recipe.digest)
    (recipe.kernels / "empty.c").touch()
    digests.add(recipe.digest)
    (recipe.miniapps / "main.c").write_text("int main(void) { return 1; }\n")
    digests.add(recipe.digest)
    assert len(digests) == 5
    assert recipe.debian_digest == debian


def test_build_folders_hidden_files_and_notes_do_not_count(recipe: Recipe) -> None:
    before = recipe.digest
    for name in ("build/x.c", "build-asan/y.h", ".cache/z.c", ".#main.c", "NOTES.md"):
        path = recipe.kernels / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("anything")
    assert recipe.digest == before


def test_a_changed_script_changes_the_digest(recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = recipe.digest
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    for path in recipes.SCRIPTS.iterdir():
        (scripts / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(recipes, "SCRIPTS", scripts)
    assert recipe.digest == before
    (scripts / "compile.sh").write_text("true\n")
    assert recipe.digest != before


def test_the_hook_of_mmdebstrap_survives_folders_with_spaces(recipe: Recipe) -> None:
    argv = recipes.debian_argv(recipe, base=Path("/with space/b.tar"), target=Path("t.tar"))
    hook = next(token for token in argv if token.startswith("--customize-hook="))
    assert "'/with space/b.tar' gcc" in hook


def test_an_ordinary_user_compiles_inside_a_user_namespace(recipe: Recipe) -> None:
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


def test_every_registered_recipe_knows_its_name() -> None:
    for name in RECIPES:
        assert find_recipe(name).name == name


def test_an_unknown_recipe_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="debian-openmpi"):
        find_recipe("windows")
