"""A user's own image is unpacked once, and its files are opened and written below its folder."""

from __future__ import annotations

import gzip
import hashlib
import os
import stat
import struct
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from nodes import make_node, make_request
from tare.errors import ImageError, UsageError
from tare.images.build import list_images
from tare.images.host_mpi import glibc_needed, glibc_of
from tare.images.inside import image_layers, safe_paths, sif
from tare.images.inside.archive import architecture, config, write_docker_archive, write_oci_layout
from tare.images.inside.inspect import mpi_of
from tare.images.inside.safe_paths import check_places, inside, make_folder, open_file, read_file, write_file
from tare.images.inside.variables import merged, parse_exports, variables_of
from tare.images.kernels import KernelBuild
from tare.images.own_images import _digest, ensure_own, kind_of
from tare.model import Environment, Launching
from tare.networks.wiring.plug import Wiring
from tare.runtimes.bare import Bare
from tare.runtimes.charliecloud import Charliecloud
from tare.runtimes.containers import held_namespaces as held_module
from tare.study.feasibility.fit import mpi_inside, no_such_workdir, unfit_for_kernels, unfit_for_launch
from unit.images import writing
from unit.images.writing import a_sif, folder, link, member, put, root, symlink, tar


@root
def test_layers_are_laid_over_each_other_and_whiteouts_remove(tmp_path: Path, cache: Path) -> None:
    first = [
        folder("usr"), member("usr/old", b"x"), member("usr/kept", b"k"), symlink("lib", "usr"), folder("var"),
        member("var/a", b"1"), folder("run"), symlink("var/run", "/run"),
    ]  # fmt: skip
    second = [member("usr/.wh.old"), member("lib/new", b"n"), member("var/.wh..wh..opq"), member("var/b", b"2")]
    stated = {"Env": ["PATH=/opt/bin:/bin", "A=b=c", "bad"], "Entrypoint": ["/x"]}
    stated = {"architecture": architecture(), "config": stated}
    path = writing.layered(tmp_path / "mine.tar", first, second, config=stated, RepoTags=None)
    image = ensure_own(path, cache)
    files = {str(p.relative_to(image.rootfs)): p.read_text() for p in image.rootfs.rglob("*") if p.is_file()}
    assert {"usr/kept", "usr/new", "var/b", "etc/hosts"} <= set(files)
    assert {"usr/old", "var/a"} & set(files) == set()
    assert (image.rootfs / "proc").is_dir()
    assert (image.variables, image.source) == (("PATH=/opt/bin:/bin", "A=b=c"), str(path))
    assert image in list_images(cache)


@root
def test_a_layer_leads_nowhere_outside(tmp_path: Path, cache: Path, victim: Path) -> None:
    first = [symlink("out", victim), member("../../up", b"u")]
    second = [member("out/evil", b"e"), member("out/.wh.secret"), member("/abs", b"a")]
    with pytest.raises(UsageError, match="cannot be unpacked"):
        ensure_own(writing.layered(tmp_path / "mine.tar", first, second), cache)
    assert [path.name for path in victim.iterdir()] == ["secret"]
    fine = [member("../../up", b"u"), member("/abs", b"a")]
    rootfs = ensure_own(writing.layered(tmp_path / "fine.tar", fine), cache).rootfs
    assert {"up", "abs"} <= {path.name for path in rootfs.iterdir()}


@root
def test_archives_of_ours_come_back_as_they_were_and_once(tmp_path: Path, cache: Path) -> None:
    packed = tar(tmp_path / "root.tar", folder("./etc"), member("./etc/name", b"tiny\n"))
    told = config(hashlib.sha256(packed.read_bytes()).hexdigest(), ("PATH=/bin",), {})
    write_docker_archive(tmp_path / "x.tar", packed, told, "tare/x:1")
    write_oci_layout(tmp_path / "y.tar", packed, told, "1")
    (tmp_path / "z.tar.gz").write_bytes(gzip.compress((tmp_path / "x.tar").read_bytes()))
    with tarfile.open(tmp_path / "y.tar") as layout:
        layout.extractall(tmp_path / "layout")
    for name in ("x.tar", "y.tar", "z.tar.gz", "layout"):
        said: list[str] = []
        image = ensure_own(tmp_path / name, cache, said.append)
        assert ((image.rootfs / "etc/name").read_text(), image.variables) == ("tiny\n", ("PATH=/bin",))
        assert ensure_own(tmp_path / name, cache, said.append) == image
        assert said == [f"image {name}: unpacking it"]


def test_a_folder_is_used_where_it_is_and_known_by_its_metadata(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "root"
    for name in ("dev", "proc", "sys", "tmp", "ch"):
        (path / name).mkdir(parents=True)
    put(path, "ch/environment", b"A=1\nA=2\n")
    image = ensure_own(path, cache)
    assert (image.rootfs, image.foreign, image.variables) == (path, True, ("A=2",))
    assert ensure_own(path, cache) == image
    put(path, "new")
    assert ensure_own(path, cache).digest != image.digest
    assert {each.name for each in path.iterdir()} == {"dev", "proc", "sys", "tmp", "ch", "new"}


def sif_of(machine: bytes = b"02", **stated: int) -> bytes:
    return a_sif(b"hsqs" + bytes(96), machine, **stated)


def test_the_root_of_a_sif_is_found_and_a_broken_layer_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sif, "architecture", lambda: "amd64")
    path = put(tmp_path, "x.sif", sif_of())
    assert kind_of(path) == "sif"
    assert sif.root_partition(path) == sif.Partition(offset=sif.HEADER.size + sif.DESCRIPTOR.size, size_bytes=100)
    assert (sif.DESCRIPTOR.size, sif.HEADER.size) == (585, 128)
    broken = put(tmp_path, "broken", b"x" * 600)
    argv = [sys.executable, str(image_layers.UNPACK), str(tmp_path), str(broken), *["9"] * 4]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "invalid header" in done.stderr


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (sif_of()[:90], "is truncated"), (sif_of()[:300], "is truncated"), (sif_of()[:-1], "is truncated"),
        (sif_of(machine=b"04"), "is for arm64, and this machine is amd64"),
        (sif_of(file_system=sif.ENCRYPTED), "is encrypted"), (sif_of(part=1), "without a root file system"),
        (sif_of()[:88] + struct.pack("<q", 10**9) + sif_of()[96:], "is damaged"), (sif_of(), "cannot be unpacked"),
        (b"hsqs" + bytes(36) + struct.pack("<q", 10**6), "is truncated"), (b"hsqs", "is truncated"),
        (b"", "is empty"), (b"nonsense", "is not a SIF"),
    ],
)  # fmt: skip
def test_a_sif_that_cannot_be_used_is_told_in_a_sentence(
    content: bytes, told: str, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sif, "architecture", lambda: "amd64")
    with pytest.raises(UsageError, match=told) as refused:
        ensure_own(put(tmp_path, "x.sif", content), cache)
    assert str(tmp_path / "x.sif") in refused.value.message
    assert (refused.value.exit_code, list_images(cache)) == (2, ())


def test_other_things_that_are_no_images_are_told(tmp_path: Path, cache: Path) -> None:
    archive = writing.layered(tmp_path / "x.tar", [member("big", b"x" * 20000)])
    archive.write_bytes(archive.read_bytes()[:12000])
    for path, words in (
        (tmp_path / "none", "no image found at"),
        (tmp_path, "is not a root file system: it lacks dev, proc"),
        (tar(tmp_path / "plain.tar", folder("etc")), r"is not an image: it lacks index.json"),
        (archive, "is truncated or damaged"),
    ):
        with pytest.raises(UsageError, match=words):
            ensure_own(path, cache)


def test_plain_exports_of_a_sif_are_its_variables_and_of_several_the_last_holds(tmp_path: Path) -> None:
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
    assert ((told["B"], told["E"]), {"C", "APPTAINER_NAME"} & set(told)) == (("two words", "plain"), set())
    assert (merged(("A=1", "B=2"), (), ("A=3", "no", "1=2")), variables_of(tmp_path)) == (("A=3", "B=2"), ())


MPI_12, MPI_40, LIBC = "usr/lib/libmpi.so.12", "usr/lib/libmpi.so.40", "usr/lib/libc.so.6"
Files = dict[str, bytes]


def image_with(tmp_path: Path, cache: Path, files: Files | None = None) -> Any:
    path = tmp_path / "mine"
    for name in ("dev", "proc", "sys", "tmp", "usr/bin", "usr/lib"):
        (path / name).mkdir(parents=True)
    for name, content in (files or {}).items():
        put(path, name, content)
    mpi_inside.cache_clear()
    return ensure_own(path, cache)


def wanted(**more: Any) -> Environment:
    return Environment(name="docker", runtime="docker", network="host", image="/x/mine", **more)


def test_an_image_without_an_mpi_or_its_workdir_is_told_before_launch(tmp_path: Path, cache: Path) -> None:
    image = image_with(tmp_path, cache)
    reason = str(unfit_for_launch(image, wanted()))
    assert reason.startswith("mine has no MPI")
    assert "launch: host-mpi" in reason
    assert unfit_for_launch(image, wanted(launch=Launching.HOST_MPI)) is None
    for fine in ({"workdir": "/usr/lib"}, {"workdir": "/tmp"}, {"workdir": "/data/deep", "binds": ("/x:/data",)}):
        assert no_such_workdir(image, wanted(**fine)) is None
    assert "there is no /data" in (no_such_workdir(image, wanted(workdir="/data", binds=("/x:/dat",))) or "")


@pytest.mark.parametrize(
    ("files", "environment", "told"),
    [
        ({MPI_12: b"\x004.0.2\x00"}, wanted(), "has MPICH inside, which Open MPI cannot start"),
        ({MPI_40: b"\x004.1.4\x00"}, wanted(), "not its daemon, orted"),
        ({MPI_40: b"\x004.1.2\x00", "usr/bin/orted": b"x"}, wanted(), None),
        ({MPI_40: b"\x004.1.2\x00"}, wanted(launch=Launching.HYBRID), None),
        ({MPI_40: b"\x004.1.2\x00", "usr/bin/orted": b"x", "usr/bin/ssh": b"x"}, wanted(launch=Launching.MPIJOB),
         "has no /usr/sbin/sshd, and the MPI Operator starts ranks by ssh"),
    ],
)  # fmt: skip
def test_a_wrong_mpi_is_told(
    files: Files, environment: Environment, told: str | None, tmp_path: Path, cache: Path
) -> None:
    reason = unfit_for_launch(image_with(tmp_path, cache, files), environment)
    assert reason is None if told is None else told in str(reason)


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({}, "has no GNU C library"),
        ({LIBC: b"GLIBC_2.30\0"}, "need glibc 2.34, and mine has 2.30"),
        ({LIBC: b"GLIBC_2.36\0"}, "need libmpi.so.40, and mine has no MPI"),
        ({LIBC: b"GLIBC_2.36\0", MPI_12: b"x"}, "need libmpi.so.40, and mine has libmpi.so.12"),
        ({LIBC: b"GLIBC_2.36\0", MPI_40: b"x"}, None),
    ],
)
def test_kernels_are_shown_where_they_can_run(files: Files, told: str | None, tmp_path: Path, cache: Path) -> None:
    build = KernelBuild(prefix=tmp_path / "kernels", digest="")
    for path in (build.program, build.wall_library):
        put(path.parent, path.name, b"\0libmpi.so.40\0GLIBC_2.34\0")
    reason = unfit_for_kernels(image_with(tmp_path, cache, files), build)
    assert reason is None if told is None else told in str(reason)


def test_links_are_followed_as_inside_the_image_and_end_where_they_lead_in_a_circle(rootfs: Path, victim: Path) -> None:
    (rootfs / "etc/name").write_text("inside")
    for name, target in (("absolute", "/etc/name"), ("up", "../../../../etc/name"), ("twice", "absolute")):
        (rootfs / name).symlink_to(target)
        assert (read_file(rootfs, f"/{name}", 100), inside(rootfs, name)) == (b"inside", rootfs / "etc/name")
    (rootfs / "out").symlink_to(victim)
    (rootfs / "file").symlink_to(victim / "secret")
    for path in ("out/secret", "file", "../victim/secret", "/out/../victim/secret", "/etc/name/x", "a\0b", "x" * 5000):
        assert inside(rootfs, path) is None
        with pytest.raises(OSError, match=r"\w"):
            open_file(rootfs, path)
    (rootfs / "a").symlink_to("b")
    (rootfs / "b").symlink_to("/a")
    assert inside(rootfs, "a") is None


def test_only_regular_files_that_are_small_enough_are_read(rootfs: Path) -> None:
    os.mkfifo(rootfs / "pipe")
    for path in ("pipe", "etc"):
        with pytest.raises(OSError, match="regular"):
            open_file(rootfs, path)
    with pytest.raises(OSError, match="regular"):
        safe_paths.open_regular(Path("/dev/zero"))
    assert glibc_needed(rootfs / "pipe") == (0, 0)
    (rootfs / "large").touch()
    os.truncate(rootfs / "large", 1 << 40)
    with pytest.raises(OSError, match="more than 10 bytes"):
        read_file(rootfs, "large", 10)


def test_variables_are_read_from_small_files_of_the_image_alone(rootfs: Path, victim: Path) -> None:
    scripts = rootfs / ".singularity.d/env"
    link(rootfs, "ch/environment", victim / "secret")
    link(scripts, "10-a.sh", victim / "secret")
    assert variables_of(rootfs) == ()
    os.mkfifo(scripts / "10-pipe.sh")
    os.truncate(put(scripts, "20-large.sh"), 1 << 40)
    put(scripts, "30-plain.sh", b"export PLAIN=1\n")
    assert variables_of(rootfs) == ("PLAIN=1",)
    doubled = "export A=xxxxxxxx\n" + 'export A="$A$A"\n' * 60
    assert [len(each) <= 100_002 for each in parse_exports(doubled)] == [True]


@pytest.mark.parametrize(
    "script", ["\n" * 1_000_000, "export A=" + " " * 1_000_000 + "x", "export A=" + "${a-" * 20_000]
)
def test_scripts_are_read_in_time_that_grows_with_their_length(script: str) -> None:
    assert len(parse_exports(script)) <= 1


def test_the_c_library_and_the_mpi_of_the_host_are_not_the_image_s(rootfs: Path, victim: Path) -> None:
    put(victim, "libc.so.6", b"GLIBC_2.36\0")
    put(victim, "libmpi.so.40", b"\0004.1.4\0")
    host = victim.parent / "host"
    link(rootfs, "lib", victim)
    link(rootfs, "usr", host)
    link(host, "lib", victim)
    link(rootfs, "lib64/libc.so.6", victim / "libc.so.6")
    assert (glibc_of(rootfs), mpi_of(rootfs)) == (None, None)
    (host / "lib").unlink()
    put(host, "lib/libmpi.so.40", b"\0004.1.4\0")
    assert mpi_of(rootfs) is None


NODE = make_node()


@pytest.mark.parametrize("runtime", [Bare(), Charliecloud()], ids=lambda runtime: runtime.name)
@pytest.mark.parametrize(
    "asked",
    [{"shown": ("/opt/app",)}, {"cwd": "/opt"}, {"binds": ("/data:/opt/new",)}, {"session": "/opt/deep/s-1"}],
    ids=lambda asked: next(iter(asked)),
)
def test_nothing_is_shown_in_an_image_through_a_link_that_leads_outside(
    runtime: Bare | Charliecloud, asked: dict[str, Any], rootfs: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_module, "hold", lambda *_: pytest.fail("a pod was made"))
    monkeypatch.setattr("tare.runtimes.charliecloud.need", lambda *_, **__: "/usr/bin/ch-run")
    (rootfs / "opt").symlink_to(victim)
    request = make_request(NODE, wiring=Wiring.NODE, rootfs=rootfs, **{"session": "", **asked})
    with pytest.raises(ImageError, match="a symbolic link on its path leads out of it"), runtime.pod(request):
        pytest.fail("a pod was made")


def test_what_is_shown_may_lie_behind_a_link_and_every_descriptor_is_closed(rootfs: Path) -> None:
    (rootfs / "var/home").mkdir(parents=True)
    (rootfs / "home").symlink_to("var/home")
    check_places(rootfs, ("/home/u/app", "/new/folder", "/", "/etc/x"))
    (rootfs / "etc/name").write_text("x")
    before = len(os.listdir("/proc/self/fd"))
    for path in ("etc/name", "none", "etc/name/x", "etc/../etc/../etc/name"):
        inside(rootfs, path)
    write_file(rootfs, "a/b", "x")
    make_folder(rootfs, "c/d")
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_is_written_in_place_of_a_link_and_not_of_a_folder(rootfs: Path, victim: Path) -> None:
    (rootfs / "etc/hosts").symlink_to(victim / "secret")
    write_file(rootfs, "etc/hosts", "mine")
    assert (rootfs / "etc/hosts").read_text() == "mine"
    assert not (rootfs / "etc/hosts").is_symlink()
    assert (victim / "secret").read_text() == "export SECRET=1\n"
    assert stat.S_IMODE((rootfs / "etc/hosts").stat().st_mode) == 0o644
    with pytest.raises(ImageError, match="cannot be written"):
        write_file(rootfs, "etc", "x")
    (rootfs / "file").touch()
    with pytest.raises(ImageError, match="file is not a folder"):
        make_folder(rootfs, "file/x")


@pytest.mark.parametrize("path", ["out/new", "out/deep/new", "etc/../../victim/new"])
def test_nothing_is_written_through_a_folder_that_is_a_link(path: str, rootfs: Path, victim: Path) -> None:
    (rootfs / "out").symlink_to(victim)
    with pytest.raises(ImageError) as refused:
        write_file(rootfs, path, "x")
    assert str(rootfs) in refused.value.message
    with pytest.raises(ImageError):
        make_folder(rootfs, path)
    assert sorted(each.name for each in victim.iterdir()) == ["secret"]


@root
def test_setuid_bits_and_device_nodes_are_taken_away(rootfs: Path, victim: Path) -> None:
    put(rootfs, "etc/su", mode=0o6755)
    (rootfs / "etc").chmod(0o2755)
    (rootfs / "tmp").mkdir()
    (rootfs / "tmp").chmod(0o1777)
    os.mknod(rootfs / "etc/zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    (victim / "secret").chmod(0o4755)
    link(rootfs, "etc/link", victim / "secret")
    link(rootfs, "all", victim)
    safe_paths.strip_privileges(rootfs)
    places = (rootfs / "etc/su", rootfs / "etc", rootfs / "tmp", victim / "secret")
    assert [stat.S_IMODE(path.stat().st_mode) for path in places] == [0o755, 0o755, 0o1777, 0o4755]
    assert not (rootfs / "etc/zero").exists()
    assert (rootfs / "etc/link").is_symlink()


def test_folders_that_lie_a_thousand_deep_are_refused(rootfs: Path) -> None:
    at = os.open(rootfs, os.O_RDONLY)
    for _ in range(1100):
        os.mkdir("d", dir_fd=at)
        at, above = os.open("d", os.O_RDONLY, dir_fd=at), at
        os.close(above)
    os.close(at)
    try:
        for refuse in (safe_paths.strip_privileges, lambda path: _digest(path, "directory")):
            with pytest.raises(UsageError, match="cannot be"):
                refuse(rootfs)
    finally:
        subprocess.run(("rm", "-rf", rootfs), check=True)
