"""Programs of others and commands on a node are started, found and read as they say."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tare.model import Environment, NodeCommand, Placement, Sides, Study, Workload
from tare.workloads import WORKLOADS, answers
from tare.workloads.output import OutputError, Parsed
from tare.workloads.program_places import cannot_run, is_shown, located, not_in_image, program_file, shown_folder
from tare.workloads.work import own_output
from unit.adapters import ExampleAdapter
from unit.launch_records import END, RANK, START, WALL, text
from unit.runs import known_study

PLUGIN = WORKLOADS["program"]
PREFIX = Path("/opt/tare")
THEIRS = Workload(name="theirs", program="example", arguments=("-n", "3"))
RESULT = "rate: 4 Mop/s\nchecked: yes\n"


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tare.workloads.program.PROGRAMS", {"example": ExampleAdapter()})


def launch(printed: str) -> str:
    """Return the output of a launch in which rank 0 printed a text."""
    return printed + "\n" + text(START, RANK, WALL, END)


def test_the_figures_are_the_programs_and_what_it_finds_wrong_is_wrong() -> None:
    parsed = PLUGIN.parse(THEIRS, launch(RESULT))
    (metric,) = parsed.metrics
    assert (metric.value, metric.done_per_sample, metric.rate_unit) == (0.25, 1e6, "op/s")
    assert [place.hostname for place in parsed.ranks] == ["n0"]
    assert (parsed.measured_s, parsed.init_s) == (2.5, 0.1)
    assert [figure.key for figure in parsed.figures] == ["n"]
    assert not parsed.payload.known
    assert PLUGIN.parse(THEIRS, launch("rate: 4 Mop/s\nchecked: no\n")).wrong == ("example (checked: no)",)


def test_records_of_ours_and_cut_off_lines_are_not_handed_to_the_adapter() -> None:
    assert own_output("a\n@tare {}\nrating of=9.5") == "a\nrating of=9.5"
    assert own_output("a@tare {}\nb\n") == "a\nb\n"
    assert own_output('one\n@tare {"a": 1}\ntwo @tare {}\n\nthree\n') == "one\ntwo \n\nthree\n"
    assert own_output('@tare {"a": 1}\n') == ""
    assert own_output("one\n@tare-part 0 last 8 b4d3a1f2 @tare {}\ntwo\n") == "one\ntwo\n"


@pytest.mark.parametrize(
    ("output", "told"),
    [
        (launch("nothing\n"), "the line `rate:` is missing"),
        (launch("rate: nan Mop/s\n"), "rate is nan s, which is impossible"),
        (launch("rate: -4 Mop/s\n"), "rate is -0.25 s, which is impossible"),
        (launch("rate: inf Mop/s\n"), "rate is 0 s, which is impossible"),
        (RESULT + text(START, RANK, END), "example ended without MPI_Finalize"),
        (RESULT, "the program wrote no record"),
    ],
)
def test_what_is_no_result_is_refused(output: str, told: str) -> None:
    with pytest.raises(OutputError, match=re.escape(told)):
        PLUGIN.parse(THEIRS, output)


def test_a_program_is_named_by_its_file_left_to_path_or_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    assert PLUGIN.argv(THEIRS, PREFIX) == ("example", "-n", "3")
    named = Workload(name="t", program="example", path="/opt/theirs/example-2")
    assert PLUGIN.argv(named, PREFIX) == ("/opt/theirs/example-2",)
    assert PLUGIN.environment(THEIRS, PREFIX) == {"THREADS": "1", "LD_PRELOAD": "/opt/tare/lib/libtare_wall.so"}
    assert "two ranks" in str(PLUGIN.refuse(THEIRS, Placement(nodes=1)))
    assert PLUGIN.expected_s(THEIRS, Placement()) == 7.0
    assert [info.group for info in PLUGIN.metrics(THEIRS, Placement())] == ["theirs"]
    monkeypatch.setattr(ExampleAdapter, "argv", lambda self, arguments, program="": ("tare-pair", "x"))
    assert PLUGIN.argv(THEIRS, PREFIX) == ("/opt/tare/bin/tare-pair", "x")


def study_of(*workloads: Workload) -> Study:
    return replace(known_study(), workloads=workloads)


def runnable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_study_has_the_files_that_were_found_and_bare_needs_them_here(tmp_path: Path) -> None:
    program = runnable(tmp_path / "example")
    found = Workload(name="t", program="example", path=str(tmp_path))
    lost = Workload(name="l", program="example", path=str(tmp_path / "none"))
    assert [workload.path for workload in located(study_of(found, lost)).workloads] == [str(program), lost.path]
    bare = Environment(name="bare", runtime="bare", network="host")
    inside = Environment(name="docker", runtime="docker", network="host", image="x")
    assert f"example is neither {lost.path} nor in a folder below it here" in str(cannot_run(lost, bare))
    assert cannot_run(lost, inside) is None
    assert cannot_run(Workload(name="k"), bare) is None


def test_what_is_in_the_systems_folders_is_left_to_path_and_bad_arguments_to_the_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tare.workloads.program_places.SYSTEM", (tmp_path,))
    monkeypatch.setenv("PATH", str(tmp_path))
    runnable(tmp_path / "example")
    assert located(study_of(THEIRS)).workloads == (THEIRS,)
    monkeypatch.setattr("tare.workloads.program_places.SYSTEM", ())
    assert located(study_of(THEIRS)).workloads[0].path == str(tmp_path / "example")
    monkeypatch.setattr(ExampleAdapter, "refuse", lambda self, arguments, placement: "never")
    assert located(study_of(THEIRS)).workloads == (THEIRS,)


def test_a_program_is_shown_unless_images_have_their_own_with_its_folder_or_prefix(tmp_path: Path) -> None:
    own = Workload(name="t", program="example", path=str(runnable(tmp_path / "example")))
    assert is_shown(own)
    assert not is_shown(Workload(name="t", program="example", path="/usr/bin/env"))
    assert not is_shown(Workload(name="c", command=("/bin/true",)))
    rootfs = tmp_path / "rootfs"
    assert not_in_image(own, rootfs) is None
    assert "/bin/true is not in the image" in str(not_in_image(Workload(name="c", command=("/bin/true",)), rootfs))
    runnable(rootfs / "bin/true")
    assert not_in_image(Workload(name="c", command=("/bin/true",)), rootfs) is None
    added = "make an image that has it by `tare image add debian-mpich example`"
    assert f"example is not in the image: {added}" in str(not_in_image(THEIRS, rootfs, image="debian-mpich"))
    by_hand = "install example of Debian, or what has it there, in the image"
    assert by_hand in str(not_in_image(THEIRS, rootfs, image="docker://fedora"))
    runnable(rootfs / "usr/bin/example")
    assert not_in_image(THEIRS, rootfs) is None

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


RUN = ("docker", "port", "it")
PORT = NodeCommand(run=RUN, line="9100/tcp -> *")
WORKLOAD = Workload(name="port", commands=(NodeCommand(run=("docker", "run", "{image}")), PORT))


def complaint(command: NodeCommand, status: int = 0, stdout: str = "", stderr: str = "") -> str:
    return answers.complaint(command, command.run, status, stdout, stderr)


@pytest.mark.parametrize(
    ("command", "status", "stdout", "stderr", "said"),
    [
        (NodeCommand(run=RUN), 0, "", "", ""),
        (NodeCommand(run=RUN, exit=1), 1, "", "no such container", ""),
        (PORT, 0, "8080/tcp -> 0.0.0.0:80\n  9100/tcp -> 0.0.0.0:9100 \n", "", ""),
        (PORT, 0, "", "9100/tcp -> 0.0.0.0:9100\n", ""),
        (PORT, 0, "\x1b[1;91m9100/tcp -> y\x1b[0m\n", "", ""),
        (NodeCommand(run=RUN, line="answered", no_line="not answered"), 0, "answered\n", "", ""),
        (NodeCommand(run=RUN, no_line="*lost*"), 0, "", "", ""),
        (PORT, 0, "", "", "`docker port it` was expected to print a line like '9100/tcp -> *', but printed: nothing"),
        (PORT, 0, "x 9100/tcp -> y\n", "", "but printed: x 9100/tcp -> y"),
        (PORT, 1, "", "Error: gone\nsecond", "ended with status 1, not 0, and printed: Error: gone / second"),
        (NodeCommand(run=RUN, exit=1), 0, "", "", "ended with status 0, not 1, and printed: nothing"),
        (NodeCommand(run=RUN, no_line="not*"), 0, "yes\nnot yet\n", "", "no line like 'not*', but printed: not yet"),
    ],
)
def test_an_answer_that_was_not_expected_is_told_with_the_command_and_what_came(
    command: NodeCommand, status: int, stdout: str, stderr: str, said: str
) -> None:
    told = complaint(command, status, stdout, stderr)
    assert said in told
    assert bool(told) == bool(said)


def test_a_hostile_output_is_bounded_printable_and_compared_in_part() -> None:
    said = complaint(PORT, 0, "\x1b[2Jowned\x07\n" * 50_000, "\u202e" * 100_000)
    assert len(said) < 3 * answers.SHOWN
    assert said.isprintable()
    assert "\\x1b[2Jowned" in said
    late = "x\n" * answers.COMPARED + "9100/tcp -> y\n"
    assert complaint(PORT, 0, late)
    assert not complaint(PORT, 0, "9100/tcp -> y\n" + late)


def test_words_in_braces_are_replaced_once_and_templates_and_variables_stay() -> None:
    values = {"image": "tare/debian:1", "name": "{image}"}
    words = ("run", "--name={name}-web", "{image}", "{{.Replicas}}", "{{name}}", "${name}", "{network}", "{other}")
    assert answers.replaced(words, values) == (
        "run", "--name={image}-web", "tare/debian:1", "{{.Replicas}}", "{{name}}", "${name}", "{network}", "{other}",
    )  # fmt: skip
    assert answers.words_in(words) == {"name", "image", "network"}


def refused(commands: tuple[tuple[str, ...], ...], **environment: Any) -> str | None:
    usual: dict[str, Any] = {"name": "e", "runtime": "docker", "network": "overlay", "image": "debian-openmpi"}
    workload = Workload(name="w", commands=tuple(NodeCommand(run=words) for words in commands[:1]), undo=commands[1:])
    return WORKLOADS["commands"].refuse_environment(workload, Environment(**(usual | environment)))


@pytest.mark.parametrize(
    ("commands", "environment", "reason"),
    [
        ((("docker", "info"),), {"runtime": "apptainer"}, "call docker, which apptainer does not set up: use docker"),
        ((("true",), ("apptainer", "cache", "clean")), {}, "call apptainer, which docker does not set up: use appt"),
        ((("ls", "{image}"),), {"runtime": "bare", "network": "host", "image": ""}, "uses the host's files"),
        ((("docker", "run", "--network={network}"),), {"network": "host"}, "host is none: leave {network} out"),
        ((("true",),), {"sides": Sides.SENDER}, "use sides: both"),
        ((("docker", "run", "--network={network}", "{image}"),), {}, None),
        ((("docker", "run", "--network={network}", "{image}"),), {"network": "docker-default"}, None),
        ((("apptainer", "exec", "{image}", "true"),), {"runtime": "apptainer-sif", "network": "host"}, None),
        ((("/usr/bin/true",),), {"runtime": "bare", "network": "host", "image": ""}, None),
    ],
)
def test_commands_are_refused_where_their_product_is_not_set_up(
    commands: tuple[tuple[str, ...], ...], environment: dict[str, Any], reason: str | None
) -> None:
    said = refused(commands, **environment)
    assert (said is None) == (reason is None)
    assert (reason or "") in (said or "")


def said(*answered: dict[str, Any], refuted: str = "") -> str:
    return text(
        {"type": "start", "protocol": 1, "ranks": 0},
        {"type": "treatment", "refuted": refuted},
        *({"type": "answer", "took_s": 0.5, "tries": 1, "complaint": "", **each} for each in answered),
        {"type": "end"},
    )


def parse(output: str) -> Parsed:
    return WORKLOADS["commands"].parse(WORKLOAD, output)


def test_a_launch_has_the_time_of_all_commands_or_a_complaint_or_was_elsewhere() -> None:
    parsed = parse(said({}, {"took_s": 2.0}))
    (metric,) = parsed.metrics
    (info,) = WORKLOADS["commands"].metrics(WORKLOAD, Placement())
    assert (metric.key, metric.value, metric.judged) == (info.key, 2.5, info.judged) == ("all", 2.5, False)
    assert parsed.ranks == ()
    assert parsed.refuted == "", "the launch proves its treatment itself"
    with pytest.raises(OutputError, match=r"^it printed \\x07nothing$"):
        parse(said({}, {"complaint": "it printed \x07nothing"}))
    assert parse(said(refuted="another \x1bnode")).refuted == "another \\x1bnode"


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (said({}), "only 1 of 2 commands were run"),
        (said({}, {"took_s": "1"}), "does not follow the protocol"),
        (said({}, {"took_s": float("inf")}), "impossible"),
        (said({}, {}).replace('"treatment"', '"other"'), "nothing says where the commands ran"),
    ],
)
def test_output_that_is_not_whole_is_no_result(output: str, reason: str) -> None:
    with pytest.raises(OutputError, match=reason):
        parse(output)
