"""Read a launch line, find the program in it, and put another one in front of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from tare.errors import UsageError
from tare.mpi.lines.words import SYNTAX, LayerRole, Syntax

SHELL: Final = frozenset({"|", "||", "&&", ";", "&", ">", "<", ">>", "2>", "2>&1"})
EXAMPLE: Final = "tare check -- mpirun -n 4 ./app"
NEXT_PART: Final = ":"
"""Separates the parts of a job of several programs (MPMD) for mpirun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A launcher, container or wrapper of a line: the positions of its name, its first option, and what it starts.

    `image` is the position of the image, or of the container that it enters; None if it names none in a word.
    """

    name: str
    syntax: Syntax
    first: int
    options: int
    end: int
    image: int | None = None


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
            shown = [word.format(folder=folder) for word in layer.syntax.show]
            words[layer.options : layer.options] = shown
        return tuple(words)

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
        raise UsageError(
            f"no program follows {layers[-1].name!r} in `{' '.join(given)}`",
            remedy=f"give the whole line, with the program: {EXAMPLE}",
        )
    if NEXT_PART in given[position:] and layers and layers[0].syntax.role is LayerRole.LAUNCHER:
        raise UsageError(
            "the line starts several programs (`:`)", remedy="check one part of it at a time, up to the colon"
        )
    line = LaunchLine(words=given, layers=tuple(layers), program=position)
    if line.launcher is None:
        raise UsageError(
            f"`{' '.join(given[:3])}` is not a launcher that tare knows",
            remedy=f"begin with the launcher: {EXAMPLE}; known: mpirun, mpiexec, srun, flux run",
        )
    return line


def _layer_at(words: Sequence[str], first: int) -> Layer | None:
    """Return the layer whose name is at a position; None if that is the program."""
    if first >= len(words):
        return None
    name = PurePath(words[first]).name
    for syntax in SYNTAX.get(name, ()):
        if not syntax.verbs:
            return _read_layer(words, name, syntax, first, first + 1)
        verb = next((at for at in range(first + 1, len(words)) if not words[at].startswith("-")), first)
        if words[verb] in syntax.verbs:
            return _read_layer(words, name, syntax, first, verb + 1)
    return None


def _read_layer(words: Sequence[str], name: str, syntax: Syntax, first: int, options: int) -> Layer:
    position, image, left = options, None, syntax.places
    while position < len(words):
        word = words[position]
        if word == "--":
            position += 1
            if not left:
                break
        elif word.startswith("-") and len(word) > 1 and (left == syntax.places or name == "kubectl"):
            position += 1 + _values(syntax, word)
        elif syntax.assigns and "=" in word:
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
    return Layer(name=name, syntax=syntax, first=first, options=options, end=position, image=image)


def _values(syntax: Syntax, word: str) -> int:
    """Return how many of the next words are an option's values."""
    if word in syntax.pairs:
        return 2
    if word in syntax.valued:
        return 1
    if "=" in word:
        return 0
    if word.startswith("--"):
        return int(syntax.has_long_values and word not in syntax.flags)
    return int(word[-1] in syntax.letters and (len(word) == 2 or word[1] not in syntax.letters))
