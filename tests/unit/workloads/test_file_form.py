"""A file that cannot be started is told by what it is, before a launcher or the kernel says less."""

from __future__ import annotations

import platform
import re
from pathlib import Path

import pytest

from tare.errors import RefusedError
from tare.workloads.program_places import check_executable
from unit.images.test_linked import an_elf

HERE = {"x86_64": 62, "aarch64": 183}.get(platform.machine(), 62)


@pytest.mark.parametrize(
    ("name", "content", "mode", "told", "remedy"),
    [
        ("run.sh", b"#!/bin/sh\r\necho\r\n", 0o755, "has the line ends of Windows", "sed -i 's/\\r$//' "),
        ("run.sh", b"#!/opt/none/bash\n", 0o755, "asks in its first line for /opt/none/bash", "correct that line"),
        ("app.py", b"print(1)\n", 0o755, "a text that does not begin with #!", "(python3 "),
        ("notes", b"hello\n", 0o755, "a text that does not begin with #!", "#!/bin/sh"),
        ("solver.f90", b"program x\nend\n", 0o644, "is a source file", "mpifort -O2 -o solver "),
        ("solver.c", b"int main;\n", 0o755, "is a source file", "mpicc -O2 -o solver "),
        ("empty", b"", 0o755, "is empty", "compile or copy it again"),
        ("app", an_elf("libc.so.6")[:40], 0o755, "is damaged: its header is truncated", "compile or copy it again"),
        ("app", an_elf("libc.so.6", machine=22), 0o755, "is compiled for s390x, and this machine", "compile it here"),
        ("app", an_elf(machine=HERE, interpreter="/lib/ld-musl.so.1"), 0o755, "for musl, as in Alpine", "static"),
        ("app", an_elf(machine=HERE, interpreter="/gnu/ld.so"), 0o755, "built for another system", "static"),
    ],
)  # fmt: skip
def test_what_a_file_is_and_what_to_do(
    name: str, content: bytes, mode: int, told: str, remedy: str, tmp_path: Path
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    file.chmod(mode)
    with pytest.raises(RefusedError, match=re.escape(told)) as caught:
        check_executable(file)
    assert remedy in str(caught.value.remedy)


def test_what_can_be_started_or_only_in_an_image_passes(tmp_path: Path) -> None:
    check_executable(Path("/bin/sh"))
    own = tmp_path / "own"
    own.write_bytes(b"#!/opt/conda/bin/python\n")
    own.chmod(0o755)
    check_executable(own, in_images=True)
    own.write_bytes(an_elf("libc.so.6", machine=HERE, interpreter="/lib/ld-musl-x86_64.so.1"))
    check_executable(own, in_images=True)
    own.write_bytes(b"MZ\0\x01")
    check_executable(own)
