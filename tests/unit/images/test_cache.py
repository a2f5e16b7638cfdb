"""The cache: entries are made whole, one process at a time each, and different ones side by side."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tare.errors import InfrastructureError, UsageError
from tare.images.__main__ import tasks
from tare.images.cache import locked, silent, write_atomically


def test_two_entries_are_made_side_by_side(tmp_path: Path) -> None:
    meet = threading.Barrier(2)

    def make(name: str) -> None:
        target = tmp_path / name
        with locked(target, what=name, progress=silent), write_atomically(target) as work:
            meet.wait()  # both are at work now
            (work / "file").write_text(name)

    with ThreadPoolExecutor(max_workers=2) as pool:
        list(pool.map(make, ("one", "two")))
    assert [(tmp_path / name / "file").read_text() for name in ("one", "two")] == ["one", "two"]
    assert not list(tmp_path.glob(".unfinished-*"))


def test_an_entry_is_waited_for_while_another_makes_it(tmp_path: Path) -> None:
    target, said = tmp_path / "one", threading.Event()
    told: list[str] = []
    order: list[str] = []

    def wait(message: str) -> None:
        told.append(message)
        said.set()

    def second() -> None:
        with locked(target, what="kernels", progress=wait):
            order.append("second")

    with locked(target, what="kernels", progress=silent):
        other = threading.Thread(target=second)
        other.start()
        assert said.wait()
        order.append("first")
    other.join()
    assert order == ["first", "second"]
    assert len(told) == 1
    assert "another process is building it" in told[0]


def test_what_another_process_fills_is_not_taken_for_a_leftover(tmp_path: Path) -> None:
    (tmp_path / ".unfinished-abandoned").mkdir()
    with write_atomically(tmp_path / "one") as first, write_atomically(tmp_path / "two") as second:
        assert first.is_dir()
        assert second.is_dir()
        assert not (tmp_path / ".unfinished-abandoned").exists()


def test_a_cache_that_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InfrastructureError) as caught, locked(tmp_path / "file" / "one", what="x", progress=silent):
        pass
    assert "XDG_CACHE_HOME" in caught.value.remedy


def test_images_and_kernels_are_prepared_in_turn() -> None:
    made = tasks(("kernels", "openmpi", "mpich", "openmpi5", "image", "debian-openmpi", "debian-mpich"))
    assert [task.args[0] for task in made] == ["debian-openmpi", "openmpi", "debian-mpich", "mpich", "openmpi5"]
    assert [task.args[0] for task in tasks(("kernels",))] == ["openmpi"]
    assert [task.args[0] for task in tasks(("image",))] == ["debian-openmpi"]


@pytest.mark.parametrize("argv", [(), ("nonsense",), ("nonsense", "image")])
def test_what_is_not_known_is_refused(argv: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="name what to prepare"):
        tasks(argv)
