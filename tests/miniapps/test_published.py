"""The table of published values in C has every value of the NAS Parallel Benchmarks, up to class E."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tare.workloads.declared import MINIAPPS, choice_of
from tare.workloads.declared.npb import FT_FIELDS

ROOT = Path(__file__).parents[2]
VALUES: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "npb-verification.json").read_text())
CLASSES = "SWABCDE"


@pytest.mark.parametrize("letter", CLASSES)
def test_every_time_step_of_the_transforms_has_a_published_checksum(letter: str) -> None:
    assert len(VALUES["ft"][letter]) == FT_FIELDS[letter][3]


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
