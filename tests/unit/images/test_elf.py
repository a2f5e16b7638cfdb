"""The x86-64 level of a file is read from its notes, that of the machine from its flags."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tare.images.inside.elf import FLAGS, GNU_PROPERTIES, ISA_NEEDED, level_needed, level_of_machine


def padded(content: bytes, to: int = 8) -> bytes:
    return content + b"\0" * (-len(content) % to)


def note(kind: int, content: bytes, name: bytes = b"GNU\0") -> bytes:
    return struct.pack("<III", len(name), len(content), kind) + padded(name, 4) + content


def properties(*pairs: tuple[int, int]) -> bytes:
    return b"".join(padded(struct.pack("<III", kind, 4, value)) for kind, value in pairs)


def elf(*segments: tuple[int, bytes]) -> bytes:
    """Return an ELF file of 64 bits with these segments, after its header and their table."""
    start = 64 + 56 * len(segments)
    table, contents = b"", b""
    for kind, content in segments:
        table += struct.pack("<IIQQQQQQ", kind, 4, start + len(contents), 0, 0, len(content), len(content), 8)
        contents += content
    head = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    head += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, len(segments), 0, 0, 0)
    return head + table + contents


@pytest.mark.parametrize(("bits", "level"), [(0b1, 1), (0b11, 2), (0b101, 3), (0b1000, 4), (0, 0)])
@pytest.mark.parametrize("segment", [4, 0x6474E553])
def test_the_highest_level_that_is_needed_counts(bits: int, level: int, segment: int, tmp_path: Path) -> None:
    content = note(GNU_PROPERTIES, properties((0xC0000002, 3), (ISA_NEEDED, bits)))
    (tmp_path / "a").write_bytes(elf((1, b"code"), (segment, content)))
    assert level_needed([tmp_path / "a"]) == level


def test_of_several_files_and_notes_the_most_demanding_counts(tmp_path: Path) -> None:
    build_id = note(3, b"\x12" * 20)
    (tmp_path / "a").write_bytes(elf((4, build_id + note(GNU_PROPERTIES, properties((ISA_NEEDED, 0b11))))))
    (tmp_path / "b").write_bytes(elf((4, build_id)))
    assert level_needed([tmp_path / "b"]) == 0
    assert level_needed([tmp_path / "b", tmp_path / "a", tmp_path / "none"]) == 2


def test_another_makers_note_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(elf((4, note(GNU_PROPERTIES, properties((ISA_NEEDED, 8)), b"Foo\0"))))
    assert level_needed([tmp_path / "a"]) == 0


@given(st.binary(max_size=300), st.integers(0, 250))
@example(bytes(8) + b"\x80" + bytes(24), 71)
def test_what_is_cut_off_or_no_elf_says_nothing_and_breaks_nothing(rest: bytes, cut: int) -> None:
    import tempfile

    whole = elf((4, note(GNU_PROPERTIES, properties((ISA_NEEDED, 4)))))
    with tempfile.NamedTemporaryFile() as file:
        for content in (rest, whole[:cut], whole[: max(cut, 64)] + rest):
            Path(file.name).write_bytes(content)
            assert level_needed([Path(file.name)]) >= 0


@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_a_machine_has_a_level_when_it_has_all_flags_up_to_it(level: int) -> None:
    flags = "fpu lm " + " ".join(FLAGS[below] for below in range(2, level + 1))
    assert level_of_machine(f"processor\t: 0\nflags\t\t: {flags}\n") == level
    if level > 1:
        assert level_of_machine(f"flags : {flags.rsplit(' ', 1)[0]}") == level - 1


def test_a_machine_that_is_not_x86_64_has_no_level() -> None:
    assert level_of_machine("Features\t: fp asimd\n") == 0
    assert level_of_machine("") == 0
