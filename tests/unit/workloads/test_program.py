"""Programs of others are started, found and read as their adapters say, and where they were is known all the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tare.model import Environment, Placement, Study, Workload
from tare.workloads import WORKLOADS
from tare.workloads.located import cannot_run, is_shown, located, not_in_image, program_file, shown_folder
from tare.workloads.output import OutputError
from tare.workloads.program import own_output
from unit.adapters import ExampleAdapter
from unit.runs import known_study

PLUGIN = WORKLOADS["program"]
PREFIX = Path("/opt/tare")
THEIRS = Workload(name="theirs", program="example", arguments=("-n", "3"))
RESULT = "rate: 4 Mop/s\nchecked: yes\n"


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tare.workloads.program.PROGRAMS", {"example": ExampleAdapter()})


def launch(text: str, *, wall: bool = True) -> str:
    """Return the output of a launch in which rank 0 printed a text."""
    place = {"type": "rank", "rank": 0, "hostname": "n0", "boot_id": "b", "pid": 7, "cpus": "0", "namespaces": {}}
    found = [
        {"type": "start", "protocol": 1, "ranks": 1, "mpi_library": "Open MPI 4.1.4", "init_s": 0.1},
        place,
        *([{"type": "wall", "wall_s": 2.5}] if wall else []),
        {"type": "end", "exit": 0},
    ]
    return text + "\n" + "".join(f"@tare {json.dumps(record)}\n" for record in found)


# --- reading ------------------------------------------------------------------------------------------------------


def test_the_figures_are_the_programs_and_the_places_are_those_that_our_library_saw() -> None:
    parsed = PLUGIN.parse(THEIRS, launch(RESULT))
    (metric,) = parsed.metrics
    assert (metric.value, metric.done_per_sample, metric.rate_unit) == (0.25, 1e6, "op/s")
    assert [place.hostname for place in parsed.ranks] == ["n0"]
    assert (parsed.measured_s, parsed.init_s) == (2.5, 0.1)
    assert [figure.key for figure in parsed.figures] == ["n"]
    assert not parsed.payload.known


def test_a_line_that_was_cut_off_does_not_look_whole() -> None:
    assert own_output("a\n@tare {}\nrating of=9.5") == "a\nrating of=9.5"
    assert own_output("a@tare {}\nb\n") == "a\nb\n"


def test_what_the_program_finds_wrong_is_wrong() -> None:
    assert PLUGIN.parse(THEIRS, launch("rate: 4 Mop/s\nchecked: no\n")).wrong == ("example (checked: no)",)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (launch("nothing\n"), "the line `rate:` is missing"),
        (launch("rate: nan Mop/s\n"), "rate is nan s, which is impossible"),
        (launch("rate: -4 Mop/s\n"), "rate is -0.25 s, which is impossible"),
        (launch("rate: inf Mop/s\n"), "rate is 0 s, which is impossible"),
        (launch(RESULT, wall=False), "example ended without MPI_Finalize"),
        (RESULT, "the program wrote no record"),
    ],
)
def test_what_is_no_result_is_refused(text: str, told: str) -> None:
    with pytest.raises(OutputError) as caught:
        PLUGIN.parse(THEIRS, text)
    assert told in str(caught.value)


def test_our_records_are_not_handed_to_the_adapter() -> None:
    assert own_output('one\n@tare {"a": 1}\ntwo @tare {}\n\nthree\n') == "one\ntwo \n\nthree\n"
    assert own_output('@tare {"a": 1}\n') == ""
    assert own_output("one\n@tare-part 0 last 8 b4d3a1f2 @tare {}\ntwo\n") == "one\ntwo\n"


# --- starting -----------------------------------------------------------------------------------------------------


def test_a_program_is_named_by_its_file_or_left_to_path() -> None:
    assert PLUGIN.argv(THEIRS, PREFIX) == ("example", "-n", "3")
    named = Workload(name="t", program="example", path="/opt/theirs/example-2")
    assert PLUGIN.argv(named, PREFIX) == ("/opt/theirs/example-2",)
    assert PLUGIN.environment(THEIRS, PREFIX) == {"THREADS": "1", "LD_PRELOAD": "/opt/tare/lib/libtare_wall.so"}


def test_a_program_of_ours_is_under_the_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ExampleAdapter, "argv", lambda self, arguments, program="": ("tare-pair", "x"))
    assert PLUGIN.argv(THEIRS, PREFIX) == ("/opt/tare/bin/tare-pair", "x")


def test_the_group_of_a_metric_is_the_workloads() -> None:
    assert [info.group for info in PLUGIN.metrics(THEIRS, Placement())] == ["theirs"]


def test_what_the_adapter_refuses_or_expects_is_what_the_plan_is_told() -> None:
    assert "two ranks" in str(PLUGIN.refuse(THEIRS, Placement(nodes=1)))
    assert PLUGIN.expected_s(THEIRS, Placement()) == 7.0


# --- finding ------------------------------------------------------------------------------------------------------


def study_of(*workloads: Workload) -> Study:
    return replace(known_study(), workloads=workloads)


def runnable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_study_has_the_files_that_were_found_and_keeps_what_was_not(tmp_path: Path) -> None:
    program = runnable(tmp_path / "example")
    found = Workload(name="t", program="example", path=str(tmp_path))
    lost = Workload(name="l", program="example", path=str(tmp_path / "none"))
    assert [workload.path for workload in located(study_of(found, lost)).workloads] == [str(program), lost.path]


def test_bare_needs_the_program_on_this_machine_and_an_image_inside_or_shown(tmp_path: Path) -> None:
    lost = Workload(name="l", program="example", path=str(tmp_path / "none"))
    bare = Environment(name="bare", runtime="bare", network="host")
    inside = Environment(name="docker", runtime="docker", network="host", image="x")
    assert f"example is neither {lost.path} nor in a folder below it here" in str(cannot_run(lost, bare))
    assert cannot_run(lost, inside) is None
    assert cannot_run(Workload(name="k"), bare) is None


def test_what_is_in_the_systems_folders_is_left_to_path_and_bad_arguments_to_the_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tare.workloads.located.SYSTEM", (tmp_path,))
    monkeypatch.setenv("PATH", str(tmp_path))
    runnable(tmp_path / "example")
    assert located(study_of(THEIRS)).workloads == (THEIRS,)
    monkeypatch.setattr("tare.workloads.located.SYSTEM", ())
    assert located(study_of(THEIRS)).workloads[0].path == str(tmp_path / "example")
    monkeypatch.setattr(ExampleAdapter, "refuse", lambda self, arguments, placement: "never")
    assert located(study_of(THEIRS)).workloads == (THEIRS,)


def test_a_program_is_shown_to_pods_unless_it_is_where_images_have_their_own(tmp_path: Path) -> None:
    own = Workload(name="t", program="example", path=str(runnable(tmp_path / "example")))
    assert is_shown(own)
    assert not is_shown(Workload(name="t", program="example", path="/usr/bin/env"))
    assert not is_shown(Workload(name="c", command=("/bin/true",)))
    rootfs = tmp_path / "rootfs"
    assert not_in_image(own, rootfs) is None
    assert "/bin/true is not in the image" in str(not_in_image(Workload(name="c", command=("/bin/true",)), rootfs))
    runnable(rootfs / "bin/true")
    assert not_in_image(Workload(name="c", command=("/bin/true",)), rootfs) is None
    assert "example is not in the image: apt-get install example" in str(not_in_image(THEIRS, rootfs))
    runnable(rootfs / "usr/bin/example")
    assert not_in_image(THEIRS, rootfs) is None


def test_the_folder_to_show_is_that_of_the_program_or_the_prefix_of_its_libraries() -> None:
    def shown(path: str) -> str:
        return shown_folder(Workload(name="t", program="example", path=path))

    assert shown("/opt/osu/mpi/pt2pt/example") == "/opt/osu/mpi/pt2pt"
    assert shown("/opt/imb/bin/example") == "/opt/imb"
    assert shown("/root/bin/example") == "/root/bin"


def test_the_file_that_is_looked_into_is_the_one_that_ranks_will_run(tmp_path: Path) -> None:
    own = runnable(tmp_path / "example")
    inside = runnable(tmp_path / "rootfs/usr/bin/example")
    assert program_file(Workload(name="t", program="example", path=str(own)), tmp_path / "rootfs") == own
    assert program_file(THEIRS, tmp_path / "rootfs") == inside
    assert program_file(THEIRS, tmp_path / "nothing") is None
    assert program_file(Workload(name="c", command=(str(own),)), None) == own
    assert program_file(Workload(name="c", command=("./missing",)), None) is None
    assert program_file(Workload(name="m", miniapp="npb-cg:class=S"), None) is None
