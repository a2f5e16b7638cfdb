"""What ranks may do: operations that a user may be forbidden are tried."""

from __future__ import annotations

from typing import Final

from tare.workloads.declared.declaration import MiniApp, Parameter

OPERATIONS: Final = 11
MEMORY_BYTES: Final = 65536.0

ATTEMPTS: Final = MiniApp(
    name="attempts",
    description="operations that a user may be forbidden, and how many ranks may do them",
    rate="attempts/s",
    timed="all operations, by a process that each rank starts; it measures no container",
    parameters=(
        Parameter(
            name="user",
            meaning="who tries them, if ranks may become that user; 0: the user who they are",
            usual=0,
            low=0,
            high=65534,
        ),
    ),
    ranks="any",
    judged=False,
    refuse=lambda _choice, _ranks: None,
    memory_bytes=lambda _choice, _ranks: MEMORY_BYTES,
    operations=lambda _choice, ranks: float(OPERATIONS * ranks),
    expected_s=lambda _choice, _ranks: 0.1,
)
