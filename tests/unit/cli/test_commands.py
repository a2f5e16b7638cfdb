"""What commands print and refuse before anything runs."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tare.cli import commands, session
from tare.cli.options import PlanOptions, QuickOptions, RunOptions
from tare.cli.quick import quick_study
from tare.cli.session import plan_text
from tare.cli.workload_commands import as_data, as_text, missing_of, show_workloads
from tare.errors import RefusedError
from tare.model import Binding, KernelSpec, KubernetesSpec, LabSpec, Placement, Plan, Repetition, Workload
from tare.model.topology import NodeCores, Topology
from tare.mpi import MPIS
from tare.runtimes.containers.deployment import Files
from tare.study import KNOWN, parse
from tare.study import environment as environment_of
from tare.study.feasibility import availability, preflight, study_files
from tare.study.feasibility.compatibility import MpiFacts
from tare.study.feasibility.study_files import StudyFiles
from tare.study.plan import composition, unavailable_lines
from tare.study.plan.cells import expand
from tare.workloads.catalogue import CatalogueEntry, entries
from tare.workloads.declared import MINIAPPS
from unit.adapters import ExampleAdapter
from unit.scripts import script
from unit.study_texts import ENVIRONMENTS


def study(**more: object) -> Plan:
    stated = quick_study(
        QuickOptions(command=["/home/u/my app", "--size", "it's"], rounds=4, ranks=2, time_limit=90.0, mpi="openmpi")
    )
    return expand(replace(stated, **more), composition.refuse)  # type: ignore[arg-type]


def test_a_plan_shows_every_cell_what_runs_and_why_the_others_do_not() -> None:
    plan = study()
    refused = replace(plan, unavailable={plan.cells[2].key: "it cannot be"})
    lines = plan_text(refused).splitlines()
    assert lines[0].endswith(f"{len(plan.cells)} cells, {len(plan.cells) - 1} can run here")
    assert lines[1].startswith("4 rounds")
    assert f" {4 * (len(plan.cells) - 1)} launches, about " in lines[1]
    assert re.fullmatch(r"about \S+ node-hours on 2 nodes, up to \d+ \w+ of disk for images and results", lines[2])
    assert lines[4].startswith("Cells, each a workload / nodes x ranks on each / an environment")
    marked = {line[4:].split("  (")[0]: line[2] for line in lines[5:]}
    assert marked == {cell.key: "-" if cell is plan.cells[2] else "+" for cell in plan.cells}
    assert f"  - {plan.cells[2].key}  (unavailable: it cannot be)" in lines


@pytest.mark.parametrize(
    ("reasons", "lines"),
    [
        ({"1r / bare": "x", "2r / bare": "y"}, ["w / 1n x 1r / bare  (unavailable: x)", "w / 1n x 2r / bare  (una"]),
        ({"1r / bare": "x", "1r / podman": "x"}, ["bare, podman in w / 1n x 1r  (unavailable: x)"]),
        ({"bare": "x", "podman": "x"}, ["bare, podman in w / 1n x 1r, w / 1n x 2r  (unavailable: x)"]),
        ({"": "x"}, ["all 6 cells  (unavailable: x)"]),
    ],
)
def test_a_reason_that_cells_share_is_said_once(reasons: dict[str, str], lines: list[str]) -> None:
    stated = parse("environments: [bare, podman]\nplacements: [1x1, 1x2]\nworkloads: {w: {command: [x]}}\n")
    plan = expand(stated, lambda *_: None)
    found = {cell.key: why for cell in plan.cells for end, why in reasons.items() if cell.key.endswith(end)}
    refused = replace(plan, unavailable=found)
    said = list(unavailable_lines.in_lines(refused))
    assert len(said) == len(lines)
    assert all(line.startswith(start) for line, start in zip(said, lines, strict=True)), said
    if len(found) == len(plan.cells):
        with pytest.raises(RefusedError, match=re.escape(lines[0])):
            session.check_available(refused)


STUDY = "environments: [bare]\nplacements: [{placement}]\nworkloads: {{app: {{command: [{command}]}}}}\n{more}"


@pytest.mark.parametrize(
    ("command", "placement", "more", "code", "said"),
    [
        ("./app", "1x1", "", 0, "+ app / 1n x 1r / bare"),
        ("./app", "1x1", "repetition: {rounds: 2, max_rounds: 5}", 0, "5 rounds can decide nothing: a verdict needs 6"),
        ("./app", "1x999", "", 2, "all 2 cells  (unavailable: placement 1n x 999r"),
        ("./nope", "1x1", "", None, "there is no program nope in "),
        ("mpirun, -n, 2, ./app", "1x1", "", None, "mpirun would start a job of its own in every rank"),
        ("./text", "1x1", "", None, "text is not executable"),
        ("./mpich", "1x1", "", 2, "all 2 cells  (unavailable: mpich is built for MPICH 4.0; started by Open MPI"),
    ],
)
def test_a_plan_looks_at_the_program_as_a_run_does(
    command: str, placement: str, more: str, code: int | None, said: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    for name in ("app", "mpich"):
        shutil.copy("/bin/true", tmp_path / name)
    (tmp_path / "text").touch()
    mpich, open_mpi = MpiFacts(family="mpich", version=(4, 0)), MpiFacts(family="openmpi", version=(4, 1))
    monkeypatch.setattr(preflight, "mpi_here", lambda _: open_mpi)
    monkeypatch.setattr(preflight, "mpi_of_program", lambda file, *_: mpich if file.name == "mpich" else open_mpi)
    monkeypatch.setattr(MPIS["openmpi"].__class__, "probe", lambda _: None)
    monkeypatch.setattr(MPIS["openmpi"].__class__, "probe_launcher", lambda _: None)
    file = tmp_path / "study.yaml"
    file.write_text("cluster: local\n" + STUDY.format(command=command, placement=placement, more=more))
    if code is None:
        with pytest.raises(RefusedError, match=re.escape(said)) as planned:
            commands.show_plan(PlanOptions(study=file))
        with pytest.raises(RefusedError) as ran:
            commands.run_study(RunOptions(study=file, results=tmp_path / "results"))
        assert str(ran.value) == str(planned.value)
        return
    assert commands.show_plan(PlanOptions(study=file)) == code
    assert said in capsys.readouterr().out


def test_a_plan_says_how_its_kernels_take_turns_or_that_they_do_not() -> None:
    kernels = Workload(name="w", kernels=(KernelSpec(kernel="barrier"),))
    plan = study(workloads=(kernels,), cluster="lab", repetition=Repetition(turns=10))
    assert "10 rounds, kernels in 10 turns: " in plan_text(plan)
    pods = replace(plan.study, lab=LabSpec(kubernetes=KubernetesSpec(in_lab=True)))
    said = plan_text(replace(plan, study=pods))
    assert "rounds, launches one after the other (pods take no turns): " in said
    assert "turns: " not in said


def test_fakes_need_no_files() -> None:
    text = """
    cluster: {fake: {nodes: 2}}
    environments: {fake: {runtime: fake, network: fake, mpi: fake}}
    workloads: {micro: {kernels: [barrier]}}
    """
    plan = session.make_plan(parse(text))
    files = study_files.make_files(plan, pytest.fail)
    assert {files.of(cell.environment) for cell in plan.cells} == {Files(host_prefix=Path("/nowhere"))}


PAIR = Placement(nodes=2, ranks_per_node=2)


@pytest.mark.parametrize(
    ("placement", "cores", "apart", "words"),
    [
        (Placement(nodes=2), ((0,), (1,)), False, None),
        (Placement(nodes=2), ((0,), (0,)), False, "would share cores"),
        (Placement(nodes=2, oversubscribe=True), ((0,), (0,)), False, None),
        (Placement(nodes=3), ((0,), (1,)), False, "needs 3 nodes"),
        (PAIR, ((0,), (1,)), False, "need 2 cores"),
        (replace(PAIR, binding=Binding.MPI_DEFAULT), ((0,), (1,)), False, None),
        (PAIR, ((0, 1), (0, 1)), False, "would share cores"),
        (PAIR, ((0, 1), (0, 1)), True, None),
    ],
)
def test_a_placement_without_cores_of_its_own_has_no_place(
    placement: Placement, cores: tuple[tuple[int, ...], ...], apart: bool, words: str | None
) -> None:
    topology = Topology(nodes=tuple(NodeCores(cores=c) for c in cores))
    reason = availability._no_place(placement, topology, apart=apart)
    assert reason is None if words is None else words in str(reason)


def test_what_must_not_change_between_runs_of_a_study_is_recorded() -> None:
    plan = study(repetition=Repetition())
    made = {("openmpi", "i"): Files(host_prefix=Path("/cache/abc123"), image_tag="tare:1")}
    facts = session.facts(plan, StudyFiles(made={**made, ("openmpi", ""): Files(host_prefix=Path("/cache/abc123"))}))
    assert set(facts["identity"]) == {"kernel", "cpu", "cores", "mpi", "kernels", "image"}
    assert (facts["identity"]["kernels"], facts["identity"]["image"]) == ("abc123", "tare:1")
    assert facts["memory_bytes"] > 2**20


@pytest.mark.parametrize(("dry_run", "word"), [(True, "would remove"), (False, "removed")])
def test_clean_says_what_it_removes_or_that_there_is_nothing(
    dry_run: bool, word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    item = commands.clean.Leftover(lab="s1", what="folder /run/tare/s1")
    removed: list[bool] = []
    monkeypatch.setattr(commands.clean, "find", lambda **_: (item,))
    monkeypatch.setattr(commands.clean, "remove", lambda **_: removed.append(True) or (item,))
    commands.show_clean(dry_run=dry_run)
    assert capsys.readouterr().out == f"{word} folder /run/tare/s1\n"
    assert bool(removed) == (not dry_run)
    monkeypatch.setattr(commands.clean, "remove", lambda **_: ())
    commands.show_clean(dry_run=False)
    assert capsys.readouterr().out == "nothing to remove\n"


def test_the_memory_of_a_machine_and_of_a_container_are_limits() -> None:
    ft = Workload(name="ft", miniapp="npb-ft:class=C")  # 6 GiB and a little more a rank
    two = Placement(nodes=2, ranks_per_node=1)
    assert availability.no_memory(ft, two, 16 << 30) is None
    reason = availability.no_memory(ft, two, 4 << 30)
    assert reason == (
        "ft needs about 6224 MiB for 2 ranks, but this machine has 4 GiB: use fewer ranks or a smaller size"
    )
    assert availability.no_memory(ft, two, 0) is None
    mg = Workload(name="mg", miniapp="npb-mg:class=B")
    limited = Placement(nodes=2, ranks_per_node=4, containers_per_node=2, memory_per_container=128 << 20)
    assert "for 2 ranks, but a container has 128 MiB" in str(availability.no_memory(mg, limited, 64 << 30))
    assert availability.no_memory(mg, replace(limited, memory_per_container=1 << 30), 64 << 30) is None
    assert availability.no_memory(Workload(name="app", command=("a",)), limited, 1) is None


def test_a_plan_tells_which_launches_may_not_end_within_their_time_limit() -> None:
    bare = environment_of("bare")
    cg = Workload(name="cg", miniapp="npb-cg:class=C", time_limit_s=20.0)
    stated = replace(study().study, environments=(bare,), baseline="bare", placements=(Placement(),), workloads=(cg,))
    assert "s, but its time limit is 20 s: raise time_limit)" in plan_text(expand(stated, composition.refuse))
    longer = replace(stated, workloads=(replace(cg, time_limit_s=600.0),))
    assert "time limit" not in plan_text(expand(longer, composition.refuse))


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> CatalogueEntry:
    for module in ("tare.workloads.catalogue", "tare.cli.workload_commands"):
        monkeypatch.setattr(f"{module}.PROGRAMS", {"example": ExampleAdapter()})
    return next(entry for entry in entries() if entry.name == "example")


def test_every_workload_is_listed_once_with_all_that_it_declares_and_as_a_study_states_it() -> None:
    found = entries()
    names = [entry.name for entry in found]
    assert len({entry.stated for entry in found}) == len(found)
    assert set(KNOWN.kernels) | set(MINIAPPS) | {"command", "startup"} <= set(names)
    for entry in found:
        for declared in (entry.describes, entry.measures, entry.ranks, entry.timer, entry.synchronisation):
            assert declared.strip()
        assert entry.reduction.strip()
        if entry.family != "program":
            parse(f"{ENVIRONMENTS}workloads: {{w: {{{entry.stated}}}}}")


def test_what_is_missing_says_what_to_do(example: CatalogueEntry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    reason = missing_of(example)
    assert reason == "example is not here: apt-get install example"
    text = as_text([(example, reason)])
    assert text.splitlines()[0] == "third-party programs"
    assert "  missing example  `program: example`  a program that does not exist (1 and 2)" in text
    assert f"missing: {reason}" in text

    entry = next(entry for entry in entries() if entry.name == "npb-cg")
    for found in ("it is not here: apt-get install it", None):
        mpi = SimpleNamespace(is_fake=False, probe=lambda found=found: found)
        monkeypatch.setattr("tare.cli.workload_commands.MPIS", {"openmpi": mpi, "mpich": mpi})
        assert missing_of(entry) == (found or "")


def test_json_has_everything(example: CatalogueEntry, capsys: pytest.CaptureFixture[str]) -> None:
    listed = json.loads(as_data([(example, ""), (example, "gone")]))
    assert [(each["available"], each["missing"]) for each in listed] == [(True, None), (False, "gone")]
    assert listed[0]["synchronisation"] == "none"
    show_workloads(as_json=True)
    assert {each["name"] for each in json.loads(capsys.readouterr().out)} == {entry.name for entry in entries()}
    show_workloads(as_json=False)
    printed = capsys.readouterr().out
    assert "miniapp: npb-cg:class=S" in printed
    assert "apt-get install example" in printed or "ok      example" in printed


@pytest.mark.parametrize("writable", ["", "true", "runs", "gone"])
def test_commands_of_a_study_work_in_the_folder_of_its_file_or_in_the_one_they_may_write_to(
    writable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    for folder in (there / "runs", here):
        folder.mkdir(parents=True)
    script(there / "app")
    keys = f"writable: {writable}" if writable else ""
    (there / "s.yaml").write_text(f"environments: [bare, docker]\nworkloads: {{w: {{command: [./app]}}}}\n{keys}\n")
    seen: dict[str, Any] = {}

    def make_ready(plan: Plan, *_: object, **given: object) -> None:
        seen.update(given, here=Path.cwd())
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "make_plan", lambda stated, _: expand(stated, lambda *_: None))
    monkeypatch.setattr(session, "make_ready", make_ready)
    monkeypatch.chdir(here)
    with pytest.raises(RefusedError if writable == "gone" else KeyboardInterrupt):
        commands.run_study(RunOptions(study=there / "s.yaml"))
    assert Path.cwd() == here
    work = there / "runs" if writable == "runs" else there
    if writable == "gone":
        assert seen == {}
        return
    assert (seen["here"], seen["cwd"]) == (work, str(work) if writable else "")
    assert set(seen["shown"]) == {str(there), str(work)}


def test_folders_of_third_party_programs_are_not_told_as_closed(tmp_path: Path) -> None:
    program = script(tmp_path / "bench" / "example", "exit 0")
    theirs = Workload(name="t", program="example", path=str(program))
    plan = SimpleNamespace(study=SimpleNamespace(workloads=(theirs, Workload(name="own", command=("./app",)))))
    assert session.without_programs(plan, ("/here", str(program.parent))) == ["/here"]  # type: ignore[arg-type]
