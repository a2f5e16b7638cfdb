"""`tare quick` makes a study of its options, and finds the program as a shell does."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tare.cli import commands, quick
from tare.cli.options import QuickOptions
from tare.cli.quick import given_input, placement_of, quick_study, results_of
from tare.clusters import lab_site
from tare.errors import RefusedError, StudyError, UsageError
from tare.model import Cell, Placement, Plan, Role, Study, Workload
from tare.networks import NETWORKS
from tare.runtimes import RUNTIMES
from tare.study import environment as environment_of
from tare.study.plan import composition
from tare.study.plan.cells import expand
from tare.study.plan.composition import refuse
from tare.system.topology import read_topology
from tare.workloads import program_places
from unit.scripts import script

ASKED = QuickOptions(command=["/home/u/app"], rounds=4, ranks=2, time_limit=90.0, mpi="openmpi")


def test_a_quick_study_compares_the_program_bare_against_the_usual_environments() -> None:
    stated = quick_study(ASKED)
    assert stated.baseline == "bare"
    assert [e.name for e in stated.environments] == [
        "bare", "bare+image", "bare+bridge", "bare+dockerd",
        "docker+host", "docker+bridge", "docker+direct", "docker+macvlan",
        "docker+overlay", "podman", "apptainer", "charliecloud",
    ]  # fmt: skip
    assert stated.placements == (Placement(nodes=2, ranks_per_node=2),)
    assert (stated.repetition.rounds, stated.repetition.max_rounds) == (4, 4)
    assert stated.workloads[0].time_limit_s == 90.0
    assert stated.self_comparison


@pytest.mark.parametrize(("nodes", "engine"), [(1, "docker+docker-default"), (2, "docker+overlay")])
def test_no_environment_of_a_quick_study_is_refused(nodes: int, engine: str) -> None:
    stated = quick_study(replace(ASKED, nodes=nodes))
    assert engine in [e.name for e in stated.environments]
    assert not any(composition.refuse(e, stated.placements[0]) for e in stated.environments)


@pytest.fixture
def ordinary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    monkeypatch.setattr(quick, "read_topology", lambda cpus: read_topology(cpus, Path("/nonexistent")))


@pytest.mark.usefixtures("ordinary")
def test_an_ordinary_user_compares_on_this_machine_as_it_is_what_needs_no_root(
    capsys: pytest.CaptureFixture[str],
) -> None:
    here = quick.on_usual_cluster(QuickOptions(command=["app"], mpi="openmpi"))
    stated = quick_study(here)
    assert (stated.cluster, stated.placements[0].nodes, stated.placements[0].ranks_per_node) == ("local", 1, 4)
    names = [each.name for each in stated.environments]
    assert "podman-rootless" in names
    assert not {"podman", "bare+bridge", "docker+macvlan"} & set(names)
    assert "on this machine as it is, with 4 ranks; --cluster lab" in capsys.readouterr().err


@pytest.mark.usefixtures("ordinary")
@pytest.mark.parametrize(
    "change",
    [
        {"nodes": 2},
        {"environments": "bare,bare+bridge"},
        {"cluster": "lab"},
        {"hosts": "a"},
    ],
)
def test_what_only_other_clusters_have_is_asked_of_them(change: dict[str, object]) -> None:
    asked = QuickOptions(command=["app"], mpi="openmpi", **change)  # type: ignore[arg-type]
    assert quick.on_usual_cluster(asked) == asked
    assert placement_of(asked).ranks_per_node == 1


@pytest.mark.usefixtures("ordinary")
def test_ranks_with_threads_or_containers_of_their_own_take_the_cores_of_this_machine() -> None:
    here = QuickOptions(command=["app"], mpi="openmpi", cluster="local")
    assert placement_of(replace(here, threads_per_rank=2)).ranks_per_node == 2
    assert placement_of(replace(here, threads_per_rank=8)).ranks_per_node == 1
    assert placement_of(replace(here, containers_per_node=3)).ranks_per_node == 3
    assert placement_of(replace(here, ranks=2)).ranks_per_node == 2


@pytest.mark.parametrize("refused", [(), ("docker+host", "docker+bridge"), ("bare",), "all"])
def test_usual_environments_that_cannot_run_here_are_named_once_and_left_out(
    refused: tuple[str, ...] | str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stated = quick_study(ASKED)
    names = [each.name for each in stated.environments]

    def plan_of(asked: Study, _: object) -> Plan:
        no = names[1:] if refused == "all" else refused
        return expand(asked, lambda environment, _: "it is not there" if environment.name in no else None)

    monkeypatch.setattr(quick, "make_plan", plan_of)
    kept, plan = quick.without_unavailable(ASKED, stated)
    found = [each.name for each in kept.environments]
    assert plan.study == kept
    told = capsys.readouterr().err
    if len(refused) == 2:
        assert found == [name for name in names if name not in refused]
        assert told == "tare: left out: docker+host, docker+bridge: it is not there\n"
    else:
        assert (found, told) == (names, ""), "without a baseline, or with nothing to compare it with, the plan says why"


NAMES = ("app", "my app", "app-1.2_x", "Ünï", "a'b", "x" * 120, "...", "-")


@pytest.mark.parametrize(
    "command",
    [
        *((name,) for name in NAMES),
        ("app", "two words"), ("app", "it's", "'"), ("app", '"', "\\", "$HOME"), ("app", ""), ("app", "Grüße"),
        ("app", "a: b", "- c", "#d", "[e]", "{f}", "!g", "&h", "*i"), ("app", "yes", "null", "1e3", "0x10", "~"),
        ("app", "two\nlines"), ("app", "\N{GRINNING FACE}"),
    ],
)  # fmt: skip
def test_name_and_arguments_of_the_users_program_come_through_as_they_are(command: tuple[str, ...]) -> None:
    name, *arguments = command
    given = [f"/home/u/{name}", *arguments]
    assert quick_study(replace(ASKED, command=given)).workloads[0].command == tuple(given)


def test_every_option_reaches_the_environments_that_it_concerns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KNOWN_HERE", "it: [is]")
    wanted = replace(
        ASKED, environments="bare, bare+image,docker+host,podman", mpi="mpich", transport="tcp",
        bind=["/etc:/data:ro"], env=["A=1=2", "KNOWN_HERE"], containers_per_node=2,
    )  # fmt: skip
    stated = quick_study(wanted)
    assert [e.name for e in stated.environments] == ["bare", "bare+image", "docker+host", "podman"]
    assert {e.mpi for e in stated.environments} == {"mpich"}
    assert {e.env for e in stated.environments} == {("A=1=2", "KNOWN_HERE=it: [is]")}
    assert [e.image for e in stated.environments] == ["", *["debian-mpich"] * 3]
    assert [e.binds for e in stated.environments] == [(), *[("/etc:/data:ro",)] * 3]
    assert stated.placements[0].containers_per_node == 2
    stated = quick_study(replace(ASKED, environments="bare,docker+host", image="debian-openmpi"))
    assert [e.image for e in stated.environments] == ["", "debian-openmpi"]


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"environments": "bare,dockr+host"}, StudyError, "did you mean docker?"),
        ({"environments": "bare,,docker"}, UsageError, "has an empty name"),
        ({"environments": ""}, UsageError, "'' has an empty name"),
        ({"environments": "bare, bare"}, UsageError, "names bare twice"),
        ({"bind": ["/no/such/folder:/x"]}, UsageError, "/no/such/folder does not exist"),
        ({"cluster": "locl"}, UsageError, "did you mean local?"),
        ({"threads_per_rank": 100_000}, StudyError, "needs 400000 cores"),
        ({"environments": "bare", "every": True}, UsageError, "cannot be combined"),
        ({"mpi": "openmpi6"}, StudyError, "did you mean openmpi?"),
        ({"transport": "smoke"}, StudyError, "smoke"),
        ({"bind": ["nowhere"]}, StudyError, "SOURCE:TARGET"),
        ({"env": ["SURELY_NOT_SET_HERE"]}, UsageError, "is not set here"),
        ({"env": ["1A=2"]}, StudyError, "is not an assignment"),
    ],
)
def test_a_wrong_option_is_a_sentence_without_lines(
    change: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error) as caught:
        quick_study(replace(ASKED, **change))  # type: ignore[arg-type]
    assert words in str(caught.value)
    assert ":0:0" not in str(caught.value)
    assert "problems" not in str(caught.value), "it is reported for each environment"


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        ({"rounds": 20}, True), ({"command": ["/home/u/app", "-n"]}, False), ({"ranks": 1}, False),
        ({"environments": "bare,docker"}, False), ({"env": ["A=2"]}, False), ({"threads_per_rank": 2}, False),
        ({"cluster": "local"}, False), ({"writable": True}, False),
    ],
)  # fmt: skip
def test_another_command_has_other_results_and_more_rounds_resume(change: dict[str, object], is_same: bool) -> None:
    asked = replace(ASKED, env=["A=1"])
    first, other = quick_study(asked), quick_study(replace(asked, **change))  # type: ignore[arg-type]
    assert first.name.startswith("quick-app-")
    assert (first.name == other.name) == is_same


@pytest.mark.parametrize(
    ("plan", "has_it"),
    [
        ({"plan": {"study": {"name": "quick-app-11"}}}, True),
        ({"plan": {"study": {"name": "quick-app-22"}}}, False),
        ({"plan": {"study": 1}}, False),
        ({}, False),
    ],
)
def test_the_first_command_of_a_program_has_results_without_a_digest(
    plan: dict[str, object], has_it: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert results_of("quick-app-11", tmp_path) == tmp_path / "quick-app"
    (tmp_path / "quick-app").mkdir()
    assert results_of("quick-app-11", tmp_path) == tmp_path / "quick-app-11", "another tool's, or damaged"
    monkeypatch.setattr("tare.cli.quick.read_plan", lambda _: plan)
    assert results_of("quick-app-11", tmp_path) == tmp_path / ("quick-app" if has_it else "quick-app-11")


@pytest.mark.parametrize(
    ("change", "cluster", "nodes", "absent"),
    [
        ({}, "lab", 2, ()),
        ({"cluster": "local"}, "local", 1, ("docker+bridge", "bare+dockerd", "docker+overlay")),
        ({"hosts": "a,b, c"}, "ssh", 3, ("docker+macvlan", "bare+dockerd")),
    ],
)
def test_a_cluster_has_as_many_nodes_as_usual_there_and_environments_that_it_can_have(
    change: dict[str, Any], cluster: str, nodes: int, absent: tuple[str, ...]
) -> None:
    stated = quick_study(replace(ASKED, threads_per_rank=2, **change))
    assert (stated.cluster, stated.lab.hosts) == (cluster, ("a", "b", "c") if cluster == "ssh" else ())
    assert (stated.placements[0].nodes, stated.placements[0].threads_per_rank) == (nodes, 2)
    names = [environment.name for environment in stated.environments]
    assert names[0] == "bare"
    assert "podman" in names
    assert not set(names) & set(absent)


def test_standard_input_is_read_by_each_launch_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.write_text("a\nb\n")
    own = os.dup(0)

    def given_from(descriptor: int) -> str:
        os.dup2(descriptor, 0)
        try:
            return given_input()
        finally:
            os.dup2(own, 0)

    with file.open("rb") as opened, open(os.devnull) as nothing:
        assert (given_from(opened.fileno()), given_from(nothing.fileno())) == (str(file), "")
        os.lseek(opened.fileno(), 2, os.SEEK_SET)
        assert given_from(opened.fileno()) == "", "it is that of a loop of a shell"
        reader, writer = os.pipe()
        assert given_from(reader) == "", "nobody has written"
        os.write(writer, b"a")
        with pytest.raises(RefusedError, match="which only one launch could read") as caught:
            given_from(reader)
        assert "< FILE" in caught.value.remedy
        for each in (reader, writer, own):
            os.close(each)
    assert quick_study(ASKED, str(file)).workloads[0].input == str(file)


def test_all_means_each_runtime_in_each_network_that_it_can_have() -> None:
    stated = quick_study(replace(ASKED, every=True, nodes=2))
    pairs = {(e.runtime, e.network) for e in stated.environments}
    for runtime in RUNTIMES:
        for network in NETWORKS:
            possible = refuse(environment_of(f"{runtime}+{network}"), stated.placements[0]) is None
            real = not runtime.startswith("fake") and not network.startswith("fake")
            assert ((runtime, network) in pairs) == (possible and real), (runtime, network)
    assert (stated.baseline, stated.environments[1].name) == ("bare", "bare+image")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that is first on PATH and has a program, beside the current one that has another."""
    for name in ("bin/both", "here/both", "here/mine"):
        script(tmp_path / name)
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    return tmp_path


def test_a_program_is_found_as_a_shell_finds_it_and_one_of_the_system_keeps_its_name(folder: Path) -> None:
    assert program_places.command_file("both") == folder / "bin" / "both"
    assert program_places.command_file("./both") == folder / "here" / "both"
    assert program_places.command_file("mine") == folder / "here" / "mine"
    assert program_places.command_file("nowhere-at-all") is None
    assert quick._program("sh", "") == "sh"
    assert quick._program("mine", "") == str(folder / "here" / "mine")
    assert quick._program("/in/the/image", "./app.sif") == "/in/the/image"
    with pytest.raises(RefusedError, match=r"there is no program \./nothing"):
        quick._program("./nothing", "")


def test_pods_are_shown_where_the_links_of_a_program_lead_and_links_to_what_they_do_not_see_are_named(
    folder: Path,
) -> None:
    here, real = folder / "here", folder / "real"
    (real / "data").mkdir(parents=True)
    (real / "app").write_text("")
    (here / "app").symlink_to("also")
    (here / "also").symlink_to("../real/app")
    (here / "python").symlink_to("/usr/bin/env")
    (here / "input").symlink_to("../real/data")
    (here / "nowhere").symlink_to("gone")
    assert program_places.folders_of(here / "app") == (str(here), str(real))
    assert program_places.folders_of(here / "python") == (str(here),)
    assert list(program_places.links_out_of([str(here)])) == [
        (str(here / name), str(real / to)) for name, to in (("also", "app"), ("app", "app"), ("input", "data"))
    ]
    assert list(program_places.links_out_of([str(here), str(real), "/no/folder"])) == []


@pytest.mark.parametrize("name", ["mpirun", "/usr/bin/mpiexec", "srun"])
def test_a_launcher_is_refused_because_tare_starts_the_ranks(name: str) -> None:
    with pytest.raises(RefusedError, match="would start a job of its own in every rank"):
        program_places.check_no_launcher(name)
    program_places.check_no_launcher(f"./{Path(name).name}-wrapper")


def test_a_command_that_an_image_lacks_is_named_and_one_that_only_images_have_is_no_reason_to_refuse(
    tmp_path: Path, folder: Path
) -> None:
    (tmp_path / "root/opt/conda/bin").mkdir(parents=True)
    (tmp_path / "root/opt/conda/bin/sh").write_text("")
    workload = Workload(name="app", command=("sh", "-c", "true"))
    assert program_places.not_in_image(workload, tmp_path / "root", ("/opt/conda/bin",)) is None
    assert "sh is not in the image" in str(program_places.not_in_image(workload, tmp_path / "root"))
    mine = Workload(name="app", command=(str(folder / "here/mine"),))
    assert program_places.not_in_image(mine, tmp_path / "root") is None, "its folder is shown in containers"

    def cell(name: str, image: str) -> Cell:
        work = Workload(name="w", command=(name,))
        made = environment_of("docker" if image else "bare")
        return Cell(key=image, group="g", role=Role.ENVIRONMENT, workload=work, environment=made, placement=Placement())

    assert program_places.commands_of([cell("a", "x"), cell("a", ""), cell("b", "x")]) == {"a": False, "b": True}


@pytest.mark.parametrize("place", ["/", "/tmp", "/run", "/usr", "/opt/tare"])
def test_a_folder_that_nodes_or_images_have_of_their_own_is_refused_in_a_sentence(place: str) -> None:
    with pytest.raises(RefusedError, match=f"the current folder is {place}, but every node or container has"):
        program_places.check_can_be_shown(place, "the current folder")
    program_places.check_can_be_shown("/tmp/study", "the current folder")


def test_the_current_folder_is_writable_and_the_run_live_only_if_asked_for(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    ran: list[tuple[object, str, bool]] = []

    def run_plan(stated: Study, _: object, **given: object) -> int:
        ran.append((given["shown"], stated.writable, given["live"]))
        return 0

    monkeypatch.setattr(commands, "run_plan", run_plan)
    for writable in (False, True):
        quick.run_quick(replace(ASKED, command=["mine"], writable=writable, live=writable))
    here = str(folder / "here")
    assert ran == [((here,), "", False), ((here,), here, True)]


def test_what_is_shown_meanwhile_gives_no_results_of_another_name() -> None:
    first = quick.quick_study(ASKED).name
    assert quick.quick_study(replace(ASKED, live=True, quiet=True, fresh=True, rounds=20)).name == first
    assert quick.quick_study(replace(ASKED, writable=True)).name != first


def test_nothing_is_started_from_a_folder_that_every_node_has_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "run_plan", pytest.fail)
    monkeypatch.chdir("/tmp")
    with pytest.raises(RefusedError, match="the current folder is /tmp") as caught:
        quick.run_quick(replace(ASKED, command=["sh"]))
    assert caught.value.remedy == "use a folder below it, such as /tmp/study"


def test_nodes_get_the_current_folder_only_where_they_would_hide_it(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    assert folder.is_relative_to("/tmp"), "pytest's own folders are elsewhere, so that this shows nothing"
    assert lab_site._current_folder() == (str(folder / "here"),)
    for elsewhere in ("/tmp", "/usr"):
        monkeypatch.chdir(elsewhere)
        assert lab_site._current_folder() == ()
    (folder / "gone").mkdir()
    monkeypatch.chdir(folder / "gone")
    (folder / "gone").rmdir()
    assert lab_site._current_folder() == ()
