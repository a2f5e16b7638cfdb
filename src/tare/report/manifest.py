"""Format the manifest, a tree of facts of any shape, as lists with headings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tare.report import units

LARGE: Final = 3
ACRONYMS: Final = frozenset({"cpu", "mpi", "mtu", "os"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A list of facts with a heading."""

    title: str
    facts: tuple[tuple[str, str], ...]


def sections(manifest: Mapping[str, object]) -> tuple[Section, ...]:
    """Return a section for the facts at the root of the tree, then one per branch."""
    leaves = tuple(
        (_words(key), _text(key, value)) for key, value in manifest.items() if not isinstance(value, Mapping)
    )
    first = [Section(title="study", facts=leaves)] if leaves else []
    branches = [_branch(key, value) for key, value in manifest.items() if isinstance(value, Mapping)]
    return (*first, *(section for branch in branches for section in branch))


def _branch(title: str, tree: Mapping[str, object]) -> Iterator[Section]:
    """Yield a section for the facts of a branch; large branches below it become separate sections."""
    large = {key: value for key, value in tree.items() if isinstance(value, Mapping) and len(value) > LARGE}
    facts = tuple(_facts("", {key: value for key, value in tree.items() if key not in large}))
    if facts:
        yield Section(title=_words(title), facts=facts)
    for key, value in large.items():
        yield from _branch(f"{title}: {key}", value)


def _facts(prefix: str, tree: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for key, value in tree.items():
        name = f"{prefix}{_words(key)}"
        if isinstance(value, Mapping):
            yield from _facts(f"{name}: ", value)
        else:
            yield name, _text(str(key), value)


def _words(key: object) -> str:
    """Return the label of a key; names with a dot, such as those of sysctls, stay as they are."""
    text = str(key)
    if "." in text:
        return text
    for suffix in ("_bytes", "_s"):
        text = text.removesuffix(suffix)
    return " ".join(word.upper() if word in ACRONYMS else word for word in text.split("_"))


def _text(key: str, value: object) -> str:
    match value:
        case None | "":
            return "none"
        case bool():
            return "yes" if value else "no"
        case int() | float() if key.endswith("_bytes"):
            return units.size(value)
        case int() | float() if key.endswith("_s"):
            return units.duration(value)
        case float():
            return f"{value:g}"
        case str():
            return value
        case Sequence():
            return ", ".join(_text("", item) for item in value) or "none"
        case Mapping():
            return ", ".join(f"{_words(name)} {_text(str(name), item)}" for name, item in value.items())
        case _:
            return str(value)
