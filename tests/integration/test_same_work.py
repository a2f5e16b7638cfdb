"""A program that does other work in a container than bare is not comparable; one that does the same is compared.

`python -m plants.works` tries many of both kinds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import pytest

from integration.live import compiled, live, tare
from integration.places import comparisons
from tare.errors import EXIT_CELLS_FAILED, EXIT_INCONCLUSIVE
from tare.model import Verdict

pytestmark = [*live("apptainer"), pytest.mark.requires("apptainer")]


@pytest.fixture
def aside() -> Iterator[Path]:
    """Provide a folder that nodes see and containers do not."""
    folder = Path(mkdtemp(prefix="tare-test-", dir="/opt"))
    yield folder
    with suppress(FileNotFoundError):
        rmtree(folder)


@pytest.mark.parametrize(
    ("way", "verdict", "exit_code", "words"),
    [
        ("checkpoints", Verdict.NOT_COMPARABLE, EXIT_CELLS_FAILED, "wrote"),
        ("talks", Verdict.INCONCLUSIVE, EXIT_INCONCLUSIVE, "a verdict needs at least"),
    ],
)
def test_a_program_is_compared_if_it_does_the_same_work(
    way: str, verdict: Verdict, exit_code: int, words: str, aside: Path, tmp_path: Path
) -> None:
    program = compiled("works", tmp_path, "-lm", "-lpthread", "-ldl")
    options = ("--rounds", "2", "--environments", "bare,apptainer")
    result = tare("quick", *options, "--", f"./{program.name}", way, str(aside), cwd=tmp_path)
    cells = comparisons(next(tmp_path.glob(f"results/quick-{program.name}-*")))
    (found,) = (each for (_, _, name), each in cells.items() if name == "apptainer")
    assert (found.verdict, result.status) == (verdict, exit_code), result.stderr
    assert words in found.reason
