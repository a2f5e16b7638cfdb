"""Builds of the kernels, and ways to launch them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kernels.builds import cached_build, check, compile_to
from kernels.launching import APPS, Run, argv_of, execute

WALL = "libtare_wall.so"


@pytest.fixture(scope="session")
def build() -> Callable[[str], Path]:
    """Return a function that gives the folder of a build, made when first asked for."""
    return cache(cached_build)


@pytest.fixture(scope="session")
def launch(build: Callable[[str], Path]) -> Callable[..., Run]:
    """Return a function that runs a program on some ranks: one of a build by its name, another by its path."""

    def run(
        *arguments: str,
        program: str | Path = "tare-kernels",
        ranks: int = 2,
        variant: str = "openmpi",
        env: Mapping[str, str] | None = None,
        wrapper: tuple[str, ...] = (),
    ) -> Run:
        made = build(variant) / program  # a path stays as it is
        return execute(*argv_of(variant.partition("-")[0], ranks, env or {}, *wrapper, made, *arguments))

    return run


@pytest.fixture(scope="session")
def alone(build: Callable[[str], Path]) -> Callable[..., Run]:
    """Return a function that runs tare-kernels without a launcher, as one rank."""
    env = {"OMPI_MCA_btl": "self,vader", "OMPI_MCA_ess_singleton_isolated": "1"}
    return lambda *arguments: execute(build("openmpi") / "tare-kernels", *arguments, env=env)


@pytest.fixture(scope="session")
def listed(build: Callable[[str], Path]) -> dict[str, dict[str, Any]]:
    """Return what `tare-kernels --list` says of each kernel, which it does without a launcher."""
    return {kernel["name"]: kernel for kernel in json.loads(check(build("openmpi") / "tare-kernels", "--list"))}


@pytest.fixture(scope="session")
def launch_app(build: Callable[[str], Path], launch: Callable[..., Run]) -> Callable[..., Run]:
    """Return a function that compiles an application and runs it with libtare_wall.so preloaded.

    With `preload` other sources become libraries around it (`WALL` stands for it); a source that is an argument becomes
    a library, too, and the application gets its path.
    """
    compilers = {".c": "mpicc", ".f90": "mpif90"}

    @cache
    def compiled(mpi: str, name: str, *flags: str) -> Path:
        source = APPS / name
        made = build(mpi) / f"{source.stem}.{'so' if flags else 'app'}"
        return compile_to(made, f"{compilers[source.suffix]}.{mpi}", source, *flags)

    def library(mpi: str, name: str) -> str:
        return str(build(mpi) / name) if name.endswith(".so") else str(compiled(mpi, name, "-shared", "-fPIC"))

    def run(mpi: str, app: str, *arguments: str, preload: tuple[str, ...] = (WALL, "ticks.c"), **more: Any) -> Run:
        given = (library(mpi, word) if word.endswith((".c", ".f90")) else word for word in arguments)
        libraries = {"LD_PRELOAD": ":".join(library(mpi, name) for name in preload)}
        return launch(*given, program=compiled(mpi, app), variant=mpi, env=libraries, **more)

    return run
