"""The patches that take mends back fit the code, so that `make mends` and `make fuzz-proof` can be run at any time."""

from __future__ import annotations

import subprocess

from source_tree import ROOT

FITS = ("patch", "--forward", "--batch", "--dry-run", "-r-", "-p1", "-F2", "-d", str(ROOT))
"""As tests/mends/check.py applies them."""


def test_every_patch_that_takes_a_mend_back_fits() -> None:
    patches = [*ROOT.glob("tests/mends/*.patch"), *ROOT.glob("tests/fuzz/reverts/*.patch")]
    assert len(patches) > 60
    misfits = [
        patch.name
        for patch in patches
        if subprocess.run((*FITS, "-i", str(patch)), capture_output=True, check=False).returncode
    ]
    assert misfits == [], (
        "write these patches again for the code as it is now, or choose other mends (tests/mends/choose.py)"
    )
