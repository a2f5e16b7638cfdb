"""Keep explained results as samples of `tests/data/explained/`: `python -m plants.samples FOLDER...`

Each becomes NAME.tar.xz without the samples of launches and the facts of the machine. Run the studies in a clone whose
path says nothing: trials have the paths of programs.
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
from pathlib import Path
from typing import Final

KEPT: Final = ("plan.json", "trials.jsonl")
SAMPLES: Final = Path(__file__).parents[1] / "data" / "explained"


def pack(folder: Path, into: Path = SAMPLES) -> None:
    """Write what `tare explain` reads of a results folder and its ablations as an archive."""
    into.mkdir(exist_ok=True)
    with tarfile.open(into / f"{folder.name}.tar.xz", "w:xz") as archive:
        for results in (folder, *sorted((folder / "explain").glob("*/"))):
            for name in KEPT:
                content = (results / name).read_bytes()
                if name == "plan.json":
                    content = json.dumps(json.loads(content) | {"facts": {}}).encode()
                member = tarfile.TarInfo(str((results / name).relative_to(folder.parent)))
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


if __name__ == "__main__":
    for each in sys.argv[1:]:
        pack(Path(each).resolve())
