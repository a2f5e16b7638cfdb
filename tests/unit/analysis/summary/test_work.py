"""A cell whose program did other work than the baseline's is not comparable; one that did the same is compared."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import exports
from tare.analysis.summary import summarise
from tare.cli import commands
from tare.cli.afterwards.explain_command import explain_results
from tare.cli.afterwards.options import ExplainOptions
from tare.errors import EXIT_CELLS_FAILED
from tare.model import Failed, InterfaceTraffic, Plan, RankPlace, Repetition, Role, Trial, Verdict, Work, Workload
from tare.model.trial import ENDED_EARLY
from tare.report.export import json as json_format
from tare.report.export import junit, markdown
from tare.run.outcome import NO_MPI
from tare.store.codec import decode, encode
from tare.store.results_checks import check_trial, sound_trial
from tare.store.writer import read_only
from unit.summaries import make_plan, make_trials, of

PROGRAM = Workload(name="app", command=("./app",))
USUAL: Mapping[str, Any] = {
    "read_bytes": 40_000.0,
    "written_bytes": 9_000.0,
    "received_bytes": 0.0,
    "sent_bytes": 0.0,
    "user_s": 2.0,
    "threads": 6.0,
    "preloads": "libjemalloc.so.2",
    "output_bytes": 4_000,
    "output_lines": 80,
    "output": "same",
    "words": "same",
}
LIBRARIES = ("/usr/lib/openblas-pthread/libopenblasp-r0.3.21.so", "/usr/lib/libmpi.so.40.30.4", "/lib/libc.so.6")
Random = random.Random
Changes = Callable[[Random], Mapping[str, Any]]
"""What is other in a launch: fields of its work, `libraries`, `packets`."""


def nothing(_: Random) -> Mapping[str, Any]:
    return {}


def launch(trial: Trial, changes: Mapping[str, Any]) -> Trial:
    """Return a trial whose program did the usual work, but for some changes."""
    fields = {**USUAL, **changes}
    libraries, packets = fields.pop("libraries", LIBRARIES), fields.pop("packets", 200)
    rank = RankPlace(rank=0, host="b/n0", hostname="n0", pid=1, cpus=(0,), libraries=libraries)
    traffic = InterfaceTraffic(
        node="n0", interface="eth0", role="data", rx_bytes=0, tx_bytes=0, rx_packets=0, tx_packets=packets
    )
    return replace(trial, ranks=(rank,), traffic=(traffic,), work=Work(**fields))


def made(base: Changes, here: Changes, rounds: int = 10, seed: int = 1) -> tuple[Plan, list[Trial]]:
    """Return a plan and trials: what the launches of bare and its A/A do, and those of `fast`, which gains 30 %."""
    plan = make_plan("fast", workload=PROGRAM, repetition=Repetition(rounds=rounds, max_rounds=rounds))
    chance = Random(seed)
    trials = [
        launch(trial, here(chance) if trial.key.cell.endswith("/fast") else base(chance))
        for trial in make_trials(plan, rounds)
    ]
    return plan, trials


def verdict(base: Changes, here: Changes, rounds: int = 10, seed: int = 1) -> tuple[Verdict, str]:
    plan, trials = made(base, here, rounds, seed)
    found = of(summarise(plan, trials, {}), "fast")
    return found.verdict, found.reason


def always(**changes: Any) -> Changes:
    return lambda _: changes


def sometimes(share: float, **changes: Any) -> Changes:
    return lambda chance: changes if chance.random() < share else {}


OTHER: Mapping[str, tuple[Changes, Changes, str]] = {
    "writes that fail": (nothing, always(written_bytes=300.0), "wrote 300 B, the baseline's 9 kB"),
    "two of three checkpoints": (always(written_bytes=9e8), always(written_bytes=6e8), "wrote 600 MB, the baseline's"),
    "writes beside many messages": (
        always(written_bytes=6.4e7 + 1e6, sent_bytes=1e6), always(written_bytes=1e6, sent_bytes=1e6), "wrote 0 B",
    ),
    "fewer threads": (nothing, always(threads=2.0), "created 2 threads, the baseline's 6"),
    "no threads": (always(threads=3.0), always(threads=0.0), "created 0 threads"),
    "more threads": (nothing, always(threads=30.0), "created 30 threads"),
    "a dropped preload": (nothing, always(preloads=""), "preloaded nothing, the baseline's libjemalloc.so.2"),
    "another BLAS": (nothing, always(libraries=("/usr/lib/blas/libblas.so.3.11.0", *LIBRARIES[1:])), "loaded libblas"),
    "another MPI inside": (nothing, always(libraries=(LIBRARIES[0], "/opt/libmpi.so.12.2")), "loaded MPICH's library"),
    "an input not found": (always(read_bytes=5e6), always(read_bytes=500.0), "read 500 B, the baseline's 5 MB"),
    "a small input not found": (
        always(read_bytes=1400.0), always(read_bytes=400.0, user_s=0.1), "computed for 0.1 s, the baseline's for 2 s",
    ),
    "half of a result, and other words": (
        nothing, always(written_bytes=5_000.0, output="x", words="x"), "printed something else, and its ranks wrote",
    ),
    "an early end with 0": (nothing, always(user_s=0.01), "computed for 0.01 s, the baseline's for 2 s"),
    "no result on standard output": (nothing, always(output_lines=0, output="none", words="none"), "printed 0 lines"),
    "fewer steps by default": (nothing, always(user_s=1.2, output="steps 60"), "printed something else, and"),
    "fewer messages": (
        always(sent_bytes=1e8, written_bytes=1e8), always(sent_bytes=1e6, written_bytes=1e6), "sent 1 MB",
    ),
    "half of its launches end early": (nothing, sometimes(0.6, user_s=0.01), "of 10 launches)"),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHER)
def test_programs_that_do_other_work_are_not_comparable_and_say_why(name: str) -> None:
    base, here, words = OTHER[name]
    found, reason = verdict(base, here)
    assert found is Verdict.NOT_COMPARABLE
    assert words in reason


def varied(name: str, low: float, high: float, **more: Any) -> Changes:
    return lambda chance: {name: chance.uniform(low, high), **more}


def text(chance: Random) -> Mapping[str, Any]:
    """Return an output that is never the same: times, dates, random numbers."""
    word = str(chance.random())
    return {"output": word, "words": word, "output_bytes": chance.randint(3_900, 4_100)}


def solver(chance: Random) -> Mapping[str, Any]:
    """Return what a solver does that needs more or fewer iterations: all of it varies together."""
    steps = chance.uniform(0.5, 2.0)
    return {"user_s": steps, "sent_bytes": 4e6 * steps, "written_bytes": 4e6 * steps + 9e3, **text(chance)}


def lines(chance: Random) -> Mapping[str, Any]:
    return {"output_lines": chance.randint(20, 200), **text(chance)}


def heavy(name: str) -> Changes:
    return lambda chance: {name: 1e6 * chance.lognormvariate(0.0, 1.5)}


def pool(chance: Random) -> Mapping[str, Any]:
    return {"threads": float(chance.randint(4, 40))}


SAME: Mapping[str, tuple[Changes, Changes]] = {
    "exactly the same": (nothing, nothing),
    "times in the output": (text, text),
    "an iterative solver": (solver, solver),
    "as many lines as it likes": (lines, lines),
    "a random amount is written": (varied("written_bytes", 1e3, 1e8),) * 2,
    "a random amount is read": (varied("read_bytes", 1e3, 1e8),) * 2,
    "heavy-tailed files": (heavy("written_bytes"),) * 2,
    "heavy-tailed inputs": (heavy("read_bytes"),) * 2,
    "random messages": (heavy("sent_bytes"),) * 2,
    "a pool of threads that grows": (pool, pool),
    "no output at all": (always(output_lines=0, output="", words=""),) * 2,
    "rarely a long run": (sometimes(0.1, user_s=20.0),) * 2,
    "rarely a short run": (sometimes(0.1, user_s=0.2),) * 2,
    "rarely no file": (sometimes(0.2, written_bytes=100.0),) * 2,
    "tiny": (always(user_s=1e-4, threads=0.0, written_bytes=20.0, read_bytes=390.0),) * 2,
    "paths in the output": (nothing, always(output="other", words="same", output_bytes=4_080)),
    "names in the output": (nothing, always(output="other", words="other", output_bytes=4_300)),
    "a longer host name in each line of a log": (nothing, always(written_bytes=11_000.0)),
    "a shorter host name in each line of a log": (nothing, always(written_bytes=7_500.0)),
    "warnings of a library": (nothing, always(written_bytes=12_000.0, output="x", words="x", output_lines=84)),
    "names of services and hosts from longer files": (always(read_bytes=145e3), always(read_bytes=7_500.0)),
    "other files of the system, and other names of them": (
        always(read_bytes=145e3), always(read_bytes=7_500.0, output="x", words="x"),
    ),
    "a larger /etc/passwd": (nothing, always(read_bytes=43_000.0)),
    "a smaller /etc/services": (always(read_bytes=14_000.0), always(read_bytes=11_000.0)),
    "other versions of Python's modules": (always(read_bytes=5e6), always(read_bytes=8e6, output="3.12", words="3.12")),
    "messages by shared memory": (
        always(sent_bytes=1e4, written_bytes=5e7 + 1e4), always(sent_bytes=0.0, written_bytes=5e7),
    ),
    "messages by TCP in place of shared memory": (
        always(sent_bytes=0.0, written_bytes=5e7), always(sent_bytes=4e4, written_bytes=5e7 + 4e4),
    ),
    "an MPI that does not send by write": (always(sent_bytes=2e6, written_bytes=9e3),) * 2,
    "the same BLAS in another version": (
        nothing, always(libraries=("/opt/libopenblasp-r0.3.26.so", "/opt/libmpi.so.40.40.1", "/lib/libc.so.6")),
    ),
    "another C library": (nothing, always(libraries=LIBRARIES[:2])),
    "MPICH under its two names": (
        always(libraries=("/usr/lib/libmpich.so.12.1.5",)), always(libraries=("/opt/lib/libmpi.so.12.2.0",)),
    ),
    "a third more user time": (nothing, always(user_s=2.7)),
    "a third less user time": (nothing, always(user_s=1.4)),
    "ten times the user time": (nothing, always(user_s=20.0)),
    "polling for a slow network": (always(packets=20_000, user_s=3.5), always(packets=20_000, user_s=0.5)),
    "user time that the clock hardly resolves": (varied("user_s", 0.0, 0.012), varied("user_s", 0.0, 0.004)),
    "nothing is known of files": (always(read_bytes=None, written_bytes=None),) * 2,
    "files are known in one place only": (nothing, always(read_bytes=None, written_bytes=None)),
    "sockets are not known": (always(sent_bytes=None, received_bytes=None),) * 2,
    "user time is not known": (nothing, always(user_s=None)),
    "no preloads": (always(preloads=""),) * 2,
    "one more thread": (nothing, always(threads=7.0)),
}  # fmt: skip


@pytest.mark.parametrize("rounds", [2, 10])
@pytest.mark.parametrize("name", SAME)
def test_programs_that_do_the_same_work_are_compared(name: str, rounds: int) -> None:
    for seed in range(2):
        found, reason = verdict(*SAME[name], rounds=rounds, seed=seed)
        assert found is not Verdict.NOT_COMPARABLE, reason


@pytest.mark.parametrize(
    ("program", "reads", "is_other"),
    [("python3", 5e6, False), ("/usr/bin/python3", 5e6, False), ("python3", 500.0, True), ("./app", 5e6, True)],
)
def test_a_python_of_the_image_may_read_more_modules_than_this_machines_and_no_less(
    program: str, reads: float, is_other: bool
) -> None:
    plan, trials = made(always(read_bytes=2e6), always(read_bytes=reads))
    run = replace(PROGRAM, command=(program, "app.py"))
    cells = tuple(
        replace(
            cell,
            workload=run,
            environment=replace(cell.environment, image="debian" if cell.role is Role.ENVIRONMENT else ""),
        )
        for cell in plan.cells
    )
    found = of(summarise(replace(plan, cells=cells), trials, {}), "fast")
    assert (found.verdict is Verdict.NOT_COMPARABLE) == is_other, found.reason


def test_there_are_as_many_kinds_as_the_method_promises() -> None:
    assert len(OTHER) >= 12
    assert len(SAME) >= 40


@pytest.mark.parametrize("rounds", [2, 6])
def test_programs_whose_work_is_random_are_hardly_ever_called_other(rounds: int) -> None:
    def everything(chance: Random) -> Mapping[str, Any]:
        names = ("read_bytes", "written_bytes", "sent_bytes")
        amounts = {name: 1e6 * chance.lognormvariate(0.0, 1.0) for name in names}
        return {**amounts, "user_s": chance.lognormvariate(0.0, 0.5), **pool(chance), **lines(chance)}

    found = [verdict(everything, everything, rounds, seed)[0] for seed in range(50)]
    assert found.count(Verdict.NOT_COMPARABLE) <= 1


def test_it_has_no_figures_no_mark_of_a_verdict_and_the_exit_code_of_cells_without_figures() -> None:
    plan, trials = made(nothing, always(written_bytes=300.0))
    summary = summarise(plan, trials, {})
    assert summary.exit_code == EXIT_CELLS_FAILED
    found = of(summary, "fast")
    assert (found.overhead, found.at_most, found.mean, found.p_value) == (None, None, None, None)
    assert "fast is not comparable: its ranks wrote 300 B" in summary.headline
    assert of(summarise(*made(nothing, nothing), {}), "fast").verdict is Verdict.GAINS


def test_a_program_that_ends_with_0_before_it_has_begun_is_not_comparable() -> None:
    assert NO_MPI.startswith(ENDED_EARLY)
    plan, trials = made(nothing, nothing)
    early = [
        replace(each, outcome=Failed(reason=NO_MPI, status=0), work=None) if each.key.cell.endswith("/fast") else each
        for each in trials
    ]
    found = of(summarise(plan, early, {}), "fast")
    assert found.verdict is Verdict.NOT_COMPARABLE
    assert found.reason.startswith("10 of 10 launches ended with status 0 before MPI_Finalize")
    everywhere = [replace(each, outcome=Failed(reason=NO_MPI, status=0), work=None) for each in trials]
    assert of(summarise(plan, everywhere, {}), "fast", "app").verdict is Verdict.INVALID


def test_one_launch_of_the_baseline_does_not_say_what_it_usually_does() -> None:
    plan, trials = made(nothing, always(written_bytes=300.0), rounds=1)
    alone = [replace(each, work=None) if each.key.cell.endswith("(A/A)") else each for each in trials]
    assert of(summarise(plan, alone, {}), "fast").verdict is Verdict.INCONCLUSIVE
    assert of(summarise(plan, trials, {}), "fast").verdict is Verdict.NOT_COMPARABLE


def test_results_without_it_say_that_it_was_not_recorded_and_are_compared() -> None:
    plan, trials = made(nothing, always(written_bytes=300.0))
    summary = summarise(plan, [replace(each, work=None) for each in trials], {})
    assert summary.manifest["work of launches"] == "not recorded"
    assert of(summary, "fast").verdict is Verdict.GAINS
    assert "work of launches" not in summarise(plan, trials, {}).manifest
    old = read_only(Path(__file__).parents[3] / "data" / "results-0.1.0")
    assert {each.work for each in old.trials} == {None}


def test_terminal_html_markdown_json_and_junit_say_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    plan, trials = made(nothing, always(written_bytes=300.0))
    folder = exports.write(tmp_path / "r", plan, trials)
    assert commands.show_report(folder, tmp_path / "report.html") == EXIT_CELLS_FAILED
    source = exports.source(folder)
    document = json_format.text(source)
    page = (tmp_path / "report.html").read_text()
    for written in (capsys.readouterr().out, page, document, markdown.text(source), junit.text(source)):
        assert "not comparable" in written
        assert "wrote 300 B, the baseline" in " ".join(written.split())
    assert explain_results(ExplainOptions(results=folder)) == 0
    assert "app 2n x 1r / fast is not comparable: its ranks wrote 300 B" in capsys.readouterr().out
    explain_results(ExplainOptions(results=folder, as_json=True))
    (unlike,) = json.loads(capsys.readouterr().out)["not_comparable"]
    assert (unlike["group"], unlike["environment"]) == ("app 2n x 1r", "fast")
    assert unlike["reason"].startswith("its ranks wrote 300 B")
    verdicts = {each["environment"]: each["verdict"] for each in json.loads(document)["summary"]["comparisons"]}
    assert verdicts["fast"] == "not comparable"


def test_it_is_stored_and_impossible_work_is_refused() -> None:
    _, (trial, *_) = made(nothing, nothing)
    assert decode(Trial, encode(trial)).work == trial.work
    assert trial.work is not None
    wrong = replace(trial, work=replace(trial.work, written_bytes=-1.0))
    with pytest.raises(ValueError, match="written_bytes is -1"):
        check_trial(wrong)
    assert sound_trial(wrong).work is None
