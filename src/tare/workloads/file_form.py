"""Say why a file of this machine cannot be started as a program, from its own first bytes."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Final

from tare.errors import RefusedError
from tare.images.inside import elf

HEAD: Final = 256
"""What the kernel reads of a file to find out how to start it."""
MACHINES: Final = {62: "x86_64", 183: "aarch64", 243: "riscv64", 21: "ppc64le", 22: "s390x"}
"""CPUs by their numbers in ELF files of 64 bits."""
SOURCES: Final = {
    ".c": "mpicc", ".cc": "mpicxx", ".cpp": "mpicxx", ".cxx": "mpicxx", ".C": "mpicxx", ".f": "mpifort",
    ".f90": "mpifort", ".F90": "mpifort", ".f03": "mpifort", ".f08": "mpifort",
}  # fmt: skip
"""The compiler of a source file, by the end of its name."""
SCRIPTS: Final = {".py": "python3", ".sh": "sh", ".jl": "julia", ".R": "Rscript", ".pl": "perl"}
"""What starts a script, by the end of its name."""


def check_form(file: Path, called: str, *, in_images: bool = False) -> None:
    """Raise `RefusedError` for a file that can be read and cannot be started, with what it is and what to do.

    One that is only started in images (`in_images`) may ask for what this machine lacks.
    """
    check_source(file, called)
    try:
        with file.open("rb") as content:
            head = content.read(HEAD)
    except OSError:  # a program need not be readable
        return
    if head.startswith(b"\x7fELF"):
        _check_elf(file, called, in_images=in_images)
    elif head.startswith(b"#!"):
        _check_script(head, called, in_images=in_images)
    elif not head:
        raise RefusedError(f"{called} is empty", remedy="compile or copy it again")
    elif b"\0" not in head:
        started = SCRIPTS.get(file.suffix)
        begin = f"start it by its interpreter ({started} {called}), or " if started else ""
        raise RefusedError(
            f"{called} is a text that does not begin with #!, so that nothing says what runs it",
            remedy=f"{begin}give it a first line such as #!/bin/sh",
        )


def check_source(file: Path, called: str) -> None:
    """Raise `RefusedError` for a source file."""
    if compiler := SOURCES.get(file.suffix):
        raise RefusedError(
            f"{called} is a source file, not a program", remedy=f"compile it: {compiler} -O2 -o {file.stem} {called}"
        )


def _check_elf(file: Path, called: str, *, in_images: bool) -> None:
    try:
        with file.open("rb") as content:
            layout = elf.layout_of(content)
            content.seek(0)
            stated = elf.dynamic_of(content)
    except elf.DamagedError as error:
        raise RefusedError(f"{called} is damaged: {error}", remedy="compile or copy it again") from error
    machine = MACHINES.get(layout.machine, f"CPU number {layout.machine}") if layout else platform.machine()
    if machine != platform.machine():
        raise RefusedError(
            f"{called} is compiled for {machine}, and this machine is {platform.machine()}", remedy="compile it here"
        )
    if stated and stated.interpreter and not in_images and not os.path.exists(stated.interpreter):
        libc = "musl, as in Alpine" if "musl" in stated.interpreter else "another system"
        raise RefusedError(
            f"{called} asks for the loader {stated.interpreter}, which is not here: it is built for {libc}",
            remedy="compile it here, or link it statically; a program of an image is named by its path in there",
        )


def _check_script(head: bytes, called: str, *, in_images: bool) -> None:
    line = head[2:].partition(b"\n")[0]
    if line.endswith(b"\r"):
        raise RefusedError(
            f"{called} has the line ends of Windows, so that it asks for an interpreter whose name ends in a return",
            remedy=f"sed -i 's/\\r$//' {called}",
        )
    words = line.decode(errors="replace").split()
    if words and not in_images and not os.path.exists(words[0]):
        raise RefusedError(
            f"{called} asks in its first line for {words[0]}, which is not here", remedy="correct that line"
        )
