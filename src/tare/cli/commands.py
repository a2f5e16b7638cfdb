"""What the commands do, in the order of a study: plan, run, report, clean."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console

from tare import study
from tare.agent import clean
from tare.cli import session
from tare.cli.options import PlanOptions, RunOptions
from tare.cli.output import say, writing
from tare.cli.session import folder_of, measured_round_s, plan_text, too_few_rounds
from tare.cli.started_from import FACT, StartedIn, changed_programs, restarted_in
from tare.cli.usage import given_command, worded
from tare.clusters import CLUSTERS, ssh_clean
from tare.errors import EXIT_DONE, EXIT_INFRASTRUCTURE, EXIT_UNFINISHED, EXIT_USAGE, RefusedError
from tare.model import Plan, Study, Summary
from tare.model.text import counted, printable
from tare.mpi import MPIS, SITE, USUAL
from tare.report import BriefReport, html_parts, render
from tare.report.live import Live
from tare.run.progress import Progress, Watcher
from tare.store.results import PLAN
from tare.store.writer import Results, Store, read_only
from tare.study.feasibility import programs
from tare.study.feasibility.study_files import StudyFiles
from tare.study.plan import grants
from tare.study.plan.cells import available
from tare.study.plan.thin import thin
from tare.system.safe_files import write_output, write_whole
from tare.workloads import program_places

PAGE: Final = "report.html"
"""The HTML report in a results folder, which `tare run` writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """The cluster that a command names for a study, and its hosts."""

    cluster: str | None = None
    hosts: tuple[str, ...] = ()
    ssh_config: str = ""
    launcher: str = ""

    @classmethod
    def of(cls, cluster: str | None, hosts: str, ssh_config: str, launcher: str = "") -> Where:
        """Return what the options say: hosts alone mean the cluster that takes them."""
        listed = tuple(host.strip() for host in hosts.split(",") if host.strip())
        takes_hosts = next((name for name, member in CLUSTERS.items() if member.takes_hosts), None)
        named = cluster or (takes_hosts if listed else None)
        return cls(cluster=named, hosts=listed, ssh_config=ssh_config, launcher=launcher)

    def nodes(self, usual: int) -> int:
        """Return the number of nodes if none is asked for: the hosts, one machine as it is, or as many as usual."""
        return len(self.hosts) or (1 if self.is_this_machine else usual)

    @property
    def is_this_machine(self) -> bool:
        """Return whether the cluster that is named is this machine as it is."""
        member = CLUSTERS.get(self.cluster or "")
        return member is not None and member.is_real and member.is_here

    def mpi(self, asked: str) -> str:
        """Return the MPI that is asked for, else the usual one; on a machine that lacks it, the one on PATH."""
        if asked or not self.is_this_machine or MPIS[USUAL].probe() is None or MPIS[SITE].probe() is not None:
            return asked or USUAL
        say(f"tare: starting ranks by {MPIS[SITE].version()}, which is on PATH (--mpi {SITE})")
        return SITE

    def moved(self, stated: Study) -> Study:
        """Return a study moved here."""
        return study.moved(stated, self.cluster, self.hosts, self.ssh_config, self.launcher)

    def load(self, path: Path, rounds: int = 0) -> Study:
        """Return the study of a file, moved here, with so many `rounds` in place of its own."""
        stated = self.moved(study.load(path))
        if not rounds:
            return stated
        return replace(stated, repetition=replace(stated.repetition, rounds=rounds, max_rounds=rounds))


def loaded(asked: PlanOptions | RunOptions, rounds: int = 0) -> Study:
    """Return the study that a command is asked for: moved to the cluster that its options name, thin if they say so."""
    where = Where.of(asked.cluster, asked.hosts, asked.ssh_config, asked.launcher)
    return thin(where.load(asked.study)) if asked.thin else where.load(asked.study, rounds)


def show_plan(asked: PlanOptions) -> int:
    """Print the plan of a study file; return the exit code, or raise `RefusedError`, as `tare run` would."""
    stated = loaded(asked)
    plan = session.make_plan(stated, say)
    plan = programs.looked_into(plan, programs.folders_of(plan))
    parts = (plan_text(plan, measured_round_s(plan)), too_few_rounds(stated), grants.in_words(grants.grants(stated)))
    print(printable("\n\n".join(filter(None, parts)), lines=True))
    if available(plan):
        return EXIT_DONE
    say(f"tare: {session.NO_CELL}: the plan says why")
    return EXIT_USAGE


def run_study(asked: RunOptions) -> int:
    """Run a study file, or some of its rounds, and return the exit code of its results."""
    stated, most = loaded(asked, asked.rounds), asked.at_most or None
    return run_plan(stated, asked.results, fresh=asked.fresh, most_rounds=most, live=asked.live, quiet=asked.quiet)


def run_plan(
    stated: Study,
    results: Path | None,
    *,
    fresh: bool = False,
    plan: Plan | None = None,
    shown: tuple[str, ...] = (),
    most_rounds: int | None = None,
    live: bool = False,
    quiet: bool = False,
) -> int:
    """Run a study, print its tables, write its HTML report, and return the exit code of its results.

    `plan` is the study's, if it has been made already; `shown` are folders that the pods see besides the writable one.
    With `live` the report is renewed meanwhile; if `quiet`, no progress is printed.
    The user's commands work in the writable folder, else in that of the study's file.
    """
    here, writable = Path.cwd(), stated.writable
    if writable:
        program_places.check_can_be_shown(writable, "the writable folder")
        if not Path(writable).is_dir():
            raise RefusedError(f"writable: there is no folder {writable}", remedy="make it, or name another one")
        shown = tuple(dict.fromkeys((*shown, writable)))
    place = stated.folder if any(workload.command for workload in stated.workloads) else ""
    started = StartedIn(folder=writable or place or str(here), shown=shown, writable=writable)
    folder = results or folder_of(stated)
    if Path(started.folder) != here:
        folder = here / folder
    with started.entered():
        plan, files = _ready(plan or session.make_plan(stated, say), started, here)
        session.check_available(plan)
        with Store.create_or_open(folder, plan, session.facts(plan, files), fresh=fresh) as store:
            store.note_facts(**{FACT: started})
            _tell_resumed(store)
            if images := ", ".join(dict.fromkeys(filter(None, (cell.environment.image for cell in available(plan))))):
                say(f"tare: containers start from the image {images}")
            if few := too_few_rounds(stated):
                say(f"tare: {few}")
            _tell_others()
            summary = partial(session.summary_of, store, folder)
            if live:
                say(f"tare: the report so far, renewed between launches; open it in a browser: {folder / PAGE}")
            following = Live(plan, store, folder / PAGE, summary, quiet=quiet) if live else Progress(plan, quiet=quiet)
            with following as watcher:
                ending = session.execute(plan, store, files, watcher, say, most_rounds=most_rounds)
            status = _report(store, folder / PAGE, write_whole).exit_code
        if ending.reason:
            say(f"tare: the study is not complete: {ending.reason}; run the same command again to resume")
        return EXIT_UNFINISHED if ending.time_is_up else status


def measure(
    stated: Study,
    folder: Path,
    follow: Callable[[Watcher, Plan], AbstractContextManager[Watcher]] = lambda watcher, _plan: nullcontext(watcher),
    *,
    of: Results,
    fresh: bool = False,
) -> None:
    """Run a study that another command made of results, without a report; it is started where theirs was.

    Results of another study in its folder are put aside. `follow` provides another watcher for the run; with `fresh`,
    results of the same study are put aside, too.
    """
    here, folder = Path.cwd(), folder.absolute()
    started = StartedIn.recorded(of.facts) or StartedIn(folder=str(here))
    with started.entered():
        plan, files = _ready(session.make_plan(stated, say), started, here)
        facts = session.facts(plan, files)
        for name in changed_programs(of.facts, facts):
            say(f"tare: {name} is not the file that these results were measured with: it was changed or built again")
        stale = (folder / PLAN).exists() and (fresh or read_only(folder).plan.digest != plan.digest)
        with (
            Store.create_or_open(folder, plan, facts, fresh=stale) as store,
            Progress(plan) as progress,
            follow(progress, plan) as watcher,
        ):
            session.execute(plan, store, files, watcher, say)


def _ready(plan: Plan, started: StartedIn, here: Path) -> tuple[Plan, StudyFiles]:
    """Return a plan and its files, which show pods the folders of programs and those of `started`."""
    session.check_available(plan)
    visible = tuple(dict.fromkeys((*started.shown, *programs.folders_of(plan))))
    carried = partial(restarted_in, here)
    plan, files = session.make_ready(plan, say, shown=visible, cwd=started.writable, carried=carried)
    reasons = {key: worded(reason, given_command()) for key, reason in plan.unavailable.items()}
    return replace(plan, unavailable=reasons), files


def _tell_others() -> None:
    """Report another run: its lab is separate from this one, but it uses the same machine."""
    if beside := clean.running_beside():
        numbers = ", ".join(map(str, beside))
        say(f"tare: another lab is up (process {numbers}): it shares this study's cores and disturbs its figures")


def show_report(folder: Path, html: Path | None, figures: Path | None = None, *, details: bool = False) -> int:
    """Print the report of a results folder, and write its HTML and its figures where asked."""
    results = read_only(folder, skip_damaged=True)
    summary = _report(results, html, details=details)
    if figures is not None:
        _write_figures(summary, results, figures)
    return summary.exit_code


def renew_page(folder: Path) -> None:
    """Write the HTML report of a results folder again, if it has one: there may be causes now."""
    page = folder / PAGE
    if not page.exists():
        return
    results = read_only(folder, skip_damaged=True)
    summary = session.summary_of(results, folder)
    write_whole(page, html_parts(summary, results.trials, results))
    say(f"tare: the causes are in the report: {page}")


def _write_figures(summary: Summary, results: Results, folder: Path) -> None:
    """Write every figure of the report to a folder."""
    from tare.report.html import figures_of
    from tare.report.plots.files import write_figures

    with writing("the figures", folder, "folder with --figures"):
        count = write_figures(figures_of(summary, results.trials, results), folder)
    print(f"figures: {count} in {folder}, each as SVG and PDF")


def show_clean(*, dry_run: bool, running: bool = False, forget: Sequence[str] = ()) -> int:
    """Remove all that carries our mark and no process keeps up, or only list it; return the exit code.

    With `running`, runs that live are ended, too. Hosts to `forget` are not asked again.
    """
    killed = () if dry_run else ssh_clean.killed_runs()
    answers = ssh_clean.ask_hosts(killed, forget)
    found = clean.find(running=running) if dry_run else clean.remove(running=running)
    ssh_clean.keep_unverified(killed, answers)
    for item in found:
        print(f"{'left' if item.stays else 'would remove' if dry_run else 'removed'} {item.what}")
    for answer in answers:
        for what in answer.removed:
            print(printable(f"removed {what}{answer.place}"))
        if answer.unverified:
            say(f"tare: {answer}")
    for stays in dict.fromkeys(item.stays for item in found if item.stays):
        say(f"tare: {stays}")
    for folder in clean.unmarked():
        say(f"tare: left alone: the cgroup {folder} was not created by tare with this state folder")
    for lab, pid in () if running else clean.living_owners().items():
        say(f"tare: left alone: {lab}, which process {pid} keeps up; `tare clean --running` ends it")
    if not found:
        print("nothing to remove")
    is_left = any(item.stays for item in found) or any(answer.unverified for answer in answers)
    return EXIT_INFRASTRUCTURE if is_left else EXIT_DONE


def _report(
    results: Results,
    html: Path | None,
    write: Callable[[Path, Iterable[str]], None] = write_output,
    *,
    details: bool = False,
) -> Summary:
    """Print the first screen or all `details`, write the HTML report, and return what is in them.

    `write` is `write_whole` for the page of a results folder.
    """
    summary = session.summary_of(results, results.path)
    more = shlex.join(("tare", "report", str(results.path), "--details"))
    shown = render(summary) if details else BriefReport(summary=summary, details=more)
    Console().print(shown)
    if html is None:
        return summary
    page = html_parts(summary, results.trials, results)
    with writing("the report", html, "file with --html"):
        write(html, page)
    print(f"report: {html}")
    return summary


def _tell_resumed(store: Store) -> None:
    if store.count:
        broken = f", {counted(store.interrupted, 'interrupted block')} to run again" if store.interrupted else ""
        torn = f", {counted(store.truncated, 'torn line')} archived" if store.truncated else ""
        say(f"resuming {store.path}: {counted(store.count, 'trial')} done{broken}{torn}")
