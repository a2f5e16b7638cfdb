"""Change a launch line: leave options out, and add others, where their layer takes them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from tare.errors import UsageError
from tare.mpi.lines.line import LaunchLine, Layer, read_line

Chosen = Callable[[tuple[str, ...]], bool]
"""Whether an option with its values is meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Changes of a line: the words that are left out, and those that come before a position or in place of one."""

    line: LaunchLine
    left_out: frozenset[int] = frozenset()
    before: tuple[tuple[int, tuple[str, ...]], ...] = ()
    instead: tuple[tuple[int, str], ...] = ()

    def without(self, layer: Layer, chosen: Chosen) -> Edit:
        """Leave out the options of a layer that are chosen."""
        found = {at for span in layer.given if chosen(self.line.words[slice(*span)]) for at in range(*span)}
        return replace(self, left_out=self.left_out | found)

    def without_flags(self, layer: Layer, names: Collection[str]) -> Edit:
        """Leave out options that stand alone, also letters in a group, `-ce`."""
        edit = self.without(layer, lambda words: words[0] in names)
        letters = {name[1] for name in names if not name.startswith("--")}
        for first, end in layer.given:
            word = self.line.words[first]
            grouped = end == first + 1 and not word.startswith("--") and len(word) > 2 and letters & {*word[1:]}
            if grouped and all(f"-{letter}" in layer.syntax.flags for letter in word[1:]):
                kept = "".join(letter for letter in word[1:] if letter not in letters)
                one = frozenset({first})
                edit = edit.replacing(first, f"-{kept}") if kept else replace(edit, left_out=edit.left_out | one)
        return edit

    def without_layer(self, layer: Layer) -> Edit:
        """Leave out a whole layer, up to what it starts."""
        return replace(self, left_out=self.left_out | frozenset(range(layer.first, layer.end)))

    def adding(self, layer: Layer, *words: str) -> Edit:
        """Add options to a layer."""
        return replace(self, before=(*self.before, (layer.options, words)))

    def starting(self, *words: str) -> Edit:
        """Put words in front of the line."""
        return replace(self, before=(*self.before, (0, words)))

    def replacing(self, position: int, word: str) -> Edit:
        """Put another word in the place of one."""
        return replace(self, instead=(*self.instead, (position, word)))

    @property
    def words(self) -> tuple[str, ...]:
        """Return the changed line; empty if nothing has changed, or if it would not be read as a launch line."""
        made = tuple(self._made())
        return made if made != self.line.words and _is_read(made, self.line.command) else ()

    def _made(self) -> Iterator[str]:
        instead = dict(self.instead)
        for position, word in enumerate(self.line.words):
            for at, words in self.before:
                if at == position:
                    yield from words
            if position not in self.left_out:
                yield instead.get(position, word)


def _is_read(words: Sequence[str], command: tuple[str, ...]) -> bool:
    try:
        return read_line(words).command == command
    except UsageError:
        return False
