"""Read a launch line, find the program in it, and put another one in front of it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from tare.errors import UsageError
from tare.mpi.lines.words import SYNTAX, LayerRole, Syntax

SHELL: Final = frozenset({"|", "||", "&&", ";", "&", ">", "<", ">>", "2>", "2>&1"})
EXAMPLE: Final = "tare check -- mpirun -n 4 ./app"
SCRIPTS: Final = frozenset({".sh", ".bash", ".slurm", ".sbatch", ".job"})
NEXT_PART: Final = ":"
"""Separates the parts of a job of several programs (MPMD) for mpirun."""
LINE_IN_IT: Final = "give the line in it that starts the ranks, in a job: salloc ... tare check -- srun ./app"
OF_OTHERS: Final[Mapping[str, tuple[str, str]]] = {
    **dict.fromkeys(("sbatch", "qsub", "bsub", "oarsub"), ("starts a script later, and not ranks", LINE_IN_IT)),
    **dict.fromkeys(
        (
            "gdb",
            "lldb",
            "xterm",
            "valgrind",
            "strace",
            "ltrace",
            "perf",
            "nsys",
            "ncu",
            "vtune",
            "totalview",
            "rocprof",
        ),
        ("starts the program in its own way", "leave it out for the check"),
    ),
}
"""What is in front of programs and cannot be in front of the probe: why, and what to do."""
SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "csh", "tcsh"})
ASSIGNS: Final = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A launcher, container or wrapper of a line: the positions of its name, its first option, and what it starts.

    `image` is the position of the image, or of the container that it enters; None if it names none in a word. `given`
    are the first and the end position of each option with its values, and of each variable that is set.
    """

    name: str
    syntax: Syntax
    first: int
    options: int
    end: int
    image: int | None = None
    given: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchLine:
    """A launch line: its words, its layers from the outermost on, and the position of the program."""

    words: tuple[str, ...]
    layers: tuple[Layer, ...]
    program: int

    @property
    def command(self) -> tuple[str, ...]:
        """Return the program with its arguments."""
        return self.words[self.program :]

    @property
    def launcher(self) -> Layer | None:
        """Return the layer that starts ranks; None if there is none."""
        return next((layer for layer in self.layers if layer.syntax.role is LayerRole.LAUNCHER), None)

    @property
    def container(self) -> Layer | None:
        """Return the innermost layer that is a container; None if there is none."""
        inside = (LayerRole.CONTAINER, LayerRole.INSIDE)
        return next((layer for layer in reversed(self.layers) if layer.syntax.role in inside), None)

    def before_program(self, probe: PurePath, *arguments: str) -> tuple[str, ...]:
        """Return the line with a probe and its arguments in front of the program.

        Containers that the line starts are shown the probe's folder.
        """
        folder = str(probe.parent)
        place = self.container.syntax.place if self.container is not None else ""
        words = [*self.words[: self.program], str(PurePath(place or folder, probe.name)), *arguments, *self.command]
        for layer in reversed(self.layers):
            shown = [word.format(folder=folder) for word in self._show(layer)]
            words[layer.options : layer.options] = shown
        return tuple(words)

    def _show(self, layer: Layer) -> tuple[str, ...]:
        """Return the words that show a folder to what a layer starts: a plug-in of Slurm (Pyxis) is a container too."""
        if layer.name == "srun" and any(w.startswith("--container-image") for w in self.words[layer.first : layer.end]):
            return ("--container-mounts={folder}:{folder}",)
        return layer.syntax.show

    def without_container(self) -> tuple[str, ...] | None:
        """Return the line without the layers that start or enter containers; None if there are none."""
        if self.container is None:
            return None
        kept = [
            self.words[layer.first : layer.end]
            for layer in self.layers
            if layer.syntax.role in (LayerRole.LAUNCHER, LayerRole.WRAPPER)
        ]
        return (*(word for words in kept for word in words), *self.command)


def read_line(words: Sequence[str]) -> LaunchLine:
    """Return a launch line as its parts; raise `UsageError` if it has no launcher or no program, or is of a shell."""
    given = tuple(words)
    if given and ASSIGNS.fullmatch(given[0]):
        given = ("env", *given)
    if not given:
        raise UsageError("no launch line is given", remedy=f"give the line that starts the job: {EXAMPLE}")
    if found := next((word for word in given if word in SHELL), None):
        raise UsageError(
            f"{found!r} belongs to a shell, and a launch line is one command",
            remedy="give the part that starts the ranks, without pipes and files",
        )
    layers, position = list[Layer](), 0
    while (layer := _layer_at(given, position)) is not None:
        layers.append(layer)
        position = layer.end
    if position >= len(given):
        raise _no_program(given, layers)
    if NEXT_PART in given[position:] and layers and layers[0].syntax.role is LayerRole.LAUNCHER:
        raise UsageError(
            "the line starts several programs (`:`)", remedy="check one part of it at a time, up to the colon"
        )
    line = LaunchLine(words=given, layers=tuple(layers), program=position)
    _refuse_program(line)
    if line.launcher is None:
        if " " in given[0]:
            raise UsageError("the line is in quotes", remedy=f"leave the quotes out: {EXAMPLE}")
        if PurePath(given[0]).suffix in SCRIPTS or PurePath(given[0]).name in SHELLS:
            raise UsageError(
                f"`{' '.join(given[:2])}` is a script",
                remedy=f"give the line inside of it that starts the job: {EXAMPLE}",
            )
        raise UsageError(
            f"`{' '.join(given[:3])}` is not a launcher that tare knows",
            remedy=f"begin with the launcher, mpirun, mpiexec, srun or flux run: {EXAMPLE}",
        )
    return line


def _layer_at(words: Sequence[str], first: int) -> Layer | None:
    """Return the layer whose name is at a position; None if that is the program."""
    if first >= len(words):
        return None
    name = PurePath(words[first]).name
    if not (entries := SYNTAX.get(name, ())):
        return None
    if not entries[0].verbs:
        return _read_layer(words, name, entries[0], first, first + 1)
    verb = _verb_at(words, first, entries[0])
    for syntax in entries:
        if words[verb] in syntax.verbs:
            return _read_layer(words, name, syntax, first, verb + 1)
    known = " or ".join(f"{name} {each}" for syntax in entries for each in sorted(syntax.verbs))
    given = f"{name} {words[verb]}" if verb > first else name
    raise UsageError(f"`{given}` starts no program that tare could ask", remedy=f"give a line with {known}")


def _verb_at(words: Sequence[str], first: int, syntax: Syntax) -> int:
    """Return the position of the subcommand behind a name and its options, that of the name if there is none."""
    position = first + 1
    while position < len(words):
        word = words[position]
        if word.startswith("-"):
            position += 1 + (word in syntax.before)
        elif word in syntax.skips:
            position += 1
        else:
            return position
    return first


def _no_program(words: Sequence[str], layers: Sequence[Layer]) -> UsageError:
    last, line = layers[-1], " ".join(words)
    if last.image is not None and last.syntax.role is LayerRole.CONTAINER:
        return UsageError(
            f"`{line}` starts what its image says, which tare does not know",
            remedy=f"give the program behind the image: ... {words[last.image]} ./app",
        )
    return UsageError(
        f"no program follows {last.name!r} in `{line}`", remedy=f"give the whole line, with the program: {EXAMPLE}"
    )


def _refuse_program(line: LaunchLine) -> None:
    """Raise `UsageError` if what stands in the place of the program only starts it, or is inside of what runs."""
    name = PurePath(line.command[0]).name
    if name in OF_OTHERS:
        why, remedy = OF_OTHERS[name]
        raise UsageError(f"{name} {why}", remedy=remedy)
    if name in SHELLS and any(re.fullmatch("-[a-z]*c", word) for word in line.command[1:3]):
        raise UsageError(
            f"{name} -c starts what is in its text, which tare does not read",
            remedy="give the program itself; for variables, `env NAME=VALUE ./app`",
        )
    launcher = line.launcher
    if launcher is not None and launcher.name == "mpirun_rsh" and "-hostfile" not in line.words[: line.program]:
        raise UsageError(
            "the hosts of mpirun_rsh are not told from its program", remedy="give them with -hostfile FILE"
        )
    for layer in line.layers:
        if layer.image is not None and line.words[layer.image].startswith("instance://"):
            raise UsageError(
                f"{line.words[layer.image]} runs already, and tare's probe is not in it",
                remedy=f"check the image that it was started from: {layer.name} exec IMAGE ./app",
            )


def _read_layer(words: Sequence[str], name: str, syntax: Syntax, first: int, options: int) -> Layer:
    position, image, left = options, None, syntax.places
    given = list[tuple[int, int]]()
    while position < len(words):
        word = words[position]
        if word == "--":
            position += 1
            if not left:
                break
        elif word.startswith("-") and len(word) > 1 and (left == syntax.places or name == "kubectl"):
            following = words[position + 1] if position + 1 < len(words) else ""
            _refuse_option(name, syntax, word, following)
            end = position + 1 + _values(name, syntax, word, following)
            given.append((position, end))
            position = end
        elif (syntax.assigns and ASSIGNS.fullmatch(word)) or word in syntax.skips:
            given.append((position, position + 1))
            position += 1
        elif left:
            image = position if image is None else image
            left -= 1
            position += 1
            if position < len(words) and words[position] == "--":
                position += 1
                break
            if not left and name != "kubectl":
                break
        else:
            break
    return Layer(name=name, syntax=syntax, first=first, options=options, end=position, image=image, given=tuple(given))


def _refuse_option(name: str, syntax: Syntax, word: str, following: str) -> None:
    """Raise `UsageError` for an option with which ranks cannot be asked, alone or in a group of letters."""
    option, has_value, value = word.partition("=")
    if option == "--entrypoint" and not (value if has_value else following) and option not in syntax.flags:
        return
    group = [] if word.startswith("--") or not (syntax.letters and syntax.refused) else [*word[1:]]
    ends = next((at + 1 for at, letter in enumerate(group) if letter in syntax.letters), len(group))
    for each in (option, *(f"-{letter}" for letter in group[:ends])):
        if each in syntax.refused:
            raise UsageError(f"{name} {each} cannot be part of a check", remedy=syntax.refused[each])


def _values(name: str, syntax: Syntax, word: str, following: str) -> int:
    """Return how many of the next words are an option's values; raise `UsageError` if that is not known."""
    if word in syntax.pairs:
        return 1 if "=" in following and "env" in word else 2
    if word in syntax.valued:
        return 1
    if word in syntax.numbered:
        return int(following.isdecimal())
    if "=" in word or word in syntax.flags:
        return 0
    if word.startswith("--") and syntax.has_long_values:
        return 1
    if syntax.letters:
        return int(word[-1] in syntax.letters and not any(letter in syntax.letters for letter in word[1:-1]))
    if syntax.flags and following and not following.startswith("-") and not _is_group(syntax, word):
        raise UsageError(
            f"tare does not know the option {word} of {name}: {following!r} may be its value, or the program",
            remedy=f"leave {word} out for the check, or put another option behind it",
        )
    return 0


def _is_group(syntax: Syntax, word: str) -> bool:
    """Tell whether a word is known letters together, or one with its value behind it: `-ce`, `-n4`."""
    if word.startswith("--"):
        return False
    return word[:2] in syntax.valued or all(f"-{letter}" in syntax.flags for letter in word[1:])
