"""Build tare's programs with an MPI's compiler wrapper alone: no CMake, and no compiler by its own name.

The targets and their sources are read from the CMakeLists.txt of the kernels and the mini-applications, so that both
ways build the same files. Warnings are not errors here: the compiler may be any. Options and CPU levels that it does
not know are left out.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tare.system import process

LEVELS: Final = ("x86-64", "x86-64-v3", "x86-64-v4")
"""The levels of the x86-64 psABI for which there is a program of the mini-applications each, as in CMakeLists.txt."""

PLAIN: Final = "plain"
OPTIONAL: Final = (
    "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math",
    "-freciprocal-math", "-ffp-contract=fast", "-ffast-math", "-fno-tree-vectorize", "-fno-tree-slp-vectorize",
    "-fno-associative-math",
)  # fmt: skip
"""Options for speed that compilers other than GCC and Clang may not know."""

NO_MPI: Final = ("-Wl,--as-needed",)
"""What the wrapper adds is then not linked to a program or library that calls no MPI."""

_LIMIT_S: Final = 3600.0
_COMMAND: Final = re.compile(r"(\w+)\(([^()]*)\)")
_TOKEN: Final = re.compile(r'"([^"]*)"|(\S+)')
_FOLDER: Final = re.compile(r"-L *(/\S+)")


@dataclass(frozen=True)
class SourceFile:
    """A C file with the options that only it needs."""

    path: Path
    options: tuple[str, ...] = ()


class Lists:
    """The commands of a CMakeLists.txt, as far as they are lists of words."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        text = re.sub(r"(^|\s)#.*", "", (folder / "CMakeLists.txt").read_text())
        self._commands = [(name, _words(arguments)) for name, arguments in _COMMAND.findall(text)]

    @property
    def version(self) -> str:
        """Return the version of the project."""
        words = self._first("project")
        return words[words.index("VERSION") + 1]

    def sources(self, name: str) -> tuple[SourceFile, ...]:
        """Return the C files of a target, or of a variable."""
        words = self._first("add_executable", "add_library", "set", of=name)
        return tuple(SourceFile(self.folder / word, self._options(word)) for word in words[1:] if word.endswith(".c"))

    def _options(self, file: str) -> tuple[str, ...]:
        for name, words in self._commands:
            if name == "set_source_files_properties" and words[0] == file:
                return tuple(words[-1].split(";"))
        return ()

    def _first(self, *names: str, of: str = "") -> list[str]:
        return next(words for name, words in self._commands if name in names and (not of or words[0] == of))


class Compiler:
    """A compiler wrapper with a folder for object files; an object is compiled once for each set of options."""

    def __init__(self, wrapper: Path, objects: Path, options: Sequence[str], what: str) -> None:
        self._wrapper, self._objects, self._options, self._what = str(wrapper), objects, tuple(options), what
        self._pool = ThreadPoolExecutor(max_workers=max(1, len(os.sched_getaffinity(0))))
        self._known: dict[str, bool] = {}
        objects.mkdir(parents=True)

    def knows(self, option: str) -> bool:
        """Return whether the compiler accepts an option."""
        if option not in self._known:
            probe = self._objects / "probe.c"
            probe.write_text("int probe(void);\nint probe(void) { return 0; }\n")
            argv = (self._wrapper, option, "-c", str(probe), "-o", str(probe.with_suffix(".o")))
            self._known[option] = process.run(argv, check=False, timeout_s=_LIMIT_S).status == 0
        return self._known[option]

    def compiled(self, sources: Iterable[SourceFile], *options: str) -> list[str]:
        """Return the object files of sources."""
        kept = [option for option in options if option not in OPTIONAL or self.knows(option)]
        return list(self._pool.map(lambda source: self._compile(source, kept), sources))

    def link(self, target: Path, objects: Iterable[str], *options: str) -> Path:
        """Link a program or library; return its path."""
        target.parent.mkdir(parents=True, exist_ok=True)
        self._run(
            (self._wrapper, *options, "-o", str(target), *objects, *self._run_paths(), "-lm", "-ldl", "-lpthread")
        )
        return target

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(cancel_futures=True)

    def _compile(self, source: SourceFile, options: Sequence[str]) -> str:
        kept = [option for option in source.options if option not in OPTIONAL or self.knows(option)]
        stamp = hashlib.sha256(" ".join((str(source.path), *options)).encode()).hexdigest()[:16]
        target = self._objects / f"{source.path.stem}-{stamp}.o"
        if not target.exists():
            self._run((self._wrapper, *self._options, *options, *kept, "-c", str(source.path), "-o", str(target)))
        return str(target)

    def _run_paths(self) -> Iterator[str]:
        """Yield the options by which a program finds the wrapper's own libraries, wherever they are."""
        shown = process.run((self._wrapper, "-show"), check=False, timeout_s=_LIMIT_S)
        for folder in dict.fromkeys(_FOLDER.findall(shown.stdout)) if shown.status == 0 else ():
            if not folder.startswith(("/usr/lib", "/lib")):
                yield f"-Wl,-rpath,{folder}"

    def _run(self, argv: tuple[str, ...]) -> None:
        process.run(argv, timeout_s=_LIMIT_S, what=self._what)


def build_kernels(folder: Path, wrapper: Path, prefix: Path) -> None:
    """Build the kernels of a folder of sources and install them under `prefix`."""
    lists = Lists(folder)
    options = ("-std=c11", "-O2", "-g", "-fPIC", "-fvisibility=hidden", *_definitions(lists, folder))
    compiler = Compiler(wrapper, prefix / "build-objects", options, f"compiling the {folder.name} with {wrapper}")
    try:
        common = compiler.compiled(lists.sources("tare_common"))
        for name in ("tare-kernels", "tare-startup", "tare-pair"):
            compiler.link(prefix / "bin" / name, [*compiler.compiled(lists.sources(name)), *common])
        compiler.link(prefix / "bin/tare-cores", compiler.compiled(lists.sources("tare-cores")), *NO_MPI)
        wall = compiler.compiled(lists.sources("tare_wall"))
        compiler.link(prefix / "lib/libtare_wall.so", wall, "-shared", *NO_MPI)
        report = compiler.compiled(lists.sources("tare_wall_report"))
        compiler.link(prefix / "lib/libtare_wall_report.so", [*report, *common], "-shared")
        maker = compiler.link(
            prefix / "build-objects/make-modules", compiler.compiled(lists.sources("make-modules")), *NO_MPI
        )
    finally:
        compiler.close()
    modules = prefix / "share/tare/modules"
    modules.parent.mkdir(parents=True, exist_ok=True)
    process.run((str(maker), str(modules)), timeout_s=_LIMIT_S, what="making the small files of start-up")
    shutil.copy2(folder / "run/tare-run.sh", prefix / "bin/tare-run")
    shutil.rmtree(prefix / "build-objects")


def build_miniapps(folder: Path, wrapper: Path, prefix: Path) -> None:
    """Build the mini-applications of a folder of sources and install them under `prefix`."""
    lists, kernels = Lists(folder), folder.parent / "kernels"
    definitions = (*_definitions(lists, folder), f"-I{kernels}")
    speed = OPTIONAL[: OPTIONAL.index("-ffast-math")]
    options = ("-std=c11", "-O3", "-g", *definitions)
    compiler = Compiler(wrapper, prefix / "build-objects", options, f"compiling the {folder.name} with {wrapper}")
    try:
        of_x86 = platform.machine() == "x86_64"
        levels = [level for level in LEVELS if of_x86 and compiler.knows(f"-march={level}")] or [PLAIN]
        shared = (SourceFile(kernels / "common" / source.path.name) for source in lists.sources("tare_shared"))
        alone = lists.sources("tare_once")
        once = compiler.compiled([*alone, *shared], *speed)
        apps = [source for source in lists.sources("tare_apps") if source not in alone]
        for level in levels:
            march = () if level == PLAIN else (f"-march={level}",)
            objects = compiler.compiled(apps, *speed, *march)
            compiler.link(prefix / "bin" / f"tare-miniapps-{level}", [*objects, *once])
        dispatch = compiler.compiled([SourceFile(folder / "dispatch.c")], f'-DTARE_LEVELS="{" ".join(levels)}"')
        compiler.link(prefix / "bin/tare-miniapps", dispatch, *NO_MPI)
    finally:
        compiler.close()
    shutil.rmtree(prefix / "build-objects")


def _definitions(lists: Lists, folder: Path) -> tuple[str, ...]:
    mapped = f"-ffile-prefix-map={folder}/="
    return ("-D_GNU_SOURCE", f'-DTARE_VERSION="{lists.version}"', f"-I{folder}", mapped)


def _words(arguments: str) -> list[str]:
    return [quoted or plain for quoted, plain in _TOKEN.findall(arguments)]
