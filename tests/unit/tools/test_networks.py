"""`tools/networks` compiles what its hashes say, whatever the machine's settings for Go are."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
HOSTILE = {
    "GOFLAGS": "-mod=mod -toolexec=/bin/evil",
    "GONOSUMDB": "*",
    "GONOSUMCHECK": "1",
    "GOINSECURE": "*",
    "GOPRIVATE": "*",
    "GONOPROXY": "*",
    "GOSUMDB": "somewhere",
    "GOTOOLCHAIN": "go1.99",
    "GOWORK": "/evil/go.work",
    "GOENV": "/evil/env",
    "GOROOT": "/evil",
    "CGO_CFLAGS": "-include /evil.h",
    "CGO_LDFLAGS": "-levil",
}
GO = """#!/bin/sh
case $1 in
env) case $2 in GOVERSION) echo {version} ;; GOPROXY) echo https://mirror.invalid ;; esac ;;
mod) printf '{{\\n\\t"Dir": "{folder}",\\n\\t"Sum": "{sum}"\\n}}\\n' ;;
build)
	env >{told}
	while [ $# -gt 0 ]; do
		case $1 in -mod=*) echo "$1" >>{told} ;; -o) echo flanneld >"$2" ;; esac
		shift
	done ;;
esac
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a clone whose tools unpack below it, with a `go` of ours first on PATH."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "bin").mkdir()
    text = (ROOT / "tools/networks").read_text()
    changed = re.sub(r"^readonly FOLDER=\S+", f"readonly FOLDER={tmp_path}/opt", text, flags=re.MULTILINE)
    assert changed != text
    (tmp_path / "tools/networks").write_text(changed.replace("/usr/local/go/bin/go", "/nowhere/go"))
    (tmp_path / "tools/networks").chmod(0o755)
    shutil.copy(ROOT / "tools/lib.sh", tmp_path / "tools")
    shutil.copytree(ROOT / "lock/flannel", tmp_path / "lock/flannel")
    return tmp_path


def go(clone: Path, version: str, total: str = "h1:other") -> None:
    newer = clone / "newer"
    for folder in ("bin", "pkg/tool"):
        (newer / folder).mkdir(parents=True, exist_ok=True)
    (newer / "bin/go").write_text(GO.format(version="go1.23.12", folder="", sum="", told=clone / "told-by-newer"))
    (newer / "bin/go").chmod(0o755)
    (clone / "bin/go").write_text(GO.format(version=version, folder=newer, sum=total, told=clone / "told"))
    (clone / "bin/go").chmod(0o755)


def ran(clone: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{clone}/bin:{os.environ['PATH']}", **variables}
    argv = (clone / "tools/networks", "flannel")
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.requires("root")
def test_no_setting_of_the_machine_reaches_the_compilation_but_the_proxy(clone: Path) -> None:
    go(clone, "go1.23.6")
    result = ran(clone, **HOSTILE)
    assert result.returncode == 0, result.stderr
    told = (clone / "told").read_text()
    assert "evil" not in told
    assert "-mod=readonly" in told.splitlines()
    given = dict(line.partition("=")[::2] for line in told.splitlines() if line.startswith(("GO", "CGO_")))
    own = {"GOENV", "GOPROXY", "GOSUMDB", "GOTOOLCHAIN", "GOWORK", "GOFLAGS", "CGO_ENABLED", "GOPATH", "GOCACHE"}
    assert set(given) == own
    assert (given["GOPROXY"], given["GOFLAGS"]) == ("https://mirror.invalid", "-modcacherw")
    assert (clone / "opt/flannel/flanneld").read_text() == "flanneld\n"


@pytest.mark.requires("root")
def test_a_newer_go_is_used_only_if_its_hash_is_ours(clone: Path) -> None:
    go(clone, "go1.19.8", "h1:somebodyelses=")
    result = ran(clone)
    assert result.returncode == 5
    assert "the hash of golang.org/toolchain" in result.stderr
    assert not (clone / "told-by-newer").exists()
    (total,) = re.findall(r"^readonly TOOLCHAIN_SUM=(\S+)", (ROOT / "tools/networks").read_text(), re.MULTILINE)
    go(clone, "go1.19.8", total)
    assert ran(clone).returncode == 0
    assert (clone / "told-by-newer").exists()


@pytest.mark.parametrize("name", ["flannel", "kubernetes", "mpi-operator", "cilium"])
def test_every_module_has_its_hash(name: str) -> None:
    stated = (ROOT / "lock" / name / "go.mod").read_text()
    replaced = dict(re.findall(r"^\t(\S+) => (\S+ v\S+)", stated, re.MULTILINE))
    required = {
        replaced.get(line.partition(" ")[0], line)
        for line in re.findall(r"^(?:require |\t)(\S+ v\S+)", stated, re.MULTILINE)
    }
    hashed = {line.rpartition(" ")[0] for line in (ROOT / "lock" / name / "go.sum").read_text().splitlines()}
    assert len(required) > 50
    # A module of which no package is compiled has only the hash of its go.mod.
    assert {each for each in required if each not in hashed and f"{each}/go.mod" not in hashed} == set()


def test_what_can_be_brought_is_named(clone: Path) -> None:
    result = subprocess.run((clone / "tools/networks", "kube"), capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "it is tools/networks [etcd] [flannel] [kubernetes] [mpi-operator] [cilium]" in result.stderr
    result = subprocess.run((clone / "tools/networks", "renew"), capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (
        2,
        "networks: say what to renew: tools/networks renew flannel|kubernetes|mpi-operator|cilium\n",
    )


def test_pip_builds_nothing_but_what_is_named() -> None:
    for tool in ("bootstrap", "mpis", "programs"):
        text = (ROOT / "tools" / tool).read_text().replace("\\\n", " ")
        for line in text.splitlines():
            if re.search(r'\bpip (install|download)\b|"\$\{installs\[@\]\}"', line) and "--editable ." not in line:
                assert "--only-binary :all:" in line, (tool, line)
