"""Build the probe of `tare check`: one static program that runs in any image, with its second stage inside."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tare.errors import CommandFailed, InfrastructureError, MissingTool
from tare.images.cache import Progress, ensure, silent
from tare.images.recipe import PROBE
from tare.images.sources import kernels_source
from tare.images.usage import mark_used
from tare.system import process
from tare.system.packages import install
from tare.system.paths import cache_folder

COMPILERS: Final = ("cc", "gcc", "clang", "mpicc")
OPTIONS: Final = ("-std=c11", "-D_GNU_SOURCE", "-Os", "-w")
"""Warnings of a user's compiler help nobody; tests/unit/images/test_check_probe.py makes errors of them."""
SECOND: Final = "ask_mpi.c"
"""The second stage. It is started by the program's own loader, so it is linked against libc alone, and dynamically."""
OLD: Final = ("-fno-pie", "-no-pie", "-nostartfiles", "-fno-stack-protector", "-U_FORTIFY_SOURCE", "-Wl,--no-as-needed")
"""For loaders and C libraries of older images: what starts a program and dlopen have changed their place."""
COMMON: Final = ("base64", "json", "surroundings", "cpus", "clock")
LIMIT_S: Final = 300.0


def compile_probe(compiler: str, sources: Path, work: Path, options: Sequence[str], link: Sequence[str]) -> Path:
    """Compile the probe into a folder with options of the compiler and of the linker, and return it."""
    first, second, program = sources / "check", work / "ask-mpi", work / "tare-probe"
    files = sorted(str(file) for file in first.glob("*.c") if file.name != SECOND)
    common = [str(sources / "common" / f"{name}.c") for name in COMMON]
    start = (compiler, *options, "-I", str(sources))
    embedded = f'-DASK_MPI="{second}"'
    process.run((*start, *OLD, "-o", str(second), str(first / SECOND), "-ldl"), timeout_s=LIMIT_S)
    process.run((*start, *link, embedded, "-o", str(program), *files, *common, "-lm"), timeout_s=LIMIT_S)
    second.unlink()
    return program


def ensure_probe(cache_dir: Path | None = None, progress: Progress = silent) -> Path:
    """Return the probe; build it first if it is not in the cache.

    Raises `MissingTool` without a C compiler, and `InfrastructureError` with the end of its output if it fails.
    """
    compiler = next((path for name in COMPILERS if (path := process.find(name))), None)
    if compiler is None:
        raise MissingTool("the check's probe must be compiled, and there is no C compiler", remedy=install("gcc"))
    sources = kernels_source()
    read = (file.read_bytes() for folder in (PROBE, "common") for file in sorted((sources / folder).glob("*.[ch]")))
    digest = hashlib.sha256(b"\0".join((*read, compiler.encode()))).hexdigest()[:16]
    place = (cache_dir or cache_folder()) / "check" / digest
    program = place / "tare-probe"
    mark_used(place)

    def make(work: Path) -> None:
        progress("the check's probe: compiling")
        _build(compiler, sources, work)

    return ensure(
        place, lambda: program if program.is_file() else None, make, what="the check's probe", progress=progress
    )


def _build(compiler: str, sources: Path, work: Path) -> None:
    try:
        compile_probe(compiler, sources, work, OPTIONS, ("-static", "-s"))
    except CommandFailed as error:
        raise InfrastructureError(
            f"the check's probe could not be compiled (status {error.status}): {error.stderr_tail[-400:]}",
            remedy=f"it is linked statically: {install('libc6-dev')} (Fedora: glibc-static)",
        ) from error
