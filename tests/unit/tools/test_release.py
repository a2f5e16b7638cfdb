"""What is released: equal wheels, pages and completion without faults, packages, recipes that agree."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from tare.errors import UsageError
from unit.tools.test_wheel import MADE, ROOT, built, release  # noqa: F401 - `built` is a fixture

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NEEDED = {(each.name, str(each.specifier)) for each in map(Requirement, PROJECT["dependencies"])}
PYTHON = f"3.{sys.version_info.minor}"
COMPLETE = 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tare; printf "%s\n" "${COMPREPLY[@]}"'


@pytest.fixture(scope="module")
def share(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: F811
    """Return the folder that a wheel's pages and completion are installed from."""
    folder = tmp_path_factory.mktemp("share")
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        wheel.extractall(folder, [name for name in wheel.namelist() if ".data/data/share/" in name])
    return next(folder.glob("*.data/data/share"))


@pytest.mark.slow
def test_another_build_elsewhere_with_other_dates_and_modes_gives_the_same_bytes(
    built: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    clone = tmp_path / "deeper/clone"
    shutil.copytree(ROOT, clone, symlinks=True, ignore=MADE, copy_function=shutil.copy)
    for path in clone.rglob("*"):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & 0o700)
    (tmp_path / "out").mkdir()
    again = release.build(clone, tmp_path / "out", "1700000000")
    for path in again.values():
        assert path.read_bytes() == (built / path.name).read_bytes(), path.name


@pytest.mark.requires("groff")
def test_man_pages_have_no_warnings_and_every_command_has_one(share: Path) -> None:
    pages = sorted((share / "man/man1").glob("*.1"))
    assert {"tare.1", "tare-quick.1", "tare-lab-up.1"} <= {page.name for page in pages}
    done = subprocess.run(
        ("groff", "-ww", "-mandoc", "-Kutf8", "-Tutf8", *pages), capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert "--threads-per-rank" in re.sub("\x1b\\[\\d*m|.\b", "", done.stdout)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("qu",), ["quick"]), (("lab", "st"), ["status"]), (("run", "--thi"), ["--thin"]),
        (("run", ""), [""]), (("quick", "--", "--thi"), [""]), (("report", "lab", "st"), [""]),
    ],
)  # fmt: skip
def test_bash_completes_commands_and_their_options_without_python(
    words: tuple[str, ...], wanted: list[str], share: Path
) -> None:
    argv = ("bash", "--norc", "-c", COMPLETE, share / "bash-completion/completions/tare", "tare", *words)
    done = subprocess.run(
        argv, env={"PATH": "/nowhere"}, executable="/bin/bash", capture_output=True, text=True, check=True
    )
    assert (done.stdout.splitlines(), done.stderr) == (wanted, "")


def test_the_package_for_debian_has_a_python_of_its_own_pages_and_licences(
    built: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    site = tmp_path / "site"
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        wheel.extractall(site)
    shutil.move(next(site.glob("*.data/data/share")), site / "share")
    deb = release.write_deb(site, "3.11", "numpy: BSD\n", tmp_path, "1700000000")
    listed = subprocess.run(("dpkg-deb", "-c", deb), capture_output=True, text=True, check=True).stdout
    files = {line.split()[5]: line.split()[0] for line in listed.splitlines()}
    assert {
        "./usr/share/man/man1/tare-quick.1.gz",
        "./usr/share/doc/tare/copyright", "./usr/share/doc/tare/THIRD-PARTY.txt",
        "./usr/share/bash-completion/completions/tare", "./usr/share/zsh/vendor-completions/_tare",
        "./usr/share/fish/vendor_completions.d/tare.fish",
        "./usr/lib/tare/lib/python3.11/site-packages/tare/cli/app.py",
    } <= set(files)  # fmt: skip
    assert files["./usr/lib/tare/bin/tare"] == "-rwxr-xr-x"
    assert listed.count("-> ../lib/tare/bin/tare") == listed.count("-> /usr/bin/python3") == 1
    fields = subprocess.run(("dpkg-deb", "-f", deb), capture_output=True, text=True, check=True).stdout
    assert "Depends: python3 (>= 3.11), python3 (<< 3.12~)" in fields


def test_a_tag_must_be_the_version_and_a_tagged_version_needs_notes() -> None:
    release.check_tags("1.2.3", ["v1.2.3", "nightly"])
    with pytest.raises(UsageError, match=r"has the tag v1\.2\.4, and pyproject\.toml the version 1\.2\.3"):
        release.check_tags("1.2.3", ["v1.2.4"])
    log = "# C\n\n## [Unreleased]\n\n- new\n\n## [1.2.3] - 2026-01-01\n\n- this\n\n## [1.2.2]\n\n- old\n"
    assert release.notes("1.2.3", log, tagged=True) == "- this\n"
    assert release.notes("1.3.0", log, tagged=False) == "- new\n"
    with pytest.raises(UsageError, match=r"no section for 1\.3\.0"):
        release.notes("1.3.0", log, tagged=True)


@pytest.mark.requires("gpg")
def test_the_sums_are_signed_with_the_key_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, out = tmp_path / "gnupg", tmp_path / "out"
    home.mkdir(mode=0o700)
    out.mkdir()
    (out / "file").write_text("content\n")
    monkeypatch.setenv("GNUPGHOME", str(home))
    make = ("gpg", "--batch", "--passphrase", "", "--quick-generate-key", "throwaway@example.org", "ed25519", "sign")
    subprocess.run(make, check=True, capture_output=True)
    try:
        release.sign(out, "throwaway@example.org")
        subprocess.run(("gpg", "--verify", out / "SHA256SUMS.asc", out / "SHA256SUMS"), check=True, capture_output=True)
    finally:
        subprocess.run(("gpgconf", "--kill", "gpg-agent"), check=False, capture_output=True)
    subprocess.run(("sha256sum", "--check", "--strict", "SHA256SUMS"), cwd=out, check=True, capture_output=True)


def test_recipes_and_data_for_citations_have_the_version_and_the_dependencies_of_the_project() -> None:
    spack = ast.parse((ROOT / "packaging/spack/package.py").read_text())
    calls = [each for each in ast.walk(spack) if isinstance(each, ast.Call) and isinstance(each.func, ast.Name)]
    first = [(each.func.id, ast.literal_eval(each.args[0])) for each in calls if each.args]  # type: ignore[attr-defined]
    assert ("version", PROJECT["version"]) in first
    wanted = {f"py-{name}@{specifier.removeprefix('>=')}:" for name, specifier in NEEDED}
    depended = {text for name, text in first if name == "depends_on"}
    assert {text for text in depended if text.startswith("py-")} == {*wanted, "py-setuptools@77:"}
    conda = yaml.safe_load((ROOT / "packaging/conda/recipe.yaml").read_text())
    assert conda["context"]["version"] == PROJECT["version"]
    assert set(conda["requirements"]["run"]) == {f"{name} {text}" for name, text in {*NEEDED, ("python", ">=3.11")}}
    assert conda["build"]["python"]["entry_points"] == [f"{name} = {at}" for name, at in PROJECT["scripts"].items()]
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    meta = json.loads((ROOT / "codemeta.json").read_text())
    assert cited["version"] == meta["version"] == PROJECT["version"]
    assert cited["date-released"] == meta["dateModified"]
    assert f"## [{PROJECT['version']}] - {cited['date-released']}\n" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.long
def test_one_file_is_tare_and_lists_licences_none_of_which_is_the_gpl_alone(
    built: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    out, scratch = tmp_path / "out", tmp_path / "scratch"
    for folder in (out, scratch):
        folder.mkdir()
    release.write_programs(next(built.glob("*.whl")), [PYTHON], scratch, out, "1700000000")
    with zipfile.ZipFile(out / "tare.pyz") as archive:
        table = archive.read("THIRD-PARTY.txt").decode().partition("\n===")[0]
    assert "numpy" in table
    assert not [line for line in table.splitlines() if "GPL" in line and " OR " not in line]
    components = json.loads((out / "sbom.cdx.json").read_text())["components"]
    assert {each["name"] for each in components} == set(re.findall(r"^(\S+) \d\S*: ", table, re.MULTILINE))
    for _ in range(2):
        argv = (sys.executable, out / "tare.pyz", "--version")
        done = subprocess.run(argv, env={"HOME": str(tmp_path)}, capture_output=True, text=True, check=True)
        assert done.stdout == f"tare {PROJECT['version']}\n"


def test_an_sdist_is_sorted_and_nobodys(built: Path) -> None:  # noqa: F811
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        members = archive.getmembers()
    assert [member.name for member in members] == sorted(member.name for member in members)
    assert {(member.mtime, member.uid, member.gname) for member in members} == {(1700000000, 0, "")}


def test_a_release_removes_nothing_from_a_folder_that_is_named(tmp_path: Path) -> None:
    release.make_empty(tmp_path / "new" / "one")
    with pytest.raises(UsageError, match="is not an empty folder"):
        release.make_empty(tmp_path / "new")
    assert (tmp_path / "new" / "one").is_dir()
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="is not an empty folder"):
        release.make_empty(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"
