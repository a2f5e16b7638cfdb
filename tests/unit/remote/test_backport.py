"""What the backport supplies behaves as the newer Python's."""

from __future__ import annotations

import dataclasses
import io

import pytest

from tare.remote import backport


def test_fields_without_a_default_may_follow_those_with_one() -> None:
    @backport._dataclass(frozen=True, slots=True, kw_only=True)
    class Base:
        a: int = 1
        b: str

    @backport._dataclass(frozen=True, slots=True, kw_only=True)
    class More(Base):
        c: list[int] = dataclasses.field(default_factory=list)

        def __post_init__(self) -> None:
            assert self.b

    made = More(b="x")
    assert (made.a, made.b, made.c) == (1, "x", [])
    assert dataclasses.replace(made, a=2) == More(a=2, b="x")
    assert hash(Base(b="y")) == hash(Base(b="y"))
    with pytest.raises(TypeError, match="More needs b"):
        More(a=1)
    with pytest.raises(TypeError, match="More has no d"):
        More(b="x", d=1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.a = 3


def test_what_newer_pythons_have_is_there_in_older_ones() -> None:
    @backport._dataclass
    class Point:
        x: int
        y: int = 0

    assert Point(1) == Point(1, 0)
    assert list(backport._Zip([1, 2], "ab", strict=True)) == [(1, "a"), (2, "b")]
    assert list(backport._Zip([1, 2], "a")) == [(1, "a")]
    assert list(backport._Zip(strict=True)) == []
    with pytest.raises(ValueError, match="different lengths"):
        list(backport._Zip([1, 2], "a", strict=True))

    class Word(backport._StrEnum):
        ONE = "one"

    assert (str(Word.ONE), f"{Word.ONE}", Word("one"), Word.ONE == "one") == ("one", "one", Word.ONE, True)
    import hashlib

    data = b"x" * 1_000_000
    assert backport._file_digest(io.BytesIO(data), "sha256").hexdigest() == hashlib.sha256(data).hexdigest()
