"""Build what is released into dist/: wheel, sdist, tare.pyz, a Debian package for each Python, their list, notes, sums.

    tools/release.py                         of the last commit, for every Python of pyproject.toml
    tools/release.py --python 3.11 --key ID  for one; the sums are signed with a key of gpg
    tools/release.py --wheel                 the wheel alone, of the files as they are

The same commit gives the same bytes. A tag vX.Y.Z of the commit must be the version of pyproject.toml.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import re
import shutil
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from tare.cli.bundle import command, wheels
from tare.cli.bundle.archive import write_zip
from tare.errors import TareError, UsageError
from tare.system import process

ROOT: Final = Path(__file__).resolve().parents[1]
DIST: Final = ROOT / "dist"
MADE: Final = ("build", "share", "src/tare_hpc.egg-info")
"""What building leaves in a tree."""
LEFT_OUT: Final = r"wheels/(setuptools|diptest)-"
LEFT_OUT_LINE: Final = rb"^(setuptools|diptest)==.*\n"
"""Locked packages that are not shipped: a build tool, and one under the GPL that tare can do without."""
CONTROL: Final = """\
Package: tare
Version: {version}+py{python}
Architecture: {architecture}
Maintainer: {maintainer}
Section: science
Priority: optional
Depends: python3 (>= {python}), python3 (<< 3.{next}~), libc6 (>= 2.{glibc})
Recommends: gcc, libc6-dev, openmpi-bin, libopenmpi-dev
Suggests: apptainer, charliecloud-runtime, docker.io, mmdebstrap, podman, skopeo
Description: {summary}
 tare runs the same MPI program bare and in container environments, and says
 how much more time each takes, and whether that is more than noise.
"""
SCRIPTS: Final = {
    "postinst": "#!/bin/sh\nset -e\npy3compile -p tare /usr/lib/tare/lib\n",
    "prerm": "#!/bin/sh\nset -e\npy3clean -p tare\n",
}
START: Final = "#!/usr/lib/tare/bin/python3 -P\nfrom tare.cli.app import main\n\nmain()\n"
COPYRIGHT: Final = """\
tare is under the Apache License 2.0: /usr/share/common-licenses/Apache-2.0.
The packages below /usr/lib/tare that it uses are under licences of their own, in THIRD-PARTY.txt beside this file.
"""


def run(*argv: str | Path, cwd: Path = ROOT, **variables: str) -> str:
    """Run a command with this process's environment, and return what it prints."""
    done = process.run([str(word) for word in argv], cwd=cwd, env={**os.environ, **variables}, timeout_s=1800)
    return str(done.stdout).strip()


def project() -> dict[str, Any]:
    """Return the table of the project in pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return table


def check_tags(version: str, tags: Iterable[str]) -> None:
    """Raise `UsageError` unless the commit's tags of versions, if it has any, are this version's."""
    for tag in tags:
        if re.fullmatch(r"v\d.*", tag) and tag != f"v{version}":
            raise UsageError(
                f"this commit has the tag {tag}, and pyproject.toml the version {version}",
                remedy="change one of them, so that both are the same",
            )


def notes(version: str, text: str, *, tagged: bool) -> str:
    """Return a version's section of the changelog; that of a commit without a tag may have no version yet."""
    for title in (f"[{version}]", *(() if tagged else ("[Unreleased]",))):
        found = re.search(rf"^## {re.escape(title)}[^\n]*\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
        if found:
            return found[1].strip() + "\n"
    raise UsageError(f"CHANGELOG.md has no section for {version}", remedy=f"write one: ## [{version}] - DATE")


def build(tree: Path, out: Path, epoch: str, kinds: Sequence[str] = ("wheel", "sdist")) -> dict[str, Path]:
    """Build wheel and sdist of a tree, with man pages and completion; names, dates and modes are made equal."""
    built = {}
    try:
        more = {"SOURCE_DATE_EPOCH": epoch, "PYTHONPATH": str(tree / "src")}
        run(sys.executable, tree / "tools" / "man_pages.py", tree / "share", cwd=tree, **more)
        for kind in kinds:
            program = f"from setuptools import build_meta; print(build_meta.build_{kind}({str(out)!r}))"
            built[kind] = out / run(sys.executable, "-c", program, cwd=tree, **more).splitlines()[-1]
    finally:
        for name in MADE:
            shutil.rmtree(tree / name, ignore_errors=True)
    with zipfile.ZipFile(built["wheel"]) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    write_zip(built["wheel"], files)
    if "sdist" in built:
        rewrite_sdist(built["sdist"], int(epoch))
    return built


def rewrite_sdist(path: Path, epoch: int) -> None:
    """Write an sdist again: sorted, with one date, one owner and two modes."""
    plain = io.BytesIO()
    with tarfile.open(path) as archive, tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as target:
        for member in sorted(archive.getmembers(), key=lambda each: each.name):
            if not member.isdir():
                clean = tarfile.TarInfo(member.name)
                clean.size, clean.mtime, clean.mode = member.size, epoch, 0o755 if member.mode & 0o100 else 0o644
                target.addfile(clean, archive.extractfile(member))
    path.write_bytes(gzip.compress(plain.getvalue(), mtime=epoch))


def metadata(wheel: Path) -> tuple[Message, list[str]]:
    """Return a wheel's metadata, and the licences that it has."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if re.match(r"[^/]+\.dist-info/", name)]
        about = next(name for name in names if name.endswith(".dist-info/METADATA"))
        licences = sorted(name for name in names if re.search(r"/.*(licen[cs]e|copying|notice)", name, re.I))
        texts = [archive.read(name).decode(errors="replace").strip() for name in licences]
        return Parser().parsestr(archive.read(about).decode()), texts


def licence(about: Message) -> str:
    """Return the name of a package's licence, as its metadata has it."""
    named = (about["License-Expression"] or about["License"] or "").strip()
    classified = [value.rpartition(" :: ")[2] for value in about.get_all("Classifier", []) if "License ::" in value]
    return named if named and "\n" not in named else ", ".join(classified) or "see below"


def third_party(packages: Iterable[Path]) -> str:
    """Return the list of packages that are shipped with tare, with the texts of their licences."""
    found = {(about["Name"], about["Version"]): (licence(about), texts) for about, texts in map(metadata, packages)}
    table = [f"{name} {version}: {named}" for (name, version), (named, _) in sorted(found.items())]
    texts = [
        "\n\n".join([f"=== {name} {version}", *texts])
        for (name, version), (_, texts) in sorted(found.items())
    ]  # fmt: skip
    return "\n".join(["Packages that are shipped with tare, and their licences.", "", *table, "", *texts, ""])


def write_sbom(version: str, packages: Iterable[Path], target: Path, epoch: int) -> None:
    """Write the packages that are shipped, with their hashes and licences, as CycloneDX."""
    from cyclonedx.contrib.hash.factories import HashTypeFactory
    from cyclonedx.contrib.license.factories import LicenseFactory
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.output.json import JsonV1Dot6
    from packageurl import PackageURL

    def component(name: str, number: str, named: str, file: Path | None = None) -> Component:
        hashes = [HashTypeFactory().from_composite_str(f"sha256:{digest(file)}")] if file else []
        url = PackageURL("pypi", None, name.lower(), number, {"file_name": file.name} if file else None)
        licences = [LicenseFactory().make_from_string(named)]
        kind = ComponentType.LIBRARY if file else ComponentType.APPLICATION
        return Component(
            name=name, version=number, type=kind, purl=url, bom_ref=str(url), hashes=hashes, licenses=licences
        )

    bom = Bom(serial_number=uuid5(NAMESPACE_URL, f"tare {version} {epoch}"))
    bom.metadata.timestamp = datetime.fromtimestamp(epoch, UTC)
    bom.metadata.component = component(wheels.PROJECT, version, "Apache-2.0")
    for wheel in packages:
        about, _ = metadata(wheel)
        bom.components.add(component(about["Name"], about["Version"], licence(about), wheel))
    bom.register_dependency(bom.metadata.component, bom.components)
    target.write_text(JsonV1Dot6(bom).output_as_string(indent=1) + "\n")


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_deb(site: Path, python: str, licences: str, out: Path, epoch: str) -> Path:
    """Write the Debian package of a folder with what pip installed; its `share` goes to /usr/share."""
    table, root = project(), site.parent / f"deb-{python}"
    library, share = root / "usr/lib/tare", root / "usr/share"
    place = library / f"lib/python{python}/site-packages"
    shutil.copytree(site, place, symlinks=True)
    shutil.rmtree(place / "bin", ignore_errors=True)
    shutil.move(place / "share", share)
    shutil.move(share / "zsh/site-functions", share / "zsh/vendor-completions")
    for page in (share / "man/man1").glob("*.1"):
        page.with_suffix(".1.gz").write_bytes(gzip.compress(page.read_bytes(), mtime=0))
        page.unlink()
    architecture = run("dpkg", "--print-architecture")
    maintainer = run("git", "log", "-1", "--format=%an <%ae>")
    if {"DEBFULLNAME", "DEBEMAIL"} <= set(os.environ):
        maintainer = f"{os.environ['DEBFULLNAME']} <{os.environ['DEBEMAIL']}>"
    texts = {
        "usr/lib/tare/pyvenv.cfg": f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {python}\n",
        "usr/lib/tare/bin/tare": START,
        "usr/share/doc/tare/copyright": COPYRIGHT,
        "usr/share/doc/tare/THIRD-PARTY.txt": licences,
        "DEBIAN/control": CONTROL.format(
            version=table["version"], python=python, next=int(python.partition(".")[2]) + 1,
            architecture=architecture, maintainer=maintainer, summary=table["description"], glibc=wheels.NEWEST_GLIBC,
        ),
        **{f"DEBIAN/{name}": text for name, text in SCRIPTS.items()},
    }  # fmt: skip
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for path in root.rglob("*"):
        path.chmod(0o755 if path.is_dir() or path.name in SCRIPTS or path.parent.name == "bin" else 0o644)
    (library / "bin/python3").symlink_to("/usr/bin/python3")
    (root / "usr/bin").mkdir()
    (root / "usr/bin/tare").symlink_to("../lib/tare/bin/tare")
    target = out / f"tare_{table['version']}+py{python}_{architecture}.deb"
    run("dpkg-deb", "--root-owner-group", "-Zzstd", "--build", root, target, SOURCE_DATE_EPOCH=epoch)
    return target


def write_programs(wheel: Path, pythons: Sequence[str], scratch: Path, out: Path, epoch: str) -> None:
    """Write tare.pyz, the Debian packages and the list of what they hold: tare's wheel and the locked packages."""
    files = command.wheels_of(pythons, scratch, wheel)
    for name in [name for name in files if re.match(LEFT_OUT, name)]:
        del files[name]
    for python in pythons:
        name = f"requirements-{python}.txt"
        files[name] = re.sub(LEFT_OUT_LINE, b"", bytes(files[name]), flags=re.MULTILINE)
    packages = sorted(path for path in files.values() if isinstance(path, Path) and path.name != wheel.name)
    licences = third_party(packages)
    command.write_archive(out / "tare.pyz", {**files, "THIRD-PARTY.txt": licences.encode()}, pythons, runs=True)
    (out / "tare.pyz").chmod(0o755)
    write_sbom(project()["version"], packages, out / "sbom.cdx.json", int(epoch))
    for python in pythons:
        lock, site = scratch / "requirements.txt", scratch / f"site-{python}"
        lock.write_bytes(bytes(files[f"requirements-{python}.txt"]))
        places = ("--find-links", scratch / "wheels", "--find-links", wheel.parent)
        # pip compares the packages with the Python that runs it; the lock is for the other one
        where = ("--no-index", "--no-compile", "--ignore-requires-python", *places, "--target", site)
        run(*wheels.pip_argv("install", python), *where, "--requirement", lock)
        write_deb(site, python, licences, out, epoch)


def sign(out: Path, key: str) -> None:
    """Write the sums of all files, and with a key their signature."""
    sums = out / "SHA256SUMS"
    sums.write_text("".join(f"{digest(path)}  {path.name}\n" for path in sorted(out.iterdir()) if path != sums))
    if key:
        run("gpg", "--batch", "--yes", "--local-user", key, "--armor", "--detach-sign", sums)


def make_empty(out: Path) -> None:
    """Make the folder of a release; only what an earlier release left in the usual one is removed."""
    if out == DIST:
        shutil.rmtree(out, ignore_errors=True)
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} is not an empty folder", remedy="name an empty folder, or one that does not exist")
    out.mkdir(parents=True, exist_ok=True)


def release(out: Path, pythons: Sequence[str], key: str) -> None:
    """Build all of the last commit."""
    version, epoch = project()["version"], run("git", "log", "-1", "--format=%ct")
    if run("git", "status", "--porcelain", "--untracked-files=no"):
        raise UsageError("there are changes that are not committed", remedy="commit them: a release is of a commit")
    tags = run("git", "tag", "--points-at", "HEAD").split()
    check_tags(version, tags)
    text = notes(version, run("git", "show", "HEAD:CHANGELOG.md"), tagged=f"v{version}" in tags)
    make_empty(out)
    (out / "NOTES.md").write_text(text)
    with tempfile.TemporaryDirectory(prefix="tare-release-") as folder:
        scratch = Path(folder)
        run("git", "archive", "--output", scratch / "tree.tar", "HEAD")
        (scratch / "tree").mkdir()
        run("tar", "-xf", scratch / "tree.tar", "-C", scratch / "tree")
        built = build(scratch / "tree", out, epoch)
        write_programs(built["wheel"], pythons, scratch, out, epoch)
    sign(out, key)


def main() -> int:
    """Build what the command line says; return the exit code."""
    usual = re.findall(r"Python :: (3\.\d+)", "\n".join(project()["classifiers"]))
    parser = argparse.ArgumentParser(description="Build what is released.")
    parser.add_argument("--python", action="append", choices=usual, help="for this Python; repeatable (default: all)")
    parser.add_argument("--key", default="", help="sign the sums with this key of gpg")
    parser.add_argument("--output", type=Path, default=DIST, help="an empty or new folder (default: dist, made empty)")
    parser.add_argument("--wheel", action="store_true", help="build the wheel alone, of the files as they are")
    wanted = parser.parse_args()
    out = wanted.output.absolute()
    try:
        if wanted.wheel:
            out.mkdir(parents=True, exist_ok=True)
            build(ROOT, out, run("git", "log", "-1", "--format=%ct"), ("wheel",))
        else:
            release(out, wanted.python or usual, wanted.key)
    except TareError as error:
        print(f"release: {error}", file=sys.stderr)
        return error.exit_code
    print("\n".join(str(path) for path in sorted(out.iterdir())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
