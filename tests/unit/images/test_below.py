"""Files of an image are opened and written below its folder, whatever its links say."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nodes import make_node
from tare.containers import held as held_module
from tare.errors import ImageError, UsageError
from tare.images.host_mpi import glibc_needed, glibc_of
from tare.images.inside import below
from tare.images.inside.below import (
    check_places,
    inside,
    make_folder,
    open_file,
    read_file,
    strip_privileges,
    write_file,
)
from tare.images.inside.inspect import mpi_of
from tare.images.inside.variables import parse_exports, variables_of
from tare.images.own import _digest
from tare.runtimes import PodRequest
from tare.runtimes.bare import Bare
from tare.runtimes.charliecloud import Charliecloud
from tare.wiring.plug import Wiring
from unit.images.writing import link, put, root


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
        below.open_regular(Path("/dev/zero"))
    assert glibc_needed(rootfs / "pipe") == (0, 0)
    (rootfs / "large").touch()
    os.truncate(rootfs / "large", 1 << 40)
    with pytest.raises(OSError, match="more than 10 bytes"):
        read_file(rootfs, "large", 10)


def test_every_descriptor_is_closed_again(rootfs: Path) -> None:
    (rootfs / "etc/name").write_text("x")
    before = len(os.listdir("/proc/self/fd"))
    for path in ("etc/name", "none", "etc/name/x", "etc/../etc/../etc/name"):
        inside(rootfs, path)
    write_file(rootfs, "a/b", "x")
    make_folder(rootfs, "c/d")
    assert len(os.listdir("/proc/self/fd")) == before


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
    request = PodRequest(name="p", study="s", node=NODE, wiring=Wiring.NODE, rootfs=rootfs, **asked)
    with pytest.raises(ImageError, match="a symbolic link on its path leads out of it"), runtime.pod(request):
        pytest.fail("a pod was made")


def test_what_is_shown_may_lie_behind_a_link_within_the_image(rootfs: Path) -> None:
    (rootfs / "var/home").mkdir(parents=True)
    (rootfs / "home").symlink_to("var/home")
    check_places(rootfs, ("/home/u/app", "/new/folder", "/", "/etc/x"))


def test_a_file_is_written_in_place_of_a_link_and_not_through_it(rootfs: Path, victim: Path) -> None:
    (rootfs / "etc/hosts").symlink_to(victim / "secret")
    write_file(rootfs, "etc/hosts", "mine")
    assert (rootfs / "etc/hosts").read_text() == "mine"
    assert not (rootfs / "etc/hosts").is_symlink()
    assert (victim / "secret").read_text() == "export SECRET=1\n"
    assert stat.S_IMODE((rootfs / "etc/hosts").stat().st_mode) == 0o644


@pytest.mark.parametrize("path", ["out/new", "out/deep/new", "etc/../../victim/new"])
def test_nothing_is_written_through_a_folder_that_is_a_link(path: str, rootfs: Path, victim: Path) -> None:
    (rootfs / "out").symlink_to(victim)
    with pytest.raises(ImageError) as refused:
        write_file(rootfs, path, "x")
    assert str(rootfs) in refused.value.message
    with pytest.raises(ImageError):
        make_folder(rootfs, path)
    assert sorted(each.name for each in victim.iterdir()) == ["secret"]


def test_a_file_cannot_be_written_where_a_folder_is(rootfs: Path) -> None:
    with pytest.raises(ImageError, match="cannot be written"):
        write_file(rootfs, "etc", "x")
    (rootfs / "file").touch()
    with pytest.raises(ImageError, match="file is not a folder"):
        make_folder(rootfs, "file/x")


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
    strip_privileges(rootfs)
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
        for refuse in (strip_privileges, lambda path: _digest(path, "directory")):
            with pytest.raises(UsageError, match="cannot be"):
                refuse(rootfs)
    finally:
        subprocess.run(("rm", "-rf", rootfs), check=True)
