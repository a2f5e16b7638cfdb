"""The command line starts at once, says what is wrong in a sentence, and ends with the right code."""

from __future__ import annotations

import io
import os
import resource
import signal
import subprocess
import sys
from contextlib import ExitStack, chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

from tare.cli import app
from tare.errors import RefusedError
from tare.workloads import program_places
from unit.scripts import script
from waiting import wait_until

SRC = Path(app.__file__).parents[2]
COMMANDS = ("plan", "run", "report", "quick", "doctor", "clean", "lab")
LAB_COMMANDS = ("up", "status", "exec", "down")


@dataclass(frozen=True)
class Ended:
    """What a command left."""

    returncode: int
    stdout: str
    stderr: str


def process(*arguments: str, cwd: Path | None = None) -> Ended:
    """Run the command line in a process of its own, as a user does."""
    environment = {**os.environ, "PYTHONPATH": str(SRC), "COLUMNS": "100"}
    environment.pop("TARE_DEBUG", None)
    done = subprocess.run(
        (sys.executable, "-m", "tare.cli.app", *arguments),
        cwd=cwd, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return Ended(done.returncode, done.stdout, done.stderr)


def tare(*arguments: str, cwd: Path | None = None) -> Ended:
    """Run the command line in this process, which spares the second that starting and importing take."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    environment = {name: value for name, value in os.environ.items() if name != "TARE_DEBUG"}
    environment["COLUMNS"] = "100"
    stdout, stderr = io.StringIO(), io.StringIO()
    with ExitStack() as stack:
        stack.callback(lambda: [signal.signal(number, handler) for number, handler in handlers.items()])
        stack.enter_context(mock.patch.dict(os.environ, environment, clear=True))
        stack.enter_context(mock.patch.object(sys, "argv", ["tare", *arguments]))
        stack.enter_context(chdir(cwd or Path.cwd()))
        stack.enter_context(redirect_stdout(stdout))
        stack.enter_context(redirect_stderr(stderr))
        caught = stack.enter_context(pytest.raises(SystemExit))
        app.main()
    code = caught.value.code
    assert isinstance(code, int)
    return Ended(code, stdout.getvalue(), stderr.getvalue())


def complaint(result: Ended, code: int = 2) -> str:
    """Return what was said to stderr, having checked the exit code and that it is a sentence and no traceback."""
    assert result.returncode == code, result.stderr
    assert "Traceback" not in result.stderr + result.stdout
    assert "internal error" not in result.stderr
    first, *remedy = result.stderr.splitlines()
    assert first.startswith("tare: ")
    assert all(line.startswith("  ") for line in remedy)
    return result.stderr


def processor_s(*arguments: str) -> float:
    """Return the processor time of Python, the best of five: the clock's counts what else the machine does."""
    times: list[float] = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run((sys.executable, *arguments), capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


@pytest.mark.measures
def test_help_answers_within_150_ms() -> None:
    # It waits for nothing, so its time is the processor's. Where the host lets this machine be slow, so is the library
    # of the command line, which takes half of it.
    took_s = processor_s("-m", "tare.cli.app", "--help")
    library_s = processor_s("-c", "import typer")
    assert 0.02 < took_s <= max(0.15, 3 * library_s), f"{took_s:.3f} s, of it typer {library_s:.3f} s"


def test_help_does_not_load_what_only_a_study_needs() -> None:
    program = (
        "import sys; sys.argv = ['tare', '--help']; from tare.cli import app\n"
        "try:\n    app.main()\nexcept SystemExit:\n    pass\n"
        "print([m for m in ('numpy', 'scipy', 'pydantic', 'rich', 'pyroute2', 'plotly', 'yaml') if m in sys.modules])"
    )
    result = subprocess.run((sys.executable, "-c", program), capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("arguments", [(c,) for c in COMMANDS] + [("lab", c) for c in LAB_COMMANDS])
def test_every_command_explains_itself(arguments: tuple[str, ...]) -> None:
    for option in ("--help", "-h"):
        result = tare(*arguments, option)
        assert (result.returncode, result.stderr) == (0, "")
        (usage,) = [line for line in result.stdout.splitlines() if "Usage: " in line]
        assert f" {' '.join(arguments)} " in usage


def test_the_version_is_shown_and_without_a_command_the_help_with_a_usage_error() -> None:
    from tare import __version__

    result = process("--version")
    assert (result.returncode, result.stdout) == (0, f"tare {__version__}\n")
    result = process()
    assert result.returncode == 2
    assert "Usage:" in result.stdout
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--nope",), "--nope"),
        (("run", "--nope", "x.yaml"), "--nope"),
        (("frobnicate",), "frobnicate"),
        (("lab", "sideways"), "sideways"),
        (("report",), "results"),
        (("lab", "up", "--nodes", "none"), "--nodes"),
        (("lab", "up", "--nodes", "0"), "--nodes"),
        (("quick", "--rounds", "0", "--", "./app"), "--rounds"),
        (("plan", "a.yaml", "b.yaml"), "b.yaml"),
    ],
)
def test_a_wrong_option_command_or_value_is_a_usage_error_that_names_it(arguments: tuple[str, ...], words: str) -> None:
    assert words in complaint(tare(*arguments))


@pytest.mark.parametrize(
    ("arguments", "sentence", "remedy"),
    [
        (("lab", "exex"), "no such command 'exex'; did you mean 'exec'?", "  `tare lab --help` lists the commands"),
        (("run",), "missing argument 'study'", "  `tare run --help` lists the arguments and options"),
        (("quick", "-np", "2", "--", "a"), "there is no option -np", "  write -n 2: the number of ranks on each node"),
        (("launch", "-np", "2", "a"), "there is no option -np", "  write -n 2: the number of ranks of the whole job"),
    ],
)
def test_a_usage_error_is_a_sentence_with_the_help_to_read(
    arguments: tuple[str, ...], sentence: str, remedy: str
) -> None:
    assert complaint(tare(*arguments)).splitlines() == [f"tare: {sentence}", remedy]


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_missing_study_file_is_named_with_the_one_that_may_be_meant(command: str, tmp_path: Path) -> None:
    (tmp_path / "quickstart.yaml").write_text("environments: [bare]\n")
    said = complaint(tare(command, "quickstrat.yaml", cwd=tmp_path))
    assert "quickstrat.yaml: there is no such file" in said
    assert "did you mean quickstart.yaml?" in said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "study"),
        ("just words\n", "mapping"),
        ("environments: [bare\n", ":"),
        ("environments: [bare]\nworkloads: {w: {kernels: [barrier]}}\nrounds: 3\n", "rounds"),
        ("environments: [docker+nowhere]\nworkloads: {w: {kernels: [barrier]}}\n", "nowhere"),
        ("\0\0", "study.yaml"),
        ("environments: !!python/object/apply:os.system ['touch pwned']\n", "study.yaml"),
    ],
)
def test_a_bad_study_file_is_told_with_its_place(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(text)
    said = complaint_of_many(tare("run", str(file), cwd=tmp_path))
    assert words in said
    assert "study.yaml" in said
    assert sorted(p.name for p in tmp_path.iterdir()) == ["study.yaml"]


def complaint_of_many(result: Ended) -> str:
    """Return what was said of a file that may have several problems, one a line."""
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    assert "internal error" not in result.stderr
    return result.stderr


def test_a_folder_or_a_binary_is_not_taken_for_a_study(tmp_path: Path) -> None:
    assert "is a folder" in complaint(tare("run", str(tmp_path)))
    binary = tmp_path / "binary"
    binary.write_bytes(bytes(range(256)) * 10)
    assert "binary" in complaint_of_many(tare("plan", str(binary)))


@pytest.mark.parametrize("made", ["missing", "empty", "file", "plain folder"])
def test_a_results_folder_that_is_none_is_told(made: str, tmp_path: Path) -> None:
    path = tmp_path / "results"
    if made == "file":
        path.write_text("x")
    elif made != "missing":
        path.mkdir()
        if made == "plain folder":
            (path / "notes.txt").write_text("mine")
    assert str(path) in complaint(tare("report", str(path)))


FAKE = """
name: known
cluster: {fake: {nodes: 2, cores_per_node: 1}}
environments:
  fake: {runtime: fake, network: fake, mpi: fake}
  fake-slow: {runtime: fake, network: fake-slow, mpi: fake}
placements: [{nodes: 2, ranks_per_node: 1}]
workloads: {micro: {kernels: [latency: 8B]}}
repetition: {rounds: 2, max_rounds: 2}
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    file = tmp_path / "known.yaml"
    file.write_text(FAKE)
    return file


def test_a_study_on_fakes_is_planned_run_and_reported_from_the_command_line(study: Path, tmp_path: Path) -> None:
    planned = tare("plan", str(study))
    assert planned.returncode == 0
    assert "3 cells, 3 can run here" in planned.stdout
    assert "6 launches" in planned.stdout
    assert not (tmp_path / "results").exists()
    ran = process("run", "known.yaml", cwd=tmp_path)
    assert ran.returncode == 3, ran.stderr  # two rounds decide nothing
    assert "6 of 6 launches done" in ran.stderr
    assert (tmp_path / "results/known/report.html").is_file()
    html = tmp_path / "again.html"
    shown = tare("report", "results/known", "--html", str(html), cwd=tmp_path)
    assert shown.returncode == 3
    assert html.is_file()


def test_results_of_another_study_are_refused_and_kept(study: Path, tmp_path: Path) -> None:
    assert tare("run", "known.yaml", cwd=tmp_path).returncode == 3
    trials = tmp_path / "results/known/trials.jsonl"
    before = trials.read_bytes()
    other = tmp_path / "other.yaml"
    other.write_text(FAKE.replace("latency: 8B", "latency: 16B"))
    said = complaint(tare("run", "other.yaml", "-o", "results/known", cwd=tmp_path))
    assert "results/known" in said
    assert trials.read_bytes() == before


def test_an_unwritable_report_is_told(study: Path, tmp_path: Path) -> None:
    tare("run", "known.yaml", cwd=tmp_path)
    said = complaint(tare("report", "results/known", "--html", "nowhere/r.html", cwd=tmp_path))
    assert "nowhere/r.html" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_says_how_to_go_on_and_the_same_command_finishes_it(
    number: signal.Signals, study: Path, tmp_path: Path
) -> None:
    study.write_text(FAKE.replace("8B]", "8B], time_limit: 1h"))
    environment = {**os.environ, "PYTHONPATH": str(SRC), "COLUMNS": "100", "TARE_FAKE_FAULT": "hang@1.5"}
    running = subprocess.Popen(
        (sys.executable, "-m", "tare.cli.app", "run", "known.yaml"),
        cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    trials = tmp_path / "results/known/trials.jsonl"
    wait_until(lambda: trials.exists() and trials.read_bytes().count(b"\n") == 2, "the third launch hangs")
    running.send_signal(number)
    _, said = running.communicate()
    assert running.returncode == 130, said
    assert "Traceback" not in said
    assert "cleaned up; run the same command to resume" in said
    again = tare("run", "known.yaml", cwd=tmp_path)
    assert again.returncode in {0, 3}, again.stderr
    assert "resuming results/known" in again.stderr


@pytest.mark.parametrize(
    ("made", "words"),
    [("missing", "there is no program ./app"), ("plain", "is not executable"), ("folder", "is a folder")],
)
def test_a_program_that_cannot_be_run_is_told_before_anything_starts(made: str, words: str, tmp_path: Path) -> None:
    app = tmp_path / "app"
    if made == "plain":
        app.write_text("x")
    elif made == "folder":
        app.mkdir()
    assert words in complaint(tare("quick", "--", "./app", cwd=tmp_path))


def test_a_program_that_may_not_be_executed_is_told_with_what_forbids_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = script(tmp_path / "app")
    monkeypatch.setattr(os, "access", lambda *_: False)
    flags = SimpleNamespace(f_flag=os.ST_NOEXEC)
    monkeypatch.setattr(os, "statvfs", lambda _: flags)
    with pytest.raises(RefusedError, match=r"^\./app is on a file system that is mounted noexec\n") as noexec:
        program_places.check_executable(app, "./app")
    assert "chmod" not in str(noexec.value)
    flags.f_flag = 0
    with pytest.raises(RefusedError, match=r"may not be executed by this user"):
        program_places.check_executable(app)
    app.chmod(0o644)
    with pytest.raises(RefusedError, match=r"app is not executable\n  chmod \+x "):
        program_places.check_executable(app)
