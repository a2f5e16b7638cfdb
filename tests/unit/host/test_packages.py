"""A remedy names the package as this machine's own package manager does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tare.host import packages
from tare.host.packages import COMMANDS, install, name_of, package_manager

SOURCES = Path(packages.__file__).parents[1]


def os_release(tmp_path: Path, text: str) -> Path:
    (tmp_path / "os-release").write_text(text)
    return tmp_path / "os-release"


@pytest.mark.parametrize(
    ("text", "manager"),
    [
        ("ID=debian\nVERSION_ID='12'\n", "apt"),
        ("ID=linuxmint\nID_LIKE='ubuntu debian'\n", "apt"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "dnf"),
        ("ID=fedora\n", "dnf"),
        ('ID="opensuse-leap"\nID_LIKE="suse opensuse"\n', "zypper"),
        ('# ID=debian\nID="sles"\n', "zypper"),
        ("ID=nixos\n", ""),
        ("ID='unbalanced\nID_LIKE=fedora\n", "dnf"),
        ("\0\nnonsense", ""),
        ("", ""),
    ],
)
def test_the_package_manager_follows_from_os_release(text: str, manager: str, tmp_path: Path) -> None:
    assert package_manager(os_release(tmp_path, text)) == manager


@pytest.mark.parametrize(
    ("system", "sentence"),
    [
        ("debian", "apt-get install openmpi-bin libopenmpi-dev"),
        ("fedora", "dnf install openmpi openmpi-devel"),
        ("sles", "zypper install openmpi4 openmpi4-devel"),
        ("gentoo", "install Open MPI and Open MPI with its compiler with your package manager"),
    ],
)
def test_a_remedy_is_in_the_words_of_the_system(system: str, sentence: str, tmp_path: Path) -> None:
    release = os_release(tmp_path, f"ID={system}\n")
    assert install("openmpi-bin", "libopenmpi-dev", os_release=release) == sentence


def test_without_a_package_or_an_os_release_there_is_no_command(tmp_path: Path) -> None:
    release = os_release(tmp_path, "ID=fedora\n")
    assert install("hpcc", os_release=release) == "install hpcc with your package manager"
    assert install("podman", "hpcc", os_release=release) == "install Podman and hpcc with your package manager"
    assert install("podman", os_release=tmp_path / "none") == "install Podman with your package manager"


def test_every_package_of_the_sources_is_known_to_all_package_managers_or_said_to_be_missing() -> None:
    text = "\n".join(path.read_text() for path in SOURCES.rglob("*.py"))
    named = set(re.findall(r'package="([^"]+)"', text))
    for arguments in re.findall(r"\binstall\(((?:\"[^\"]+\",? ?)+)\)", text):
        named |= set(re.findall(r'"([^"]+)"', arguments))
    assert {"podman", "openmpi-bin", "util-linux"} <= named
    assert named <= set(packages._NAMES)
    assert {name for name in packages._NAMES if not all(name_of(name, it) for it in COMMANDS)} == {
        "hpcc", "mmdebstrap", "charliecloud-runtime",
    }  # fmt: skip
