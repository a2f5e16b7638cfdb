"""The table of published values in C has every value of the NAS Parallel Benchmarks, up to class E."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tare.workloads.declared import MINIAPPS, choice_of
from tare.workloads.declared.npb import FT_FIELDS

ROOT = Path(__file__).parents[2]
VALUES: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "npb-verification.json").read_text())
TABLE = (ROOT / "miniapps" / "npb" / "published.c").read_text()
CLASSES = "SWABCDE"
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]\d+)?")


def numbers(app: str, letter: str) -> list[float]:
    """Return the numbers of one class in the C table, in their order."""
    (table,) = re.findall(rf"published_{app}\[.*?\n}};", TABLE, re.DOTALL)
    (block,) = re.findall(rf"\[CLASS_{letter}\] = {{\n(.*?)\n    }},", table, re.DOTALL)
    return [float(number) for number in NUMBER.findall(block)]


@pytest.mark.parametrize("letter", CLASSES)
@pytest.mark.parametrize("app", ["bt", "sp", "lu"])
def test_norms_and_time_steps_are_the_published_ones(app: str, letter: str) -> None:
    values = VALUES[app][letter]
    surface = [values["surface_integral"]] if app == "lu" else []
    expected = [values["dt"], *values["residual_norms"], *values["error_norms"], *surface]
    assert numbers(app, letter) == expected
    assert all(value > 0 for value in expected)


@pytest.mark.parametrize("letter", CLASSES)
def test_every_step_of_the_transforms_has_its_published_checksum(letter: str) -> None:
    published = VALUES["ft"][letter]
    assert numbers("ft", letter) == [part for value in published for part in value]
    assert len(published) == FT_FIELDS[letter][3]


def test_every_class_that_can_be_chosen_has_published_values() -> None:
    for app in ("bt", "sp", "lu", "ft"):
        assert MINIAPPS[f"npb-{app}"].classes == "".join(VALUES[app]) == CLASSES


def test_the_table_is_what_its_script_writes() -> None:
    done = subprocess.run((sys.executable, ROOT / "tools" / "npb_published.py", "--check"), check=False)
    assert done.returncode == 0


@pytest.mark.parametrize(("spec", "ranks", "allowed"), [("D", 1, "from 2 to 1024"), ("E", 4, "from 8 to 2048")])
def test_transforms_whose_pieces_mpi_cannot_count_are_refused(spec: str, ranks: int, allowed: str) -> None:
    choice = choice_of(f"npb-ft:class={spec}")
    assert choice.app.refuse(choice, ranks) == (
        f"npb-ft class {spec} cannot run on {ranks} ranks; allowed: powers of two {allowed}"
    )
    assert choice.app.refuse(choice, 2 * ranks) is None
