"""Images of anybody: whatever is in one, nothing outside of the cache changes, and errors are sentences of the project.

Layers are unpacked by the same code as in a real run, but in a forked process: starting a new one takes longer.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from fuzz.archives import ARCHIVES, Archive, write
from fuzz.fuzzing import fuzz
from fuzz.hostile import snapshot, told
from tare.errors import CommandFailed
from tare.images.convert import convert
from tare.images.host_mpi import glibc_of
from tare.images.inside import image_layers
from tare.images.inside.image_layers import UNPACK
from tare.images.inside.inspect import mpi_of
from tare.images.inside.variables import variables_of
from tare.images.own_images import ensure_own
from tare.system.process import Result


def forked(argv: Sequence[str], **_: Any) -> Result:
    """Unpack a layer as `unpack.py` does, in a copy of this process."""
    spec = importlib.util.spec_from_file_location("unpack", UNPACK)
    assert spec is not None
    assert spec.loader is not None
    unpack = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(unpack)
    arguments = list(argv[list(argv).index(str(UNPACK)) :])
    read, written = os.pipe()
    child = os.fork()
    if child == 0:
        status = 99
        try:
            os.dup2(written, 1)
            os.dup2(written, 2)
            sys.stdout, sys.stderr, sys.argv = (
                os.fdopen(1, "w"),
                os.fdopen(2, "w", errors="backslashreplace"),
                arguments,
            )
            status = unpack.main()
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(status)
    os.close(written)
    with os.fdopen(read, errors="replace") as said:
        text = said.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 1), f"unpack.py stopped with {status}: {text}"
    if status:
        raise CommandFailed("unpacking", argv=argv, status=status, stderr_tail=text.strip())
    return Result(argv=tuple(argv), status=0, stdout=text, stderr="", elapsed_s=0.0)


@pytest.mark.root
@pytest.mark.requires("root")
def test_any_archive_is_an_image_or_refused_and_leads_nowhere_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("as it was")
    before = snapshot(victim)
    monkeypatch.setattr(image_layers.process, "run", Runs(image_layers.process.run))

    made: list[bool] = []

    def check(archive: Archive) -> None:
        work = tmp_path / "work"
        work.mkdir()
        try:
            path = write(archive, work, victim)
            image = told(lambda: ensure_own(path, work / "cache"))
            made.append(image is not None)
            if image is not None:
                check_image(image.rootfs)
                told(lambda: convert(image, "charliecloud", work / "out"))
            left = {each.name for each in (work / "cache/images").glob("*") if not each.name.startswith(".lock")}
            assert left == ({image.digest} if image else set())
            assert {each.name for each in work.iterdir()} <= {path.name, "cache", "out"}
            assert snapshot(victim) == before
        finally:
            shutil.rmtree(work)

    fuzz(ARCHIVES, check)
    print(f"{sum(made)} of {len(made)} are images")


class Runs:
    """Runs commands, but forks for what unpacks."""

    def __init__(self, run: Callable[..., Result]) -> None:
        self._run = run

    def __call__(self, argv: Sequence[str], **more: Any) -> Result:
        return forked(argv) if str(UNPACK) in argv else self._run(argv, **more)


def check_image(rootfs: Path) -> None:
    """Check that an unpacked image gives nobody rights and can be looked into."""
    assert stat.S_IMODE(rootfs.parent.stat().st_mode) == 0o700
    for folder, folders, files in os.walk(rootfs):
        for name in (*folders, *files):
            mode = os.lstat(os.path.join(folder, name)).st_mode
            assert not stat.S_ISCHR(mode)
            assert not stat.S_ISBLK(mode)
            assert stat.S_ISLNK(mode) or not mode & 0o6000
    mpi_of(rootfs)
    glibc_of(rootfs)
    variables_of(rootfs)
