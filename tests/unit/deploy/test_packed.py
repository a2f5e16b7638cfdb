"""Each runtime gets the image in the form that it starts from, made once; those that take its files get nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tare.deploy import study_files
from tare.images.build import Image
from tare.images.convert import Converted
from tare.model import Cell, Environment, Placement, Role, Workload
from tare.node_service.order import Files
from tare.runtimes import RUNTIMES


def cell(runtime: str) -> Cell:
    environment = Environment(name=runtime, runtime=runtime, network="host", image="i")
    return Cell(
        key=runtime, group="g", role=Role.BASELINE,
        workload=Workload(name="w"), environment=environment, placement=Placement(),
    )  # fmt: skip


def test_formats_are_converted_and_stored_by_the_runtime(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    image = Image(
        name="i", digest="0" * 32, rootfs=tmp_path / "rootfs", tar=tmp_path / "rootfs.tar", packages={}, cache=tmp_path
    )
    converted = lambda _image, wanted, *_: Converted(path=Path("/cache") / wanted / "file", digest="")  # noqa: E731
    monkeypatch.setattr(study_files, "ensure_file", converted)
    monkeypatch.setattr(type(RUNTIMES["sarus"]), "stored", lambda self, packed, progress: packed / "loaded")
    cells = [cell(name) for name in ("apptainer", "enroot", "shifter", "sarus", "enroot")]
    packed = study_files._packed(cells, image, lambda _: None)
    assert packed == (
        ("enroot", Path("/cache/squashfs/file")),
        ("shifter", Path("/cache/squashfs/file")),
        ("sarus", Path("/cache/docker-archive/file/loaded")),
    )
    files = Files(host_prefix=Path("/k"), packed=packed)
    assert files.made == (Path("/k"), Path("/cache/squashfs/file"), Path("/cache/docker-archive/file/loaded"))
    assert set(files.seen_by_nodes) == {"/cache/squashfs", "/cache/docker-archive/file"}
