"""A user's own image is unpacked once, by what is in it; what cannot be used is told in a sentence."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import struct
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tare.deploy.fit import mpi_inside, no_such_workdir, unfit_for_kernels, unfit_for_launch
from tare.errors import UsageError
from tare.images.build import list_images
from tare.images.inside import layered, sif
from tare.images.inside.archive import architecture, config, write_docker_archive, write_oci_layout
from tare.images.inside.variables import merged, parse_exports, variables_of
from tare.images.kernels import KernelBuild
from tare.images.own import ensure_own, kind_of
from tare.model import Environment, Launching


def layer(path: Path, *entries: tuple[str, Any]) -> Path:
    """Write a tar: (name, content), (name, None) a folder, (name, ("->", target)) a link."""
    with tarfile.open(path, "w") as packed:
        for name, what in entries:
            member = tarfile.TarInfo(name)
            if what is None:
                member.type, member.mode = tarfile.DIRTYPE, 0o755
            elif isinstance(what, tuple):
                member.type, member.linkname = tarfile.SYMTYPE, what[1]
            content = what.encode() if isinstance(what, str) else b""
            member.size = len(content)
            packed.addfile(member, io.BytesIO(content))
    return path


def docker_archive(path: Path, *layers: Path, env: tuple[str, ...] = ()) -> Path:
    told = json.dumps({"architecture": architecture(), "config": {"Env": env, "Entrypoint": ["/x"]}}).encode()
    manifest = json.dumps([{"Config": "c.json", "RepoTags": None, "Layers": [each.name for each in layers]}]).encode()
    with tarfile.open(path, "w") as packed:
        for each in layers:
            packed.add(each, each.name)
        for name, content in (("c.json", told), ("manifest.json", manifest)):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            packed.addfile(member, io.BytesIO(content))
    return path


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.mark.root
@pytest.mark.requires("root")
def test_layers_are_laid_over_each_other_and_whiteouts_remove(tmp_path: Path, cache: Path) -> None:
    first = layer(
        tmp_path / "a.tar", ("usr", None), ("usr/old", "x"), ("usr/kept", "k"), ("lib", ("->", "usr")),
        ("var", None), ("var/a", "1"), ("run", None), ("var/run", ("->", "/run")),
    )  # fmt: skip
    second = layer(tmp_path / "b.tar", ("usr/.wh.old", ""), ("lib/new", "n"), ("var/.wh..wh..opq", ""), ("var/b", "2"))
    path = docker_archive(tmp_path / "mine.tar", first, second, env=("PATH=/opt/bin:/bin", "A=b=c", "bad"))
    image = ensure_own(path, cache)
    files = {str(p.relative_to(image.rootfs)): p.read_text() for p in image.rootfs.rglob("*") if p.is_file()}
    assert {"usr/kept", "usr/new", "var/b", "etc/hosts"} <= set(files)
    assert {"usr/old", "var/a"} & set(files) == set()
    assert (image.rootfs / "proc").is_dir()
    assert image.variables == ("PATH=/opt/bin:/bin", "A=b=c")
    assert image.source == str(path)
    assert image in list_images(cache)


@pytest.mark.root
@pytest.mark.requires("root")
def test_a_layer_leads_nowhere_outside(tmp_path: Path, cache: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    first = layer(tmp_path / "a.tar", ("out", ("->", str(outside))), ("../../up", "u"))
    second = layer(tmp_path / "b.tar", ("out/evil", "e"), ("out/.wh.x", ""), ("/abs", "a"))
    with pytest.raises(UsageError, match="cannot be unpacked"):
        ensure_own(docker_archive(tmp_path / "mine.tar", first, second), cache)
    assert list(outside.iterdir()) == []
    fine = layer(tmp_path / "c.tar", ("../../up", "u"), ("/abs", "a"))
    rootfs = ensure_own(docker_archive(tmp_path / "fine.tar", fine), cache).rootfs
    assert {"up", "abs"} <= {path.name for path in rootfs.iterdir()}


@pytest.mark.root
@pytest.mark.requires("root")
def test_archives_of_ours_come_back_as_they_were_and_once(tmp_path: Path, cache: Path) -> None:
    packed = layer(tmp_path / "root.tar", ("./etc", None), ("./etc/name", "tiny\n"))
    told = config(hashlib.sha256(packed.read_bytes()).hexdigest(), ("PATH=/bin",), {})
    write_docker_archive(tmp_path / "x.tar", packed, told, "tare/x:1")
    write_oci_layout(tmp_path / "y.tar", packed, told, "1")
    (tmp_path / "z.tar.gz").write_bytes(gzip.compress((tmp_path / "x.tar").read_bytes()))
    with tarfile.open(tmp_path / "y.tar") as layout:
        layout.extractall(tmp_path / "layout")
    for name in ("x.tar", "y.tar", "z.tar.gz", "layout"):
        said: list[str] = []
        image = ensure_own(tmp_path / name, cache, said.append)
        assert (image.rootfs / "etc/name").read_text() == "tiny\n"
        assert image.variables == ("PATH=/bin",)
        assert ensure_own(tmp_path / name, cache, said.append) == image
        assert said == [f"image {name}: unpacking it"]


def test_a_folder_is_used_where_it_is_and_known_by_its_metadata(tmp_path: Path, cache: Path) -> None:
    folder = tmp_path / "root"
    for name in ("dev", "proc", "sys", "tmp", "ch"):
        (folder / name).mkdir(parents=True)
    (folder / "ch/environment").write_text("A=1\nA=2\n")
    image = ensure_own(folder, cache)
    assert (image.rootfs, image.foreign, image.variables) == (folder, True, ("A=2",))
    assert ensure_own(folder, cache) == image
    (folder / "new").write_text("")
    assert ensure_own(folder, cache).digest != image.digest
    assert {path.name for path in folder.iterdir()} == {"dev", "proc", "sys", "tmp", "ch", "new"}


# --- what cannot be used -------------------------------------------------------------------------------------------


def a_sif(*, machine: bytes = b"02", file_system: int = sif.SQUASHFS, size: int = 100, part: int = 2) -> bytes:
    at = sif.HEADER.size
    data = at + sif.DESCRIPTOR.size
    header = sif.HEADER.pack(b"#!/usr/bin/env run-singularity\n", sif.MAGIC, b"01\0", machine, b"", 0, 0, 0, 1, at,
                             sif.DESCRIPTOR.size, data, size)  # fmt: skip
    extra = sif.PARTITION.pack(file_system, part, machine)
    entry = sif.DESCRIPTOR.pack(sif.DATA_PARTITION, True, 1, 1, 0, data, size, size, 0, 0, 0, 0, b"root", extra)
    return header + entry + b"hsqs" + bytes(size - 4)


def test_the_root_of_a_sif_is_where_its_table_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sif, "architecture", lambda: "amd64")
    (tmp_path / "x.sif").write_bytes(a_sif())
    assert kind_of(tmp_path / "x.sif") == "sif"
    found = sif.root_partition(tmp_path / "x.sif")
    assert found == sif.Partition(offset=sif.HEADER.size + sif.DESCRIPTOR.size, size_bytes=100)
    assert sif.DESCRIPTOR.size == 585
    assert sif.HEADER.size == 128


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (a_sif()[:90], "is truncated"),
        (a_sif()[:300], "is truncated"),
        (a_sif()[:-1], "is truncated"),
        (a_sif(machine=b"04"), "is for arm64, and this machine is amd64"),
        (a_sif(file_system=sif.ENCRYPTED), "is encrypted"),
        (a_sif(part=1), "without a root file system"),
        (a_sif()[:88] + struct.pack("<q", 10**9) + a_sif()[96:], "is damaged"),
        (a_sif(), "cannot be unpacked"),
        (b"hsqs" + bytes(36) + struct.pack("<q", 10**6), "is truncated"),
        (b"hsqs", "is truncated"),
        (b"", "is empty"),
        (b"nonsense", "is not a SIF"),
    ],
)
def test_a_sif_that_cannot_be_used_is_told_in_a_sentence(
    content: bytes, told: str, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sif, "architecture", lambda: "amd64")
    (tmp_path / "x.sif").write_bytes(content)
    with pytest.raises(UsageError, match=told) as refused:
        ensure_own(tmp_path / "x.sif", cache)
    assert str(tmp_path / "x.sif") in refused.value.message
    assert refused.value.exit_code == 2
    assert list_images(cache) == ()


def test_other_things_that_are_no_images_are_told(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(UsageError, match="no image found at"):
        ensure_own(tmp_path / "none", cache)
    with pytest.raises(UsageError, match="is not a root file system: it lacks dev, proc"):
        ensure_own(tmp_path, cache)
    plain = layer(tmp_path / "plain.tar", ("etc", None))
    with pytest.raises(UsageError, match=r"is not an image: it lacks index.json"):
        ensure_own(plain, cache)
    archive = docker_archive(tmp_path / "x.tar", layer(tmp_path / "a.tar", ("big", "x" * 20000)))
    archive.write_bytes(archive.read_bytes()[:12000])
    with pytest.raises(UsageError, match="is truncated or damaged"):
        ensure_own(archive, cache)


# --- its variables -------------------------------------------------------------------------------------------------


def test_plain_exports_of_a_sif_are_its_variables() -> None:
    script = """
    export PATH="/opt/mpi/bin:$PATH"
    export A='$PATH' ; export
    export B="${B:-"two words"}"
    export C=$(date)
    export APPTAINER_NAME=x
    if true; then export D=${A}d; fi
    export E=plain
    """
    told = dict(each.split("=", 1) for each in parse_exports(script))
    assert told["PATH"].startswith("/opt/mpi/bin:/usr/local/sbin:")
    assert (told["B"], told["E"]) == ("two words", "plain")
    assert {"C", "APPTAINER_NAME"} & set(told) == set()


def test_of_several_variables_the_last_holds() -> None:
    assert merged(("A=1", "B=2"), (), ("A=3", "no", "1=2")) == ("A=3", "B=2")


def test_an_image_without_any_has_none(tmp_path: Path) -> None:
    assert variables_of(tmp_path) == ()


# --- whether it fits -----------------------------------------------------------------------------------------------


def image_with(tmp_path: Path, cache: Path, **files: bytes) -> Any:
    folder = tmp_path / "mine"
    for name in ("dev", "proc", "sys", "tmp", "usr/bin", "usr/lib"):
        (folder / name).mkdir(parents=True)
    for name, content in files.items():
        path = folder / name.replace("__", "/").replace("_so_", ".so.")
        path.write_bytes(content)
    mpi_inside.cache_clear()
    return ensure_own(folder, cache)


def wanted(**more: Any) -> Environment:
    return Environment(name="docker", runtime="docker", network="host", image="/x/mine", **more)


def test_an_image_without_an_mpi_is_named_before_launch_with_the_remedy(tmp_path: Path, cache: Path) -> None:
    image = image_with(tmp_path, cache)
    reason = unfit_for_launch(image, wanted())
    assert reason is not None
    assert reason.startswith("mine has no MPI")
    assert "launch: host-mpi" in reason
    assert unfit_for_launch(image, wanted(launch=Launching.HOST_MPI)) is None


@pytest.mark.parametrize(
    ("files", "environment", "told"),
    [
        ({"usr__lib__libmpi_so_12": b"\x004.0.2\x00"}, wanted(), "has MPICH inside, which Open MPI cannot start"),
        ({"usr__lib__libmpi_so_40": b"\x004.1.4\x00"}, wanted(), "not its daemon, orted"),
        ({"usr__lib__libmpi_so_40": b"\x004.1.2\x00", "usr__bin__orted": b"x"}, wanted(), None),
        ({"usr__lib__libmpi_so_40": b"\x004.1.2\x00"}, wanted(launch=Launching.HYBRID), None),
        (
            {"usr__lib__libmpi_so_40": b"\x004.1.2\x00", "usr__bin__orted": b"x", "usr__bin__ssh": b"x"},
            wanted(launch=Launching.MPIJOB),
            "has no /usr/sbin/sshd, and the MPI Operator starts ranks by ssh",
        ),
    ],
)
def test_an_mpi_that_does_not_fit_the_launcher_is_named(
    files: dict[str, bytes], environment: Environment, told: str | None, tmp_path: Path, cache: Path
) -> None:
    reason = unfit_for_launch(image_with(tmp_path, cache, **files), environment)
    assert reason is None if told is None else told in str(reason)


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({}, "has no GNU C library"),
        ({"usr__lib__libc_so_6": b"GLIBC_2.30\0"}, "need glibc 2.34, and mine has 2.30"),
        ({"usr__lib__libc_so_6": b"GLIBC_2.36\0"}, "need libmpi.so.40, and mine has no MPI"),
        (
            {"usr__lib__libc_so_6": b"GLIBC_2.36\0", "usr__lib__libmpi_so_12": b"x"},
            "need libmpi.so.40, and mine has libmpi.so.12",
        ),
        ({"usr__lib__libc_so_6": b"GLIBC_2.36\0", "usr__lib__libmpi_so_40": b"x"}, None),
    ],
)
def test_kernels_of_this_machine_are_shown_only_where_they_can_run(
    files: dict[str, bytes], told: str | None, tmp_path: Path, cache: Path
) -> None:
    build = KernelBuild(prefix=tmp_path / "kernels", digest="")
    for path in (build.program, build.wall_library):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\0libmpi.so.40\0GLIBC_2.34\0")
    reason = unfit_for_kernels(image_with(tmp_path, cache, **files), build)
    assert reason is None if told is None else told in str(reason)


def test_a_folder_to_work_in_must_be_in_the_image_or_bound(tmp_path: Path, cache: Path) -> None:
    image = image_with(tmp_path, cache)
    assert no_such_workdir(image, wanted(workdir="/usr/lib")) is None
    assert no_such_workdir(image, wanted(workdir="/tmp")) is None
    assert no_such_workdir(image, wanted(workdir="/data/deep", binds=("/x:/data",))) is None
    assert "there is no /data" in (no_such_workdir(image, wanted(workdir="/data", binds=("/x:/dat",))) or "")


def test_what_unpacks_a_layer_tells_of_one_that_it_cannot_read(tmp_path: Path) -> None:
    (tmp_path / "broken").write_bytes(b"x" * 600)
    done = subprocess.run([sys.executable, str(layered.UNPACK), str(tmp_path), str(tmp_path / "broken"), "9", "9"],
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 1
    assert "could not be opened" in done.stderr
