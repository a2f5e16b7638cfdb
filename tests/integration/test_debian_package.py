"""What `make release` builds, whole, from a clone; its package of each Debian is installed there by dpkg and runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from integration.roots import in_root, root_of
from integration.test_other_distributions import OF_USERS

pytestmark = [
    pytest.mark.integration,
    pytest.mark.root,
    pytest.mark.long,
    pytest.mark.timeout(1800),
    pytest.mark.requires("root", "mmdebstrap", "openmpi"),
]
ROOT = Path(__file__).parents[2]
PYTHONS = {"bookworm": "3.11", "trixie": "3.13", "sid": "3.14"}
INSTALL = """
set -eu
mount -t tmpfs tmpfs "$2"
mkdir "$2/upper" "$2/work" "$2/root"
mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" overlay "$2/root"
mount -t proc proc "$2/root/proc"
mount --rbind /dev "$2/root/dev"
cp "$3" "$2/root/tare.deb"
root="$2/root"
shift 3
chroot "$root" dpkg --install /tare.deb
exec chroot --userspec=1000:1000 "$root" env -i HOME=/tmp PATH=/usr/bin:/bin "$@"
"""


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a release of the last commit."""
    folder = tmp_path_factory.mktemp("release")
    subprocess.run(("git", "clone", "--quiet", ROOT, folder / "clone"), check=True)
    argv = (sys.executable, "tools/release.py", "--output", folder / "dist")
    built = subprocess.run(argv, cwd=folder / "clone", capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return folder / "dist"


def test_a_release_has_a_package_for_each_python_and_sums_of_all(release: Path) -> None:
    names = {path.name for path in release.iterdir()}
    assert {"NOTES.md", "SHA256SUMS", "sbom.cdx.json", "tare.pyz"} <= names
    assert sum(name.endswith(".deb") for name in names) == 4
    subprocess.run(("sha256sum", "--check", "--quiet", "--strict", "SHA256SUMS"), cwd=release, check=True)


@pytest.mark.parametrize("suite", PYTHONS)
def test_dpkg_installs_the_package_and_an_ordinary_user_runs_it(release: Path, tmp_path: Path, suite: str) -> None:
    (package,) = release.glob(f"tare_*+py{PYTHONS[suite]}_*.deb")
    show = "tare --version; ls /usr/share/man/man1/tare.1.gz; tare doctor; tare no-command"
    argv = ("unshare", "--mount", "--propagation", "private", "sh", "-c", INSTALL, "sh")
    done = subprocess.run(
        (*argv, root_of(suite, *OF_USERS), tmp_path, package, "sh", "-c", show),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Setting up tare" in done.stdout, done.stderr
    assert "runtimes: bare" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 2, done.stdout + done.stderr


def test_the_one_file_runs_as_an_ordinary_user_without_a_network(release: Path, tmp_path: Path) -> None:
    (tmp_path / "tare.pyz").write_bytes((release / "tare.pyz").read_bytes())
    done = in_root(root_of("trixie", *OF_USERS), tmp_path, "python3", "tare.pyz", "doctor")
    assert done.returncode == 0, done.stdout + done.stderr
