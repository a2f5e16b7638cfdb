"""Programs that do other work in a container than bare are not comparable; those that do the same are compared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import pytest

from integration.live import compiled, live, tare
from integration.places import comparisons
from kernels.builds import compile_to
from tare.errors import EXIT_CELLS_FAILED, EXIT_INCONCLUSIVE
from tare.model import Comparison, Verdict

pytestmark = [*live("apptainer"), pytest.mark.requires("apptainer")]
rest = pytest.mark.long


@pytest.fixture
def aside() -> Iterator[Path]:
    """Provide a folder that nodes see and containers do not."""
    folder = Path(mkdtemp(prefix="tare-test-", dir="/opt"))
    (folder / "steps").write_text("100000000")
    yield folder
    with suppress(FileNotFoundError):
        rmtree(folder)


def compared(folder: Path, *command: str, options: tuple[str, ...] = ()) -> tuple[Comparison, int, str]:
    """Return the comparison of apptainer with bare, the exit code and what was said."""
    result = tare("quick", "--rounds", "2", "--environments", "bare,apptainer", *options, "--", *command, cwd=folder)
    (found,) = (
        each
        for (_, _, name), each in comparisons(folder / f"results/quick-{Path(command[0]).name}").items()
        if name == "apptainer"
    )
    return found, result.status, result.stderr


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("writes", "wrote"),
        pytest.param("input", "computed for", marks=rest),
        pytest.param("threads", "created 2 threads, the baseline's 8", marks=rest),
        pytest.param("ends", "2 of 2 launches ended with status 0", marks=rest),
    ],
)
def test_what_a_container_does_not_see_makes_a_program_not_comparable(
    way: str, words: str, aside: Path, tmp_path: Path
) -> None:
    program = compiled("work", tmp_path, "-lm", "-lpthread")
    found, status, said = compared(tmp_path, f"./{program.name}", way, str(aside))
    assert (found.verdict, status) == (Verdict.NOT_COMPARABLE, EXIT_CELLS_FAILED), said
    assert words in found.reason


def test_a_program_that_prints_hosts_processes_and_times_is_compared(aside: Path, tmp_path: Path) -> None:
    program = compiled("work", tmp_path, "-lm", "-lpthread")
    found, status, said = compared(tmp_path, f"./{program.name}", "talks", str(aside))
    assert (found.verdict, status) == (Verdict.INCONCLUSIVE, EXIT_INCONCLUSIVE), said
    assert "a verdict needs at least" in found.reason


@rest
@pytest.mark.parametrize("shown", [True, False])
def test_a_preloaded_library_reaches_every_environment_or_the_difference_is_named(
    shown: bool, aside: Path, tmp_path: Path
) -> None:
    program = compiled("work", tmp_path, "-lm", "-lpthread")
    place = tmp_path if shown else aside
    source = tmp_path / "extra.c"
    source.write_text("int extra;\n")
    library = compile_to(place / "libextra.so", "cc", source, "-shared", "-fPIC")
    options = ("-x", f"LD_PRELOAD={library}")
    found, _, said = compared(tmp_path, f"./{program.name}", "usual", str(aside), options=options)
    if shown:
        assert found.verdict is Verdict.INCONCLUSIVE, said + found.reason
    else:
        assert "preloaded nothing, the baseline's libextra.so" in found.reason
