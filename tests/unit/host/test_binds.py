"""What a user adds to an environment is checked before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from tare.errors import StudyError
from tare.host.binds import Bind, bind_of, check_variable, check_workdir, format_bind, probe
from tare.model import Environment, Placement
from tare.plan import composition
from tare.study import load, parse

STUDY = """
environments:
  bare: {}
  docker: {image: ./mine.sif, binds: ["data:/data:ro", "/x/../y:/z/"], workdir: /data, env: {THREADS: 4, WORDS: "a, b"}}
workloads: {w: {kernels: [{latency: 8}]}}
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/a:/b", Bind(source="/a", target="/b", read_only=False)),
        ("/a:/b:rw", Bind(source="/a", target="/b", read_only=False)),
        ("./a:/b/:ro", Bind(source="/home/u/a", target="/b", read_only=True)),
        ("../a:/b", Bind(source="/home/a", target="/b", read_only=False)),
    ],
)
def test_a_bind_is_read_as_docker_reads_it_and_its_source_is_absolute(text: str, expected: Bind) -> None:
    assert bind_of(text, Path("/home/u")) == expected
    assert bind_of(format_bind(expected)) == expected


@pytest.mark.parametrize("text", ["/a", ":/b", "/a:", "/a:/b:z", "/a:b", "/a:/", "/a:/proc", "/a:/dev/", "/a:/b/../c"])
def test_a_bind_that_no_container_could_be_shown_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a bind|cannot be bound"):
        bind_of(text)


def test_sources_and_folders_are_absolute_and_there(tmp_path: Path) -> None:
    assert probe([f"{tmp_path}:/x"]) is None
    assert probe([f"{tmp_path}:/x", "/none/such:/y"]) == "binds: /none/such does not exist on this machine"
    assert check_workdir("/a") == "/a"
    with pytest.raises(ValueError, match="absolute"):
        check_workdir("a")


@pytest.mark.parametrize("text", ["NAME", "1X=2", "A B=c", "TARE_MAP=x", "A=b\nc"])
def test_a_variable_that_cannot_be_set_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"assignment|reserved|one line"):
        check_variable(text)


def test_paths_of_a_study_begin_at_its_file_and_binds_need_an_image(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(STUDY)
    found = load(tmp_path / "s.yaml").environments[1]
    assert found.image == f"{tmp_path}/mine.sif"
    assert found.binds == (f"{tmp_path}/data:/data:ro", "/y:/z")
    assert (found.workdir, found.env) == ("/data", ("THREADS=4", "WORDS=a, b"))
    bare = Environment(name="e", runtime="bare", network="host", binds=("/a:/b",))
    assert "binds need a container or an image" in (composition.refuse(bare, Placement()) or "")
    image = Environment(name="e", runtime="bare", network="host", binds=("/a:/b",), image="debian-openmpi")
    assert composition.refuse(image, Placement()) is None


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("binds: [nothing]", "SOURCE:TARGET"), ("workdir: here", "name an absolute path"),
        ("env: {A: 1.10}", "in quotes"), ("env: {A: true}", "in quotes"), ("env: {TARE_X: a}", "reserved for tare"),
        ("image: mine.sif", "a path begins with / or ./"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_study_is_told_with_its_place(key: str, told: str) -> None:
    with pytest.raises(StudyError, match=told) as refused:
        parse(f"environments: {{bare: {{}}, docker: {{{key}}}}}\nworkloads: {{w: {{kernels: [barrier]}}}}\n")
    assert "environments.docker" in str(refused.value)
