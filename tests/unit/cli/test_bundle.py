"""The bundle: what it holds, and an installer that takes nothing from a damaged or hostile one."""

from __future__ import annotations

import ast
import json
import platform
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import tare
from tare.cli.bundle import command, install, wheels
from tare.cli.bundle.archive import write_zip
from tare.errors import UsageError

VERSION = f"3.{sys.version_info.minor}"


def bundle(path: Path, files: Mapping[str, bytes], **stated: Any) -> zipfile.ZipFile:
    """Write a bundle of files."""
    manifest = {"tare": "1.2.3", "pythons": [VERSION], "machine": platform.machine(), **stated}
    write_zip(path, {**files, "__main__.py": b"", "manifest.json": json.dumps(manifest).encode()})
    return zipfile.ZipFile(path)


@pytest.mark.parametrize(("python", "numpy"), [("3.11", "numpy==2.4.6"), ("3.13", "numpy==2.5.5")])
def test_the_locked_packages_are_those_for_the_wanted_python_each_with_hashes(python: str, numpy: str) -> None:
    lines = wheels.requirements(python).splitlines()
    assert next(line for line in lines if line.startswith("numpy==")).split()[0] == numpy
    assert all(" --hash=sha256:" in line for line in lines)
    names = {line.partition("==")[0] for line in lines}
    assert {"scipy", "pyroute2", "pip"} <= names
    assert not {"colorama", "win-inet-pton"} & names


def test_own_wheel_and_zip_depend_on_their_contents_alone(tmp_path: Path) -> None:
    one, two = (
        wheels.own_wheel(folder) for folder in (tmp_path, tmp_path / "again") if folder.mkdir(exist_ok=True) is None
    )
    assert one.read_bytes() == two.read_bytes()
    with zipfile.ZipFile(one) as wheel:
        names = set(wheel.namelist())
        record = wheel.read(f"tare_hpc-{tare.__version__}.dist-info/RECORD").decode().splitlines()
        assert b"tare = tare.cli.app:main" in wheel.read(f"tare_hpc-{tare.__version__}.dist-info/entry_points.txt")
    assert {line.split(",")[0] for line in record} == names
    assert {"tare/cli/bundle/lock_run.txt", "tare/images/sources/kernels/CMakeLists.txt"} <= names
    assert not any("__pycache__" in name for name in names)
    (tmp_path / "file").write_bytes(b"content" * 1000)
    write_zip(tmp_path / "one", {"b": tmp_path / "file", "a": b"x"}, head=b"#!\n", first="b")
    (tmp_path / "file").touch()
    write_zip(tmp_path / "two", {"a": b"x", "b": tmp_path / "file"}, head=b"#!\n", first="b")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    with zipfile.ZipFile(tmp_path / "one") as archive:
        assert archive.namelist() == ["b", "a"]


@pytest.mark.parametrize("version", ["3.9", "3.10", "2.7", "4.0", "python3.13", ""])
def test_a_python_that_cannot_run_the_head_is_refused(version: str) -> None:
    with pytest.raises(UsageError, match="does not run with Python"):
        command.checked(version)


@pytest.mark.parametrize(("name", "words"), [("./app.sif", "is a path"), ("debian-nothing", "unknown image")])
def test_an_image_that_a_bundle_cannot_hold_is_refused(name: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        command.images_of([name])


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "here").write_text("mine")
    with pytest.raises(UsageError, match="already exists"):
        command.write_bundle(tmp_path / "here", [], [])
    assert (tmp_path / "here").read_text() == "mine"


def test_root_installs_where_nobody_else_can_put_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setattr(install.os, "geteuid", lambda: 0)
    with pytest.raises(install.InstallError, match="open can be changed by another user") as caught:
        install.check_folder(tmp_path / "open" / "new")
    assert caught.value.code == install.EXIT_USAGE
    monkeypatch.setattr(install.os, "geteuid", lambda: 1000)
    install.check_folder(tmp_path / "open" / "new")


def test_the_installer_is_python_3_9_imports_the_standard_library_alone_and_shows_its_help(tmp_path: Path) -> None:
    tree = ast.parse(command.INSTALLER.read_text(), feature_version=(3, 9))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names
    with (tmp_path / "bundle").open("wb"):
        command.write_archive(tmp_path / "bundle", {}, [VERSION])
    done = subprocess.run(
        (sys.executable, "-IS", str(tmp_path / "bundle"), "--help"), capture_output=True, text=True, check=True
    )
    assert "usage: python3 bundle" in done.stdout


WHEEL = "wheels/a-1-py3-none-any.whl"
RIGHT = {WHEEL: b"right"}
HOSTILE = [
    "/etc/passwd",
    "../victim",
    "wheels/../../victim.whl",
    "wheels/.hidden.whl",
    "wheels/a/b.whl",
    "wheels/a.whl\n",
    "images/0123/rootfs.tar",
    "images/0123456789abcdef0123456789abcdef/../../victim",
    "venv/bin/python",
]
DAMAGED: list[dict[str, Any]] = [
    {"pythons": ["../x"]}, {"pythons": [3]}, {"pythons": None}, {"more": "x" * install.MOST_MANIFEST_BYTES},
]  # fmt: skip


@pytest.mark.parametrize(
    ("files", "stated", "words"),
    [
        *(({name: b"bad"}, {}, "invalid name") for name in HOSTILE),
        *((RIGHT, stated, "this bundle is damaged") for stated in DAMAGED),
        (RIGHT, {"machine": "vax"}, "this bundle is for vax"),
        (RIGHT, {"pythons": ["3.99"]}, "this bundle is for Python 3.99"),
    ],
)
def test_a_hostile_or_damaged_bundle_or_one_for_another_machine_is_refused_before_anything_is_written(
    files: dict[str, bytes], stated: dict[str, Any], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle(tmp_path / "bundle", files, **stated).close()
    assert install.main([str(tmp_path / "here")], tmp_path / "bundle") == install.EXIT_FAILED
    assert words in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]


def test_a_file_twice_is_refused(tmp_path: Path) -> None:
    bundle(tmp_path / "bundle", RIGHT).close()
    with zipfile.ZipFile(tmp_path / "bundle", "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr(WHEEL, b"wrong")
    with (
        zipfile.ZipFile(tmp_path / "bundle") as archive,
        pytest.raises(install.InstallError, match="two files of one name"),
    ):
        install.read_manifest(archive)


def test_a_file_with_other_bytes_than_the_archive_says_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle(tmp_path / "bundle", RIGHT).close()
    data = (tmp_path / "bundle").read_bytes()
    (tmp_path / "bundle").write_bytes(data.replace(RIGHT[WHEEL], b"wrong", 1))
    assert install.main([str(tmp_path / "here")], tmp_path / "bundle") == install.EXIT_FAILED
    assert "is damaged: Bad CRC-32" in capsys.readouterr().err
    assert list((tmp_path / "here").iterdir()) == []


def test_a_bundle_that_would_fill_the_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "MOST_UNPACKED_BYTES", 4)
    with bundle(tmp_path / "bundle", RIGHT) as archive, pytest.raises(install.InstallError, match="would need"):
        install.unpack(archive, tmp_path)
    assert not (tmp_path / "wheels").exists()


def test_a_bundle_too_large_for_the_disk_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "KEPT_FREE_BYTES", 1 << 60)
    with (
        bundle(tmp_path / "bundle", RIGHT) as archive,
        pytest.raises(install.InstallError, match="more room"),
    ):
        install.unpack(archive, tmp_path)
    assert not (tmp_path / "wheels").exists()


def test_a_virtual_environment_of_the_user_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle(tmp_path / "bundle", RIGHT).close()
    (tmp_path / "here/venv").mkdir(parents=True)
    assert install.main([str(tmp_path / "here")], tmp_path / "bundle") == install.EXIT_USAGE
    assert "is not of a bundle" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["venv"]


def test_a_truncated_bundle_is_reported(tmp_path: Path) -> None:
    bundle(tmp_path / "bundle", {WHEEL: b"right" * 1000}).close()
    (tmp_path / "cut").write_bytes((tmp_path / "bundle").read_bytes()[:-200])
    argv = (sys.executable, str(command.INSTALLER), str(tmp_path / "here"))
    assert install.main(argv[2:], tmp_path / "cut") == install.EXIT_FAILED
    assert not (tmp_path / "here").exists()
