"""What is copied to a node, with byte code where nodes are new at every start."""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import Path

from tare.host.process import run
from tare.remote.archive import packed


def test_compiled_modules_are_found_and_not_compiled_again(tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(packed(compiled=True).data)) as archive:
        archive.extractall(tmp_path)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import tare.remote.timing as it; print(it.LEASE_S)"
    own = tmp_path / "tare" / "remote" / "timing.py"
    own.write_text("this would not be compiled")
    assert float(run((sys.executable, "-ISB", "-c", code)).stdout) > 0, "the byte code is not held to its source"
    assert packed(compiled=True).digest != packed().digest
