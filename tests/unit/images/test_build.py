from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tare.errors import CommandFailed, CommandTimeout, InfrastructureError, MissingTool, UsageError
from tare.images import build, host_build, kernels
from tare.images.build import debian_sources, ensure_image, list_images
from tare.images.kernels import ensure_kernels
from tare.images.recipe import Recipe
from tare.system import process
from unit.images.writing import put

STATUS = """Package: openmpi-bin
Status: install ok installed
Version: 4.1.4

Package: gone
Status: deinstall ok config-files
Version: 1
"""


class FakeMachine:
    """Does what the real tools do to files, in no time, and notes what was asked of it."""

    def __init__(self) -> None:
        self.commands: list[tuple[str, ...]] = []
        self.fail: str = ""
        self.error: BaseException | None = None
        self.sources = ""
        self.apt_config = ""
        self.fits = ""  # what an image's packages are
        self.installed: dict[str, str] = {}  # on this machine

    def count(self, program: str) -> int:
        return sum(argv[0] == program for argv in self.commands)

    def run(self, argv: Sequence[str], *, check: bool = True, what: str = "", **options: Any) -> process.Result:
        argv = tuple(argv)
        argv = argv[len(build.ALONE) :] if argv[: len(build.ALONE)] == build.ALONE else argv
        self.commands.append(argv)
        if argv[0] in self.fail.split() and argv[1:] != ("--version",):
            raise self.error or CommandFailed(
                f"{what} failed", argv=argv, status=25, stderr_tail="first\nE: Unable to locate package nonsense"
            )
        stdout = ""
        match argv:
            case ["mmdebstrap", *_]:
                self._debian(argv)
                if self.fits and self.fits == options["env"]["TARE_SAME"]:
                    (Path(argv[-1]).parent / "base.tar.fits").touch()
            case ["unshare", *_]:
                result = Path(argv[-3])
                self._install(result / "opt/tare")
            case ["cmake", "--install", _, "--prefix", prefix]:
                self._install(Path(prefix))
            case ["cmake", "-S", _, "-B", tree, *_]:
                (Path(tree) / "deep").mkdir(parents=True)
                (Path(tree) / "deep" / "link").symlink_to("..")
            case ["rm", *_, folder]:
                shutil.rmtree(folder)
            case ["tar", "--extract", source, folder, *_]:
                assert Path(source.partition("=")[2]).is_file()
                self._root(Path(folder.partition("=")[2]))
            case ["tar", "--create", target, *_]:
                Path(target.partition("=")[2]).write_bytes(b"tar")
            case _:
                stdout = self._told(argv)
        return process.Result(argv=argv, status=0, stdout=stdout, stderr="", elapsed_s=0.0)

    def _told(self, argv: tuple[str, ...]) -> str:
        match argv:
            case ["apt-get", "indextargets", *_]:
                return self.sources
            case ["apt-config", *_]:
                return self.apt_config
            case [_, "--version"]:
                return "cmake version 3.25.1\n"
            case ["dpkg-query", *_, package]:
                return f"installed {self.installed[package]}" if package in self.installed else ""
            case _:
                return ""

    @staticmethod
    def _debian(argv: tuple[str, ...]) -> None:
        target = Path(next(token for token in argv if token.endswith("builder.tar")))
        for path in (target, target.parent / "base.tar"):
            path.write_bytes(b"tar")

    @staticmethod
    def _root(folder: Path) -> None:
        (folder / "etc").mkdir()
        (folder / "etc/hosts").write_text("10.0.0.1 the-machine-that-built-it\n")
        (folder / "var/lib/dpkg").mkdir(parents=True)
        (folder / "var/lib/dpkg/status").write_text(STATUS)

    @staticmethod
    def _install(prefix: Path) -> None:
        for name in ("bin/tare-kernels", "bin/tare-miniapps", "lib/libtare_wall.so"):
            (prefix / name).parent.mkdir(parents=True, exist_ok=True)
            (prefix / name).write_text("binary")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    fake = FakeMachine()
    monkeypatch.setattr(process, "run", fake.run)
    monkeypatch.setattr(process, "find", lambda program: f"/usr/bin/{program}")
    return fake


def test_an_image_is_built_once_with_nothing_of_its_builder(machine: FakeMachine, recipe: Recipe, cache: Path) -> None:
    first = ensure_image(recipe, cache)
    done = len(machine.commands)
    assert (ensure_image(recipe, cache), len(machine.commands)) == (first, done)
    assert first.tar.is_file()
    assert (first.rootfs / "opt/tare/bin/tare-kernels").is_file()
    assert (first.packages, list_images(cache)) == ({"openmpi-bin": "4.1.4"}, (first,))
    assert all((first.rootfs / name).is_dir() for name in ("tare", "proc", "sys", "dev", "tmp", "run"))
    etc = [(first.rootfs / "etc" / name).read_text() for name in ("hosts", "resolv.conf", "hostname")]
    assert etc == ["127.0.0.1 localhost\n", "", ""]


def test_only_a_changed_package_list_installs_debian_again(machine: FakeMachine, recipe: Recipe, cache: Path) -> None:
    first = ensure_image(recipe, cache)
    (recipe.kernels / "main.c").write_text("int main(void) { return 1; }\n")
    second = ensure_image(recipe, cache)
    assert second.digest != first.digest
    assert (machine.count("mmdebstrap"), machine.count("unshare")) == (1, 2)
    assert {image.digest for image in list_images(cache)} == {first.digest, second.digest}
    ensure_image(dataclasses.replace(recipe, packages=("openmpi-bin", "procps")), cache)
    assert machine.count("mmdebstrap") == 2


@pytest.mark.parametrize("program", ["mmdebstrap", "unshare", "tar"])
def test_a_step_that_fails_leaves_no_image(machine: FakeMachine, recipe: Recipe, cache: Path, program: str) -> None:
    machine.fail = program
    with pytest.raises(InfrastructureError, match="E: Unable to locate package nonsense") as caught:
        ensure_image(recipe, cache)
    assert "image test" in caught.value.message
    assert caught.value.remedy
    assert caught.value.exit_code == 5
    machine.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        ensure_image(recipe, cache)
    machine.error = CommandTimeout("installing did not end within 1200 s")
    with pytest.raises(InfrastructureError, match="did not end within") as caught:
        ensure_image(recipe, cache)
    assert program != "mmdebstrap" or "apt-get update" in caught.value.remedy
    assert list_images(cache) == ()
    assert not list(cache.glob("*/.unfinished-*"))
    machine.fail = ""
    assert ensure_image(recipe, cache).name == "test"


def test_several_builders_at_once_build_one_image_and_leftovers_are_removed(
    machine: FakeMachine, recipe: Recipe, cache: Path
) -> None:
    leftover = put(cache, "images/.unfinished-abc/image.json", b"{}").parent
    (leftover / "rootfs").mkdir()
    (cache / "images" / recipe.digest / "rootfs").mkdir(parents=True)
    assert list_images(cache) == ()
    assert ensure_image(recipe, cache).rootfs.is_dir()
    assert not leftover.exists()
    with ThreadPoolExecutor(max_workers=3) as pool:
        found = [each.result() for each in [pool.submit(ensure_image, recipe, cache) for _ in range(3)]]
    assert len({image.rootfs for image in found}) == 1
    assert (machine.count("mmdebstrap"), machine.count("unshare")) == (1, 1)


@pytest.mark.parametrize("harm", ["no tar", "no rootfs", "truncated record", "record of another image"])
def test_a_damaged_image_is_built_anew(machine: FakeMachine, recipe: Recipe, cache: Path, harm: str) -> None:
    image = ensure_image(recipe, cache)
    record = image.rootfs.parent / "image.json"
    if harm == "no tar":
        image.tar.unlink()
    elif harm == "no rootfs":
        shutil.rmtree(image.rootfs)
    elif harm == "truncated record":
        record.write_text(record.read_text()[:20])
    else:
        record.write_text(json.dumps({"name": "test", "digest": "0" * 32}))
    assert list_images(cache) == ()
    again = ensure_image(recipe, cache)
    assert again.tar.is_file()
    assert (machine.count("mmdebstrap"), machine.count("unshare")) == (1, 2)


def test_what_is_missing_is_told_before_anything_is_done(
    machine: FakeMachine, recipe: Recipe, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("a file where the folder should be")
    with pytest.raises(InfrastructureError, match="XDG_CACHE_HOME"):
        ensure_image(recipe, tmp_path / "file")
    monkeypatch.setattr(build, "_NEEDED_BYTES", 1 << 62)
    with pytest.raises(InfrastructureError, match="are free"):
        ensure_image(recipe, cache)
    assert not machine.commands
    monkeypatch.setattr(process, "find", lambda program: None)
    with pytest.raises(MissingTool, match="apt-get install mmdebstrap"):
        ensure_image(recipe, cache)


def test_mmdebstrap_gets_the_machine_s_sources_and_proxy(machine: FakeMachine, recipe: Recipe, cache: Path) -> None:
    suites = ("bookworm|main", "bookworm-security|main", "bookworm|contrib", "bookworm-backports|main", "trixie|main")
    machine.sources = "".join(f"mirror/debian/|{suite}|Debian\n" for suite in (*suites, suites[0]))
    machine.sources += "vendor/apt/|bookworm|main|Vendor\nvendor/cloud/|cloud-bookworm|main|\n"
    of_debian = tuple(f"deb mirror/debian/ {suite} main" for suite in ("bookworm", "bookworm-security"))
    assert debian_sources("bookworm") == of_debian
    machine.apt_config = (
        'Acquire::http::Proxy "proxy:3142";\nAcquire::Check-Date "false";\n'
        'Acquire::Languages:: "none";\nAPT::Sandbox "";\n'
    )
    ensure_image(recipe, cache)
    argv = next(argv for argv in machine.commands if argv[0] == "mmdebstrap")
    assert '--aptopt=Acquire::http::Proxy "proxy:3142"' in argv
    assert '--aptopt=Acquire::Check-Date "false"' in argv
    assert not any("Languages" in token or "Sandbox" in token for token in argv)


def test_images_are_cached(
    machine: FakeMachine, recipe: Recipe, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("TARE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert ensure_image(recipe).rootfs == tmp_path / "tare" / "images" / recipe.digest / "rootfs"


@pytest.fixture
def host(machine: FakeMachine, recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a compiler of a machine on which the recipe's kernels can be built."""
    compiler = tmp_path / "mpicc"
    compiler.write_text("compiler")
    monkeypatch.setattr(kernels, "kernels_source", lambda: recipe.kernels)
    monkeypatch.setattr(kernels, "miniapps_source", lambda: recipe.miniapps)
    monkeypatch.setattr(process, "find", lambda program: str(compiler))
    return compiler


def test_kernels_are_built_once_for_each_source(machine: FakeMachine, host: Path, cache: Path, recipe: Recipe) -> None:
    first = ensure_kernels("openmpi", cache)
    assert all(path.is_file() for path in (first.program, first.miniapps, first.wall_library))
    assert not list(first.prefix.glob("build*"))
    assert ensure_kernels("openmpi", cache) == first
    assert ensure_kernels("mpich", cache).prefix != first.prefix
    assert machine.count("cmake") == 2 * 2 * 3  # kernels and mini-applications: configure, build, install
    digests = {first.digest}
    for changed in (host, recipe.kernels / "main.c", recipe.miniapps / "main.c"):
        changed.write_text("\n")
        digests.add(ensure_kernels("openmpi", cache).digest)
    assert len(digests) == 4


def test_broken_kernels_leave_nothing(
    machine: FakeMachine, host: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(_source: Path, wrapper: Path, _prefix: Path) -> None:
        process.run((str(wrapper), "main.c"))

    monkeypatch.setattr(kernels, "build_kernels", build)
    machine.fail = f"cmake {host}"
    with pytest.raises(InfrastructureError, match="building the kernels for openmpi failed"):
        ensure_kernels("openmpi", cache)
    assert all(path.name.startswith(".lock") for path in (cache / "kernels").iterdir())


def test_kernels_of_an_unknown_mpi_or_without_sources_are_refused(
    machine: FakeMachine, host: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="known: openmpi, openmpi5, mpich"):
        ensure_kernels("lam", cache)
    assert ensure_kernels("lam", cache, compiler=host).program.is_file()
    monkeypatch.undo()
    monkeypatch.setattr("tare.images.sources.FOLDER", tmp_path / "site/tare/images/sources")
    with pytest.raises(InfrastructureError, match="site/tare/images/sources/kernels") as caught:
        ensure_kernels("openmpi", cache, compiler=tmp_path)
    assert "make setup" in str(caught.value)


@pytest.fixture
def twin(machine: FakeMachine, recipe: Recipe, host: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recipe:
    """Return a recipe of the Debian that this machine has, with the same packages."""
    release = tmp_path / "os-release"
    release.write_text('PRETTY_NAME="Debian"\nID=debian\nVERSION_CODENAME=bookworm\n')
    monkeypatch.setattr(host_build, "OS_RELEASE", release)
    monkeypatch.setattr(host_build, "kernels_source", lambda: recipe.kernels)
    monkeypatch.setattr(host_build, "miniapps_source", lambda: recipe.miniapps)
    machine.installed = {"libc6-dev": "2.36-9", "libopenmpi-dev": "4.1.4-3"}
    machine.fits = "libc6 2.36-9\nlibopenmpi3 4.1.4-3"
    return dataclasses.replace(recipe, same={"libc6": "libc6-dev", "libopenmpi3": "libopenmpi-dev"})


def test_an_image_of_the_same_packages_gets_own_programs(machine: FakeMachine, twin: Recipe, cache: Path) -> None:
    image = ensure_image(twin, cache)
    assert machine.count("unshare") == 0
    assert (image.rootfs / "opt/tare/bin/tare-kernels").is_file()
    assert not list((cache / "roots").glob("*/builder"))
    machine.installed["libopenmpi-dev"] = "4.1.4-9"
    (twin.miniapps / "main.c").write_text("\n")
    ensure_image(twin, cache)
    assert (machine.count("mmdebstrap"), machine.count("unshare")) == (2, 1)


@pytest.mark.parametrize("difference", ["release", "not installed", "other version", "other sources", "no compiler"])
def test_programs_are_compiled_inside_any_other_image(
    machine: FakeMachine, twin: Recipe, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, difference: str
) -> None:
    match difference:
        case "release":
            host_build.OS_RELEASE.write_text("ID=debian\nVERSION_CODENAME=trixie\n")
        case "not installed":
            del machine.installed["libopenmpi-dev"]
        case "other version":
            machine.fits = "libc6 2.36-9\nlibopenmpi3 4.1.4-4"
        case "other sources":
            shutil.copytree(twin.kernels, tmp_path / "changed")
            twin = dataclasses.replace(twin, kernels=tmp_path / "changed")
        case "no compiler":
            monkeypatch.setattr(process, "find", lambda program: None if program == "gcc" else "/usr/bin/x")
    ensure_image(twin, cache)
    assert machine.count("unshare") == 1
