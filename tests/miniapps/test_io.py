"""The file tests read what was written, drop it from the cache when asked, and leave no file behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from miniapps.launching import failed, figures, ran, right

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake", "openmpi")]

SPECS = (
    "io-sequential:image=1,kib=1024",
    "io-random:image=1,kib=1024",
    "io-metadata:image=1",
    "io-metadata:image=1,cold=1",
    "io-sequential:kib=1001,files=2",
    "io-random:kib=1001,block=5000,files=2",
    "io-sequential:kib=1001,write=1",
    "io-random:kib=1001,write=1",
    "io-metadata:files=100",
)


@pytest.mark.parametrize("spec", SPECS)
def test_what_is_read_is_what_was_written_and_another_byte_is_found(program: Path, tmp_path: Path, spec: str) -> None:
    record = right(program, spec, 2, env={"SCRATCH": str(tmp_path)})
    assert not list(tmp_path.iterdir())
    fault = f"corrupt:{spec.partition(':')[0]}"
    assert len(failed(program, spec, 2, SCRATCH=str(tmp_path), TARE_FAULT=fault)) == 1
    if "block=" in spec:  # a rank reads all of its files once
        assert record["operations"] == pytest.approx(2 * 2 * 1001 * 1024 / 1e6)
        assert figures(record)["calls"] == 2 * 2 * -(-1001 * 1024 // 5000)


@pytest.mark.parametrize(("cold", "cached"), [(0, 100), (1, 0)])
def test_cold_files_are_not_in_the_page_cache(program: Path, cold: int, cached: int) -> None:
    # on a disk: a page of tmpfs cannot be dropped
    record = right(program, f"io-sequential:kib=4096,cold={cold}", 1, env={"SCRATCH": "/var/tmp"})
    assert figures(record)["in the page cache before"] == pytest.approx(cached, abs=5)


@pytest.mark.parametrize("app", ["io-sequential", "io-random"])
def test_cold_files_that_stay_in_memory_are_no_result(program: Path, app: str) -> None:
    status, record, _ = ran(program, f"{app}:kib=1024,cold=1", 2, env={"SCRATCH": "/dev/shm"})
    assert status == 3
    assert {each["name"] for each in record["checks"] if not each["passed"]} == {"% of cold files in the page cache"}
    assert figures(record)["in the page cache before"] == 100


def test_a_folder_that_cannot_be_written_ends_the_job_with_its_name(program: Path, tmp_path: Path) -> None:
    status, _, stderr = ran(program, "io-metadata:files=1", 1, env={"SCRATCH": str(tmp_path / "none")})
    assert status not in (0, 3)
    assert str(tmp_path / "none") in stderr
    assert "SCRATCH" in stderr
