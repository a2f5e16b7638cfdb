"""Parts of study files that tests complete."""

from __future__ import annotations

WORK = "\nworkloads: {w: {kernels: [barrier]}}\n"
ENVIRONMENTS = "\nenvironments: [bare, docker+host]\n"
