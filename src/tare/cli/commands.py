"""What the commands do, in the order of a study: plan, run, report, clean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console

from tare import stats, study
from tare.cli import session
from tare.cli.output import say, writing
from tare.cli.started_in import FACT, StartedIn, changed_programs, restarted_in
from tare.cluster import CLUSTERS, ssh_clean
from tare.deploy.study_files import StudyFiles
from tare.errors import EXIT_DONE, EXIT_INFRASTRUCTURE, EXIT_UNFINISHED, EXIT_USAGE, RefusedError, ResultsError
from tare.feasibility import programs
from tare.host.safe_files import write_output, write_whole
from tare.live import Door, watched
from tare.model import Cell, Plan, Study, Summary
from tare.model.text import bytes_label, counted, printable
from tare.node_service import clean
from tare.plan import composition, grants, pace, resources, unavailable
from tare.plan.cells import available, estimate_trial_s
from tare.plan.thin import thin
from tare.report import laying_out, render
from tare.report.samples.counting import CountsOf, count_here, counting
from tare.run.progress import Progress, Watcher, duration
from tare.store.cycles import without_cycle_search
from tare.store.results import PLAN
from tare.store.writer import Results, Store, read_only
from tare.workloads import located, plugin_of

RESULTS_FOLDER = Path("results")
THIN_FOLDER: Final = "-thin"
PAGE: Final = "report.html"
"""The HTML report in a results folder, which `tare run` writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """The cluster that a command names for a study, and its hosts."""

    cluster: str | None = None
    hosts: tuple[str, ...] = ()
    ssh_config: str = ""
    launcher: str = ""
    rounds: int = 0
    thin: bool = False

    @classmethod
    def of(
        cls,
        cluster: str | None,
        hosts: str,
        ssh_config: str,
        launcher: str = "",
        rounds: int = 0,
        *,
        thin: bool = False,
    ) -> Where:
        """Return what the options say: hosts alone mean the cluster that takes them."""
        listed = tuple(host.strip() for host in hosts.split(",") if host.strip())
        takes_hosts = next((name for name, member in CLUSTERS.items() if member.takes_hosts), None)
        named = cluster or (takes_hosts if listed else None)
        return cls(cluster=named, hosts=listed, ssh_config=ssh_config, launcher=launcher, rounds=rounds, thin=thin)

    def nodes(self, usual: int) -> int:
        """Return the number of nodes if none is asked for: the hosts, one machine as it is, or as many as usual."""
        member = CLUSTERS.get(self.cluster or "")
        return len(self.hosts) or (1 if member is not None and member.is_real and member.is_here else usual)

    def moved(self, stated: Study) -> Study:
        """Return a study moved here."""
        return study.moved(stated, self.cluster, self.hosts, self.ssh_config, self.launcher)

    def load(self, path: Path) -> Study:
        """Return the study of a file, moved here."""
        stated = self.moved(study.load(path))
        if self.thin:
            return thin(stated)
        if not self.rounds:
            return stated
        return replace(stated, repetition=replace(stated.repetition, rounds=self.rounds, max_rounds=self.rounds))


HERE: Final = Where()
"""The cluster that the study's file names."""


def show_plan(path: Path, where: Where = HERE) -> int:
    """Print the plan of a study file; return the exit code, or raise `RefusedError`, as `tare run` would."""
    stated = where.load(path)
    plan = session.make_plan(stated, say)
    plan = programs.looked_into(plan, programs.folders_of(plan))
    parts = (plan_text(plan, _measured(plan)), too_few_rounds(stated), grants.in_words(grants.grants(stated)))
    print(printable("\n\n".join(filter(None, parts)), lines=True))
    if available(plan):
        return EXIT_DONE
    say(f"tare: {session.NO_CELL}: the plan says why")
    return EXIT_USAGE


def run_study(
    path: Path,
    results: Path | None,
    where: Where = HERE,
    *,
    fresh: bool,
    most_rounds: int | None = None,
    live: bool = False,
) -> int:
    """Run a study file, or at most so many of its rounds, and return the exit code of its results.

    With `live`, browsers can follow it.
    """
    stated = where.load(path)
    shown = (stated.writable,) if stated.writable else ()
    for folder in shown:
        if not Path(folder).is_dir():
            raise RefusedError(f"writable: there is no folder {folder}", remedy="make it, or name another one")
        located.check_can_be_shown(folder, "the writable folder")
    with Door.open() if live else nullcontext() as door:
        return run_plan(
            stated, results, fresh=fresh, shown=shown, writable=stated.writable, most_rounds=most_rounds, door=door
        )


def run_plan(
    stated: Study,
    results: Path | None,
    *,
    fresh: bool = False,
    shown: tuple[str, ...] = (),
    writable: str = "",
    most_rounds: int | None = None,
    door: Door | None = None,
) -> int:
    """Run a study, print its tables, write its HTML report, and return the exit code of its results.

    `shown` are folders that the pods see, read-only but for `writable`, in which commands then work. `door` is where
    browsers can follow the run. The user's commands work in the folder of the study.
    """
    here = Path.cwd()
    place = stated.folder if any(workload.command for workload in stated.workloads) else ""
    started = StartedIn(folder=writable or place or str(here), shown=shown, writable=writable)
    if door is not None and not door.carried:
        say(f"tare: live page, answers between launches: {door.url}")
    folder = results or _folder_of(stated)
    if Path(started.folder) != here:
        folder = here / folder
    with started.entered():
        return _run(stated, started, folder, fresh=fresh, most_rounds=most_rounds, door=door, here=here)


def _run(
    stated: Study,
    started: StartedIn,
    folder: Path,
    *,
    fresh: bool,
    most_rounds: int | None,
    door: Door | None,
    here: Path,
) -> int:
    """Run a study whose launches work in the current folder, with the command having been started in `here`."""
    plan, files = _ready(stated, started, partial(_carried, here, door))
    session.check_available(plan)
    with Store.create_or_open(folder, plan, session.facts(plan, files), fresh=fresh) as store:
        store.note_facts(**{FACT: started})
        _tell_resumed(store)
        if few := too_few_rounds(stated):
            say(f"tare: {few}")
        _tell_others()
        summary = partial(session.summary_of, store, folder)
        with Progress(plan) as progress, watched(progress, door, store, summary) as watcher:
            ending = session.execute(plan, store, files, watcher, say, most_rounds=most_rounds)
        with counting(folder) as counts_of:
            status = _report(store, folder / PAGE, write_whole, counts_of).exit_code
    if ending.reason:
        say(f"tare: the study is not complete: {ending.reason}; run the same command again to resume")
    return EXIT_UNFINISHED if ending.time_is_up else status


def _carried(here: Path, door: Door | None) -> Mapping[str, str]:
    """Prepare for the command to start itself again as root of a user namespace; return variables for it."""
    return {**restarted_in(here), **({} if door is None else door.carry())}


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
        plan, files = _ready(stated, started, partial(restarted_in, here))
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


def _ready(stated: Study, started: StartedIn, carried: Callable[[], Mapping[str, str]]) -> tuple[Plan, StudyFiles]:
    """Return the plan of a study and its files, which show pods the folders of programs and those of `started`."""
    plan = session.make_plan(stated, say)
    session.check_available(plan)
    visible = tuple(dict.fromkeys((*started.shown, *programs.folders_of(plan))))
    return session.make_ready(plan, say, shown=visible, cwd=started.writable, carried=carried)


def _tell_others() -> None:
    """Report another run: its lab is separate from this one, but it uses the same machine."""
    if beside := clean.running_beside():
        numbers = ", ".join(map(str, beside))
        say(f"tare: another lab is up (process {numbers}): it shares this study's cores and disturbs its figures")


def show_report(folder: Path, html: Path | None, figures: Path | None = None) -> int:
    """Print the report of a results folder, and write its HTML and its figures where asked."""
    with without_cycle_search(), counting(folder if html else None) as counts_of:
        results = read_only(folder, skip_damaged=True)
        summary = _report(results, html, counts_of=counts_of)
        if figures is not None:
            _write_figures(summary, results, figures)
        return summary.exit_code


def renew_page(folder: Path) -> None:
    """Write the HTML report of a results folder again, if it has one: there may be causes now."""
    page = folder / PAGE
    if not page.exists():
        return
    with without_cycle_search(), counting(folder) as counts_of:
        results = read_only(folder, skip_damaged=True)
        summary = session.summary_of(results, folder)
        with laying_out(summary, results.trials, results, counts_of(results)) as parts:
            write_whole(page, parts())
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


def _folder_of(stated: Study) -> Path:
    """Return the folder for a study's results where none is named."""
    return RESULTS_FOLDER / (f"{stated.name}{THIN_FOLDER}" if stated.thin else stated.name)


def _measured(plan: Plan) -> float | None:
    """Return how long a round of a plan took in the study's own results, None without any that are like it."""
    try:
        results = read_only(_folder_of(plan.study), skip_damaged=True)
        alike = results.plan.digest == plan.digest and available(results.plan) == available(plan)
        return pace.round_s(results.trials) if alike else None
    except ResultsError:
        return None


def _takes(plan: Plan, round_s: float | None) -> str:
    """Return about how long a plan takes, by a round that was measured or by what is known of its workloads."""
    about = f"about {duration(pace.estimated_s(plan, round_s))}"
    if round_s is not None:
        return f"{about}, by the rounds in {_folder_of(plan.study)}"
    launches = [f"{count} launches of {name}" for name, count in pace.unknown(plan).items()]
    return f"{about} and the time of {', '.join(launches)}" if launches else about


def plan_text(plan: Plan, round_s: float | None = None) -> str:
    """Return a plan as text: cells, trials, time, and what cannot run; `round_s` is the time of a round if measured."""
    repeat = plan.study.repetition
    cells = available(plan)
    trials = len(cells) * repeat.rounds * repeat.blocks_per_round
    rounds = f"{counted(repeat.rounds, 'round')} x {counted(repeat.blocks_per_round, 'block')}"
    rounds += f", up to {repeat.max_rounds}" if repeat.max_rounds > repeat.rounds else ""
    dividing = [cell.workload for cell in cells if plugin_of(cell.workload).takes_turns(cell.workload)]
    if repeat.turns > 1 and dividing:
        in_turns = CLUSTERS[plan.study.cluster].takes_turns(plan.study.lab)
        alone = "launches one after the other (pods take no turns)"
        told = f"kernels in {repeat.turns} turns"
        if not all(each.kernels for each in dividing):
            told = f"what divides its work in {repeat.turns} turns"
        rounds += f", {told if in_turns else alone}"
    lines = [
        f"study {plan.study.name}: {len(plan.cells)} cells, {len(cells)} can run here",
        f"{rounds}: {counted(trials, 'trial')}, {_takes(plan, round_s)}",
        _resources(plan, round_s),
        "",
        *(f"  + {cell.key}{_note(plan, cell)}" for cell in cells),
        *(f"  - {line}" for line in unavailable.in_lines(plan)),
    ]
    return "\n".join(lines)


def too_few_rounds(stated: Study) -> str:
    """Return that a study has too few rounds for a verdict, "" if it has enough or decides nothing anyway."""
    most = stated.repetition.max_rounds
    if stated.thin or most >= stats.MIN_ROUNDS:
        return ""
    return (
        f"{most} round{'s' * (most != 1)} can decide nothing: a verdict needs {stats.MIN_ROUNDS} or more; "
        f"set rounds: {stats.MIN_ROUNDS} in the study, or run it with --rounds {stats.MIN_ROUNDS}"
    )


def _resources(plan: Plan, round_s: float | None) -> str:
    """Return what a plan uses, and what it may use."""
    budget = plan.study.repetition.budget_node_hours
    limit = f" of a budget of {budget:g}" if budget is not None else ""
    hours = resources.node_hours(plan, pace.estimated_s(plan, round_s))
    used = f"about {hours:.2g} node-hours{limit} on {counted(resources.nodes_of(plan), 'node')}"
    return f"{used}, up to {bytes_label(resources.peak_disk_bytes(plan) >> 20 << 20)} of disk for images and results"


def _report(
    results: Results,
    html: Path | None,
    write: Callable[[Path, Iterable[str]], None] = write_output,
    counts_of: CountsOf = count_here,
) -> Summary:
    """Print the tables, write the HTML report, and return what is in them.

    `write` is `write_whole` for the page of a results folder; `counts_of` counts the samples.
    """
    summary = session.summary_of(results, results.path)
    if html is None:
        Console().print(render(summary))
        return summary
    with laying_out(summary, results.trials, results, counts_of(results)) as parts:
        Console().print(render(summary))
        page = parts()
    with writing("the report", html, "file with --html"):
        write(html, page)
    print(f"report: {html}")
    return summary


def _tell_resumed(store: Store) -> None:
    if store.count:
        broken = f", {counted(store.interrupted, 'interrupted block')} to run again" if store.interrupted else ""
        torn = f", {counted(store.truncated, 'torn line')} archived" if store.truncated else ""
        say(f"resuming {store.path}: {counted(store.count, 'trial')} done{broken}{torn}")


def _note(plan: Plan, cell: Cell) -> str:
    """Return that a cell that can run needs root or may not end in time."""
    asks = CLUSTERS[plan.study.cluster].needs_root and composition.needs_root(cell.environment, cell.placement)
    root = "  (needs root)" if asks else ""
    expected_s, limit_s = estimate_trial_s(cell), cell.workload.time_limit_s
    if expected_s <= limit_s:
        return root
    return f"{root}  (takes about {duration(expected_s)}, but its time limit is {duration(limit_s)}: raise time_limit)"
