"""The check's probe is clean C, and what runs in a rank cannot break the line that it prints."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tare.analysis.check import facts, rules
from tare.analysis.check.facts import PART, read_ranks
from tare.images import check_probe
from tare.images.check_probe import compile_probe
from tare.images.sources import kernels_source
from waiting import wait_until

COMPILER = shutil.which("gcc") or shutil.which("clang") or ""
STRICT = ("-std=c11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", "-Wconversion", "-Wshadow", "-Wvla")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
LONGEST_LINE = 1024
"""srun passes on lines up to this whole (MAX_MSG_LEN)."""
PIPE_BUF = 4096
LOADER = """\
import os, sys, time
if sys.argv[1] == "--list":
    sys.stdout.buffer.write(LISTING)
else:
    answers = os.fdopen(int(os.environ["TARE_CHECK_ANSWERS"]), "wb", buffering=0)
    BODY
"""

ONE_MPI = b"\tlibmpi.so.40 => /nowhere/libmpi.so.40 (0x01)\n"

pytestmark = pytest.mark.skipif(not COMPILER, reason="there is no C compiler")


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a probe whose warnings are errors, and which ends at the first memory error."""
    work = tmp_path_factory.mktemp("probe")
    return compile_probe(COMPILER, kernels_source(), work, STRICT, SANITIZERS)


def program(folder: Path, interpreter: Path) -> Path:
    """Return an ELF file whose loader is another program."""
    made = folder / "app"
    (folder / "app.c").write_text("int main(void) { return 0; }\n")
    option = f"-Wl,--dynamic-linker={interpreter}"
    subprocess.run((COMPILER, option, "-o", str(made), str(folder / "app.c")), check=True)
    return made


def asked(
    probe: Path, folder: Path, *, listing: bytes = ONE_MPI, body: str = "pass",
    limit_s: int = 5, **variables: bytes,
) -> tuple[dict[str, Any], str]:  # fmt: skip
    """Return what a probe prints of a program with a loader of our own: its object, and its output."""
    loader = folder / "loader"
    text = LOADER.replace("LISTING", repr(listing)).replace("BODY", body.replace("\n", "\n    "))
    loader.write_text(f"#!/usr/bin/env python3\n{text}")
    loader.chmod(0o755)
    env = {**os.environb, **{name.encode(): value for name, value in variables.items()}}
    done = subprocess.run(
        (str(probe), str(limit_s), str(program(folder, loader))), capture_output=True, env=env, check=True
    )
    output = done.stdout.decode()
    assert b"Sanitizer" not in done.stderr
    assert b"runtime error" not in done.stderr
    assert all(len(line) < LONGEST_LINE for line in done.stdout.splitlines())
    assert len(done.stdout) <= PIPE_BUF
    texts = dict[str, str]()
    for part in PART.finditer(output):
        texts[part[1]] = texts.get(part[1], "") + part[4]
    data = dict[str, Any]()
    for text in texts.values():
        data.update(json.loads(text))
    assert len(read_ranks(output)[0]) == 1
    return data, output


LISTINGS = {
    "old kernels' page": (b"\tlinux-vdso.so.1 =>  (0x00007fff)\n", [], ""),
    "a relative path": (b"\tlibmpi.so.12 => lib/libmpi.so.12 (0x00007fff)\n", [], "lib/libmpi.so.12"),
    "a path with blanks": (b"\tlibmpi.so.12 => /a b/libmpi.so.12 (0x00007fff)\n", [], "/a b/libmpi.so.12"),
    "Cray's": (b"\tlibmpi_gnu_91.so.12 => /c/libmpi_gnu_91.so.12 (0x0)\n", [], "/c/libmpi_gnu_91.so.12"),
    "not C": (b"\tlibmpi_mpifh.so.40 => /c/libmpi_mpifh.so.40 (0x0)\n", [], ""),
    "missing": (b"\tlibmpi.so.40 => not found\n", ["libmpi.so.40"], ""),
    "many missing": (b"\tx => not found\n" * 99, ["x"] * 8, ""),
    "musl": (b"Error loading shared library libmpi.so.40: No such file (needed by a)\n", ["libmpi.so.40"], ""),
    "an older library": (b"a: libc.so.6: version `G_2.34' not found (required by a)\n", ["version G_2.34"], ""),
    "no names": (b" => \n =>  => not found\n\n=> not found\n", [], ""),
    "NULs": (b"\0\0\n\tlibmpi.so.40 => not found\n", ["libmpi.so.40"], ""),
}  # fmt: skip


@pytest.mark.parametrize("name", LISTINGS)
def test_the_loaders_listing_is_read_as_it_is_meant(name: str, probe: Path, tmp_path: Path) -> None:
    listing, missing, mpi = LISTINGS[name]
    found, _ = asked(probe, tmp_path, listing=listing)
    assert (found["program"]["missing"], found["program"]["mpi"]) == (missing, mpi)


@pytest.mark.parametrize(
    "listing",
    [
        b"\xff\xfe\n" * 9999,
        b"\xff" * 99999 + b" => not found\n",
        b"\tlibmpi.so.40 => /" + b"\xff" * 9999 + b" (0x0)\n",
        b"version `\n" * 50 + b"version `" + b"V" * 9999 + b"' not found\n",
    ],
    ids=range(4),
)
def test_a_hostile_loader_breaks_nothing(listing: bytes, probe: Path, tmp_path: Path) -> None:
    asked(probe, tmp_path, listing=listing)


def test_values_that_are_no_text_or_long_leave_the_line_small(probe: Path, tmp_path: Path) -> None:
    found, output = asked(
        probe, tmp_path, UCX_TLS=b"\xff\xc3tcp" * 5000, OMP_NUM_THREADS=b"\xe2\x82\xac" * 999, SLURM_JWT=b"secret",
        LD_LIBRARY_PATH=b"/x:" * 9000,
    )  # fmt: skip
    assert found["variables"]["UCX_TLS"].startswith("\ufffd\ufffdtcp")
    assert found["variables"]["OMP_NUM_THREADS"].startswith("€")
    assert "secret" not in output


def test_a_long_library_path_is_given_whole(probe: Path, tmp_path: Path) -> None:
    body = "answers.write(b'\"path\":%d\\n' % len(sys.argv[2]))"
    found, _ = asked(probe, tmp_path, body=body, LD_LIBRARY_PATH=b"/x:" * 3000)
    assert found["mpi"]["answers"] == [f'"path":{len("/nowhere:") + 9000}']


def test_answers_are_apart_from_what_libraries_print(probe: Path, tmp_path: Path) -> None:
    body = (
        'sys.stdout.write("no end of a line"); sys.stdout.flush(); os.write(1, b"\\0\\xff x" * 200_000)\n'
        'os.write(2, b\'"size":99\\n\'); answers.write(b\'"size":2\\n"done":1\\n\')'
    )
    found, _ = asked(probe, tmp_path, body=body)
    assert found["mpi"]["answers"] == ['"size":2', '"done":1']
    assert "said" not in found["mpi"]


def test_what_an_mpi_says_is_kept_where_it_comes_to_no_end(probe: Path, tmp_path: Path) -> None:
    found, _ = asked(probe, tmp_path, body='os.write(1, b"why\\n" * 9999); os.abort()')
    assert (found["mpi"]["ended"], found["mpi"]["signal"]) == ("signal", 6)
    assert found["mpi"]["said"].startswith("why\nwhy\n")


def test_a_rank_that_its_launcher_ends_tells_what_it_knows(probe: Path, tmp_path: Path) -> None:
    body = 'answers.write(b\'"rank":0\\n\'); os.write(2, b"why"); os.kill(os.getppid(), 15); time.sleep(60)'
    found, _ = asked(probe, tmp_path, body=body)
    assert (found["mpi"]["ended"], found["mpi"]["answers"]) == ("stopped", ['"rank":0'])


def test_what_a_rank_sees_is_written_before_its_mpi_is_asked(probe: Path, tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        asked(probe, tmp_path, body='os.write(2, b"why"); os.kill(os.getppid(), 9); time.sleep(60)')
    (found,), _ = read_ranks(caught.value.stdout.decode())
    assert found.mpi is not None
    assert (found.mpi.ended, caught.value.stderr) == ("killed", b"why")


ENDLESS = {
    "floods": 'while True: os.write(1, b"x" * 4096)',
    "closes its outputs": "os.close(1); os.close(2); answers.close(); time.sleep(60)",
    "sleeps": "time.sleep(60)",
    "ignores signals": "import signal; signal.signal(15, signal.SIG_IGN); time.sleep(60)",
    "leaves one that floods": 'if os.fork() == 0:\n    while True: os.write(1, b"x" * 4096)',
}


@pytest.mark.parametrize("name", ENDLESS)
def test_nothing_outlives_the_limit(name: str, probe: Path, tmp_path: Path) -> None:
    body = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n{ENDLESS[name]}"
    found, _ = asked(probe, tmp_path, body=body, limit_s=1)
    assert found["mpi"]["ended"] == ("exit" if "leaves" in name else "limit")
    group = int((tmp_path / "pid").read_text())
    wait_until(lambda: not _is_there(group), what="the end of what the child left")


def _is_there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_program_that_may_not_be_run_is_told_apart(probe: Path, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("x")
    for name, kind in (("data", "forbidden"), ("nothing", "none")):
        done = subprocess.run((str(probe), "3", str(tmp_path / name)), capture_output=True, text=True, check=True)
        assert read_ranks(done.stdout)[0][0].kind == kind


def test_every_variable_that_rules_read_is_recorded() -> None:
    text = (kernels_source() / "check" / "facts.c").read_text()
    recorded = set(re.findall(r'"([A-Z]\w+)"', text))
    assert {*facts.SIZES, *rules.ONLY_NETWORK, "OMP_NUM_THREADS", "SLURM_PROCID", "PMI_RANK"} <= recorded


def test_a_change_of_the_probe_or_of_what_it_shares_is_another_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = tmp_path / "kernels"
    shutil.copytree(kernels_source(), sources, ignore=shutil.ignore_patterns("build*"))
    monkeypatch.setattr(check_probe, "kernels_source", lambda: sources)
    monkeypatch.setattr(check_probe, "compile_probe", lambda *given: (given[2] / "tare-probe").write_text(""))
    made = {check_probe.ensure_probe(tmp_path)}
    for changed in ("check/child.c", "check/ask_mpi.c", "common/json.h"):
        (sources / changed).write_text("changed")
        made.add(check_probe.ensure_probe(tmp_path))
    assert len(made) == 4
