"""The lock files hold what running and testing need, each package with its hashes and without an address."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.MULTILINE)


def locked(name: str) -> dict[str, str]:
    return dict(PIN.findall((ROOT / "lock" / name).read_text()))


def test_the_locks_have_every_dependency_and_developers_the_same_versions() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["modality"]]
    assert {re.split(r"[>=<~ ]", text)[0] for text in wanted} <= set(locked("run.txt"))
    assert locked("run.txt").items() <= locked("dev.txt").items()


def test_every_locked_package_has_a_hash_and_none_an_address() -> None:
    for name in ("run.txt", "dev.txt", "hnn.txt", "imb.txt", "mpis.txt", "podman-hpc.txt"):
        text = (ROOT / "lock" / name).read_text()
        blocks = re.split(r"^(?=[A-Za-z0-9._-]+==)", text, flags=re.MULTILINE)[1:]
        assert blocks
        assert all("--hash=sha256:" in block for block in blocks), name
        assert "://" not in text
        assert "--index" not in text
