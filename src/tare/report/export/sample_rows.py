"""Write the samples as CSV; those of large results in a process of its own, while this one writes the other tables.

Formatting 10^7 samples takes as long as everything else. The other process is told the files of all launches as JSON,
and writes its rows to a file of the system's temporary folder: the user's output may be in a folder of somebody who
would put other files in their place. Whatever ends it early, the samples are written here instead.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Final

from tare.report.frames import Source
from tare.report.frames.columns import names_of
from tare.report.frames.samples import COLUMNS
from tare.store.results import columns_at
from tare.system import process

MANY: Final = 5_000
"""Launches from which another process saves more time than it takes."""

COPIED_BYTES: Final = 1 << 20
FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""What a text begins with that a spreadsheet would calculate."""

Launches = Sequence[tuple[int, str]]
"""The number of each launch that has samples, and their file."""


@contextmanager
def writing(source: Source) -> Iterator[Callable[[IO[bytes]], None]]:
    """Give a function that writes the samples to a file; of many launches, they are prepared meanwhile."""
    launches = [(each.number, source.results.file(each.trial)) for each in source.trials if each.trial.samples_file]
    here = partial(write_rows, launches)
    if len(launches) < MANY or len(os.sched_getaffinity(0)) < 2:
        yield here
        return
    with tempfile.TemporaryDirectory(prefix="tare-") as temporary:
        work, rows = Path(temporary) / "work", Path(temporary) / "rows"
        work.write_text(json.dumps(launches))
        argv = (sys.executable, "-P", "-m", "tare.report.export.sample_rows", str(work))
        with rows.open("wb") as file, process.beside(argv, stdout=file.fileno()) as other:
            yield partial(_copy, other.wait, rows, here)


def _copy(wait: Callable[[], int], rows: Path, here: Callable[[IO[bytes]], None], file: IO[bytes]) -> None:
    """Copy the rows when they are complete; if the other process failed, write them here, with what is wrong."""
    if wait() != 0:
        here(file)
        return
    with rows.open("rb") as made:
        shutil.copyfileobj(made, file, COPIED_BYTES)


def write_rows(launches: Launches, file: IO[bytes]) -> None:
    """Write the samples of launches below their header; raise `ResultsError` for a file that cannot be read."""
    file.write((",".join(names_of(COLUMNS)) + "\r\n").encode())
    for number, path in launches:
        for name, values in columns_at(path).items():
            metric, _, column = name.rpartition("/")
            begin = f"{number},{quoted(metric)},{quoted(column)},"
            numbers = values.astype(float, copy=False).tolist()
            rows = "".join([f"{begin}{index},{value!r}\r\n" for index, value in enumerate(numbers)])
            file.write(rows.encode())


def unformulated(text: str) -> str:
    """Return a text that no spreadsheet calculates."""
    return f"'{text}" if text.startswith(FORMULA) else text


def quoted(text: str) -> str:
    """Return a text as a field of CSV."""
    safe = unformulated(text).replace('"', '""')
    return f'"{safe}"' if any(character in safe for character in ',"\r\n') else safe


if __name__ == "__main__":
    write_rows(json.loads(Path(sys.argv[1]).read_text()), sys.stdout.buffer)
