"""What Docker's daemons change for all bridges of the host is set back, at once and at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tare.node.bridges import NAMES, as_they_were
from waiting import wait_until


def load(folder: Path, value: str = "1") -> None:
    """Do what loading the module does: the settings are there, all at once, and on."""
    new = folder if folder.exists() else folder.with_suffix(".new")
    new.mkdir(exist_ok=True)
    for name in NAMES:
        (new / name).write_text(f"{value}\n")
    new.rename(folder)


def values(folder: Path) -> set[str]:
    return {(folder / name).read_text().strip() for name in NAMES}


def test_a_module_that_is_loaded_meanwhile_leaves_the_host_s_bridges_as_they_were(tmp_path: Path) -> None:
    folder = tmp_path / "bridge"
    with as_they_were(folder):
        load(folder)
        wait_until(lambda: values(folder) == {"0"})
    assert values(folder) == {"0"}


@pytest.mark.parametrize("before", ["0", "1"])
def test_settings_that_somebody_has_made_are_given_back(before: str, tmp_path: Path) -> None:
    folder, other = tmp_path / "bridge", "1" if before == "0" else "0"
    load(folder, before)
    with as_they_were(folder) as give_back:
        load(folder, other)
        give_back()
        assert values(folder) == {before}
        load(folder, other)
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
