"""Install tare from the bundle that this program is in: `python3 BUNDLE FOLDER`, without a network.

The bundle of a release is tare itself: `python3 tare.pyz doctor` installs it in the user's cache the first time.

This runs with Python 3.9 or newer and uses the standard library alone. Files are written to a new folder, as plain
files with known names. Damage is found by zipfile (size and CRC), by pip (the hashes of wheels) and by what brings an
image (its digest). None of them says who wrote the bundle, which is a program as well.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import stat
import subprocess  # noqa: TID251 - tare is not installed yet
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

MOST_BYTES: Final = 4_000_000_000
"""The largest bundle: Python starts no zip file beyond 4 GiB."""

MOST_UNPACKED_BYTES: Final = 50_000_000_000
MOST_MANIFEST_BYTES: Final = 1 << 20
KEPT_FREE_BYTES: Final = 500_000_000
STAMP: Final = ".tare-bundle"
WHOLE: Final = ".tare-whole"
OWN: Final = {"manifest.json", "__main__.py", "install.py"}
EXIT_USAGE: Final = 2
EXIT_FAILED: Final = 5
NAMES: Final = re.compile(
    r"wheels/[A-Za-z0-9_][A-Za-z0-9_.+-]*\.whl|requirements-3\.\d{1,2}\.txt|images/[0-9a-f]{32}/(?:image\.json|rootfs\.tar)|THIRD-PARTY\.txt"
)
"""The names that a bundle may have: none is absolute, none has `..`."""

DAMAGES: Final = (zipfile.BadZipFile, EOFError, zlib.error, NotImplementedError, RuntimeError, ValueError)
"""What zipfile raises for a damaged bundle; RuntimeError: encrypted, NotImplementedError: an unknown method."""


class InstallError(Exception):
    """What failed, and the exit code."""

    def __init__(self, message: str, code: int = EXIT_FAILED) -> None:
        super().__init__(message)
        self.code = code


def main(argv: Sequence[str], bundle: Path) -> int:
    """Install from a bundle as the arguments say; return the exit code."""
    parser = argparse.ArgumentParser(prog=f"python3 {bundle.name}", description="Install tare without a network.")
    parser.add_argument("folder", nargs="?", default="~/tare", help="folder for tare's own Python (default: ~/tare)")
    parser.add_argument("--python", default="", help="the Python that tare runs with (default: found on PATH)")
    try:
        with zipfile.ZipFile(bundle) as archive:
            manifest = read_manifest(archive)
            contents = sorted((info.filename, info.file_size, info.CRC) for info in archive.infolist())
        if manifest.get("runs") is True:
            python = installed(bundle, manifest, contents)
            os.execv(python, (python, "-P", "-m", "tare.cli.app", *argv))
        wanted = parser.parse_args(argv)
        folder = Path(os.path.abspath(os.path.expanduser(wanted.folder)))
        install(bundle, folder, wanted.python)
        say(f"done. Next: {folder}/venv/bin/tare doctor")
    except InstallError as error:
        print(f"tare bundle: {error}", file=sys.stderr)
        return error.code
    except DAMAGES as error:
        print(f"tare bundle: {bundle} is damaged: {error}\n  copy it again", file=sys.stderr)
        return EXIT_FAILED
    except OSError as error:
        print(f"tare bundle: {error}\n  choose a folder that you can write, with room for it", file=sys.stderr)
        return EXIT_FAILED
    return 0


def install(bundle: Path, folder: Path, wanted: str) -> None:
    """Create a virtual environment below `folder`, install tare in it, and move the images to the user's cache."""
    with zipfile.ZipFile(bundle) as archive:
        manifest = read_manifest(archive)
        if manifest["machine"] != platform.machine():
            raise InstallError(
                f"this bundle is for {manifest['machine']}, and this machine is {platform.machine()}\n"
                "  run `tare bundle` on a machine of this architecture"
            )
        python, version = find_python(manifest["pythons"], wanted)
        environment = folder / "venv"
        if environment.exists() and not (environment / STAMP).exists():
            raise InstallError(f"{environment} exists and is not of a bundle\n  choose another folder", EXIT_USAGE)
        check_folder(folder)
        folder.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".tare-unpacked-", dir=folder))
        try:
            say(f"unpacking {len(archive.namelist())} files to {folder}")
            unpack(archive, scratch)
            say(f"installing tare {manifest['tare']} with Python {version}")
            make_environment(python, version, environment, scratch)
            images = sorted(scratch.glob("images/*"))
            for image in images:
                run((environment / "bin/python", "-m", "tare.images", "bring", image), "bringing an image")
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def installed(bundle: Path, manifest: dict[str, Any], contents: object) -> str:
    """Return the Python of the bundle's tare in the user's cache; install it there if these contents are not yet."""
    python, version = find_python(manifest["pythons"], "")
    cache = os.environ.get("TARE_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "tare")
    digest = hashlib.sha256(json.dumps([manifest, contents]).encode()).hexdigest()[:16]
    folder = Path(os.path.abspath(os.path.expanduser(cache))) / "programs" / f"{manifest['tare']}-{version}-{digest}"
    whole = folder / "venv" / WHOLE
    if not whole.exists():
        remedy = f"name another folder: TARE_CACHE=FOLDER python3 {bundle.name}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = (folder / "lock").open("w")
        except OSError as error:
            raise InstallError(f"tare cannot be unpacked to {folder}: {error.strerror}\n  {remedy}") from error
        with lock, contextlib.redirect_stdout(sys.stderr):
            if os.statvfs(folder).f_flag & os.ST_NOEXEC:
                raise InstallError(f"tare cannot be unpacked to {folder}: it is mounted noexec\n  {remedy}")
            fcntl.flock(lock, fcntl.LOCK_EX)  # another start may be installing it
            if not whole.exists():
                install(bundle, folder, python)
                whole.touch()
    return str(folder / "venv/bin/python")


def check_folder(folder: Path) -> None:
    """Raise `InstallError` if root would install where another user can put files in place of tare's."""
    for place in (folder.resolve(), *folder.resolve().parents) if os.geteuid() == 0 else ():
        if place.exists():
            status = place.stat()
            if status.st_uid != 0 or (status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX):
                raise InstallError(
                    f"{place} can be changed by another user, who could put other files in place of tare's\n"
                    "  install as that user, or name a folder of root's",
                    EXIT_USAGE,
                )


def read_manifest(archive: zipfile.ZipFile) -> dict[str, Any]:
    """Return the manifest; raise `InstallError` unless the archive has valid names and a manifest of this form."""
    names = archive.namelist()
    try:
        if len(set(names)) != len(names):
            raise ValueError("it has two files of one name")
        for name in set(names) - OWN:
            if NAMES.fullmatch(name) is None:
                raise ValueError(f"it has a file with an invalid name: {name[:100]!r}")
        if archive.getinfo("manifest.json").file_size > MOST_MANIFEST_BYTES:
            raise ValueError("its manifest is too large")
        manifest = json.loads(archive.read("manifest.json"))
        if not all(re.fullmatch(r"3\.\d{1,2}", version) for version in manifest["pythons"]):
            raise ValueError("it names an invalid Python")
        return {**manifest, "tare": str(manifest["tare"]), "machine": str(manifest["machine"])}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InstallError(f"this bundle is damaged: {str(error)[:200]}\n  copy it again") from error


def unpack(archive: zipfile.ZipFile, folder: Path) -> None:
    """Write the files below a new folder; zipfile compares each with the size and the CRC that the archive states."""
    files = [info for info in archive.infolist() if info.filename not in OWN]
    needed = sum(info.file_size for info in files)
    if needed > MOST_UNPACKED_BYTES:
        raise InstallError(f"this bundle is damaged: it would need {needed / 1e9:.0f} GB\n  copy it again")
    if needed > shutil.disk_usage(folder).free - KEPT_FREE_BYTES:
        raise InstallError(f"{folder.parent} needs {needed / 1e9:.1f} GB more room\n  choose a folder on another disk")
    archive.extractall(folder, files)


def find_python(versions: Sequence[str], wanted: str) -> tuple[str, str]:
    """Return the path of a Python that the bundle has wheels for, and its version."""
    names = [wanted] if wanted else [sys.executable, *(f"python{version}" for version in versions), "python3"]
    seen = []
    for name in names:
        path = shutil.which(name)
        version = version_of(path) if path else None
        if path and version and version in versions:
            return path, version
        seen.append(f"{name} is {version}" if version else f"{name} was not found")
    raise InstallError(
        f"this bundle is for Python {', '.join(versions)}: {'; '.join(dict.fromkeys(seen))}\n"
        "  start this file with one of these, or write one for another Python with `tare bundle --python VERSION`"
    )


def version_of(python: str) -> str | None:
    """Return the version of a Python, such as "3.11", or None."""
    program = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run((python, "-IS", "-c", program), capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def make_environment(python: str, version: str, environment: Path, unpacked: Path) -> None:
    """Create the virtual environment and install the wheels with the bundle's own pip: ensurepip is not needed."""
    run((python, "-m", "venv", "--without-pip", "--clear", environment), "creating the virtual environment")
    (environment / STAMP).touch()
    pip = next(iter(sorted(unpacked.glob("wheels/pip-*.whl"))), None)
    if pip is None:
        raise InstallError("this bundle is damaged: it has no pip\n  copy it again")
    quiet = ("--no-cache-dir", "--disable-pip-version-check", "--quiet")
    sources = ("--no-index", "--no-deps", "--find-links", unpacked / "wheels")
    lock = ("--require-hashes", "--requirement", unpacked / f"requirements-{version}.txt")
    program = (environment / "bin/python", "-I", pip / "pip", "--isolated")
    run((*program, "install", *quiet, *sources, *lock), "installing the wheels")


def run(argv: Iterable[object], what: str) -> None:
    """Run a command whose messages the user sees; raise `InstallError` if it fails."""
    words = [str(word) for word in argv]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))}
    with subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL) as process:
        try:
            status = process.wait()
        except BaseException:
            process.terminate()  # it undoes what it has under way
            raise
    if status != 0:
        raise InstallError(f"{what} failed (status {status}): {' '.join(words[:4])} ...\n  see the message above")


def say(message: str) -> None:
    """Print a step."""
    print(f"tare bundle: {message}", flush=True)


def begin() -> None:
    """Do what the command line says."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    sys.exit(main(sys.argv[1:], Path(sys.argv[0]).resolve()))


if __name__ == "__main__":
    begin()
