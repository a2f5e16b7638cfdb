"""With SELinux, containers may read what is bound into them; the system's own files keep their labels."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodes import make_node, make_request
from tare.containers import user_podman
from tare.host import binds
from tare.host.binds import has_selinux, labelled, needs_label
from tare.runtimes import docker

NODE = make_node()


@pytest.mark.parametrize(
    ("bind", "expected"),
    [
        ("/home/u/data:/data", "/home/u/data:/data:z"),
        ("/home/u/data:/data:ro", "/home/u/data:/data:ro,z"),
        ("/home/u/data:/data:rw", "/home/u/data:/data:rw,z"),
        ("/home/u/data:/data:ro,z", "/home/u/data:/data:ro,z"),
        ("/tmp/session:/tmp/session", "/tmp/session:/tmp/session:z"),
        ("/usr/lib64/openmpi:/usr/lib64/openmpi:ro", "/usr/lib64/openmpi:/usr/lib64/openmpi:ro"),
        ("/home/../etc:/x", "/home/../etc:/x"),
    ],
)
def test_a_users_folder_gets_the_shared_label_and_the_systems_keeps_its_own(bind: str, expected: str) -> None:
    assert labelled(bind, enabled=True) == expected
    assert labelled(bind, enabled=False) == bind


@pytest.mark.parametrize("source", ["/", "/home", "/tmp", "/tmp/", "//", "/var/lib/x", "relative", ""])
def test_a_top_folder_or_one_of_the_system_is_never_relabelled(source: str) -> None:
    assert not needs_label(source)


def test_selinux_is_seen_by_its_file_system_and_labels_are_given_to_docker_and_podman(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not has_selinux(tmp_path)
    (tmp_path / "enforce").write_text("0")
    assert has_selinux(tmp_path)
    request = make_request(NODE, shown=("/home/u/kernels",), cwd="/home/u/work", binds=("/usr/share/x:/x:ro",))
    plain = ("/home/u/kernels:/home/u/kernels:ro", "/home/u/work:/home/u/work", "/usr/share/x:/x:ro")
    monkeypatch.setattr(binds, "has_selinux", lambda: False)
    assert docker.binds(request) == plain
    monkeypatch.setattr(binds, "has_selinux", lambda: True)
    assert docker.binds(request) == (f"{plain[0]},z", f"{plain[1]}:z", plain[2])
    assert f"--volume={plain[0]},z" in user_podman._shown(request)
