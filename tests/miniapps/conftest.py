"""The mini-applications as studies run them, and with sanitizers."""

from __future__ import annotations

from pathlib import Path

import pytest

from miniapps.builds import sanitized_build
from tare.images.kernels import ensure_kernels


@pytest.fixture(scope="session")
def program() -> Path:
    """Return `tare-miniapps` for Open MPI."""
    return ensure_kernels("openmpi").miniapps


@pytest.fixture(scope="session")
def program_mpich() -> Path:
    """Return `tare-miniapps` for MPICH."""
    return ensure_kernels("mpich").miniapps


@pytest.fixture(scope="session")
def sanitized() -> Path:
    """Return `tare-miniapps` with AddressSanitizer and UndefinedBehaviorSanitizer."""
    return sanitized_build()
