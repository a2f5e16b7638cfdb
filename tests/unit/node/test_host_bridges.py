"""What Docker's daemons change for all bridges of the host is set back, at once and at the end."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tare.node.bridges import LOOK_S, NAMES, as_they_were


def load(folder: Path, value: str = "1") -> None:
    """Do what loading the module does: the settings are there, and on."""
    folder.mkdir(exist_ok=True)
    for name in NAMES:
        (folder / name).write_text(f"{value}\n")


def values(folder: Path) -> set[str]:
    return {(folder / name).read_text().strip() for name in NAMES}


def test_a_module_that_is_loaded_meanwhile_leaves_the_host_s_bridges_as_they_were(tmp_path: Path) -> None:
    folder = tmp_path / "bridge"
    with as_they_were(folder):
        load(folder)
        time.sleep(5 * LOOK_S)
        assert values(folder) == {"0"}
    assert values(folder) == {"0"}


@pytest.mark.parametrize("before", ["0", "1"])
def test_settings_that_somebody_has_made_are_given_back(before: str, tmp_path: Path) -> None:
    folder = tmp_path / "bridge"
    load(folder, before)
    with as_they_were(folder) as give_back:
        load(folder, "1" if before == "0" else "0")
        give_back()
        assert values(folder) == {before}
        load(folder, "1" if before == "0" else "0")
    assert values(folder) == {before}


def test_they_are_given_back_also_after_an_error_and_where_there_is_no_module(tmp_path: Path) -> None:
    folder = tmp_path / "bridge"

    def broken() -> None:
        with as_they_were(folder):
            load(folder)
            raise RuntimeError("the study broke")

    with pytest.raises(RuntimeError):
        broken()
    assert values(folder) == {"0"}
    with as_they_were(tmp_path / "nowhere"):
        pass
    assert not (tmp_path / "nowhere").exists()
