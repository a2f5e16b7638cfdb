"""Files of an unpacked image: no path leads outside of it, and any script states variables that can be set."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from hypothesis import strategies as st

from fuzz.fuzzing import fuzz
from fuzz.hostile import PATHS, VICTIM, snapshot
from tare.errors import ImageError
from tare.images.inside.safe_paths import inside, make_folder, open_file, write_file
from tare.images.inside.variables import parse_exports

TREES = st.lists(st.tuples(PATHS, st.sampled_from(["file", "folder", "link", "pipe"]), PATHS), max_size=10)


def test_no_path_of_any_tree_leads_outside(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("as it was")
    before = snapshot(victim)
    rootfs = tmp_path / "rootfs"

    def check(example: tuple[list[tuple[str, str, str]], str]) -> None:
        tree, path = example
        rootfs.mkdir()
        try:
            make_tree(rootfs, tree, victim)
            path = path.replace(VICTIM, str(victim))
            found = inside(rootfs, path)
            assert found is None or not found.is_symlink()
            assert found is None or found.resolve(strict=True) == found
            with suppress(OSError), open_file(rootfs, path) as file:
                assert file.read() == b"inside"
            for target in (path, "a/b/c", "ch/environment"):
                with suppress(ImageError):
                    write_file(rootfs, target, "inside")
                with suppress(ImageError):
                    make_folder(rootfs, target)
            assert snapshot(victim) == before
            assert sorted(each.name for each in tmp_path.iterdir()) == ["rootfs", "victim"]
        finally:
            shutil.rmtree(rootfs)

    fuzz(st.tuples(TREES, PATHS.filter(lambda path: "\0" not in path)), check)


def make_tree(rootfs: Path, tree: list[tuple[str, str, str]], victim: Path) -> None:
    for name, kind, target in tree:
        parts = [
            part for part in name.split("/") if part not in ("", ".", "..", VICTIM) and len(os.fsencode(part)) < 256
        ] or ["a"]
        place = rootfs
        for part in parts[:-1]:
            place /= part
            if not os.path.isdir(place) or place.is_symlink():
                break
        place = place / parts[-1] if os.path.isdir(place) and not place.is_symlink() else rootfs / parts[-1]
        with suppress(OSError, ValueError):
            match kind:
                case "file":
                    place.touch(exist_ok=False)
                    place.write_text("inside")
                case "folder":
                    place.mkdir()
                case "link":
                    place.symlink_to(target.replace(VICTIM, str(victim)))
                case _:
                    os.mkfifo(place)


SCRIPTS = st.lists(
    st.sampled_from(['export A=x\n' + 'export A="$A$A"\n' * 40,
                     'export A="$A$A"', "export B=${A:-x}", "export C='$A'", "export PATH=/x:$PATH;", "export A=",
                     "if x; then export D=1; fi", "\0", "export E=\ud800", " \t" * 200, "\n" * 500, "${a-" * 100])
    | st.text(max_size=30),
    max_size=60,
).map("\n".join)  # fmt: skip


def test_any_script_states_variables_that_can_be_set() -> None:
    def check(script: str) -> None:
        for variable in parse_exports(script):
            assert len(os.fsencode(variable)) < 1 << 17 * 4
            assert "\0" not in variable

    fuzz(SCRIPTS, check)
