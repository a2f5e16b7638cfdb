"""Run a study: rounds of pods, blocks of trials in random order, each trial proven before it counts.

round: pods up; then per cell: counters -> launch -> counters -> parse -> verify -> proof of treatment -> store.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from tare import asking, caches, job, monitor, proof
from tare.chosen import Chosen
from tare.cluster import CLUSTERS, Needs, Site
from tare.core_watch import CoreWatch, watching
from tare.deploy import Deployed, deployed
from tare.disturbance import is_unsteady
from tare.environment import nic_slots
from tare.errors import TareError
from tare.last_words import last_words
from tare.launch import PADDING, Launch, write_agent, write_map
from tare.model import (
    Caches,
    Cell,
    Completed,
    Environment,
    Failed,
    InterfaceTraffic,
    Interrupted,
    Invalid,
    Outcome,
    Placement,
    Plan,
    RankPlace,
    Trial,
    TrialKey,
)
from tare.namespaces import plain_python
from tare.plan import available, block_order
from tare.pods import Made, made
from tare.process import FLOODED, Result, run
from tare.runtimes import RUNTIMES
from tare.stats import is_look
from tare.still_running import told
from tare.store import Store, attempts, remaining_blocks
from tare.study_files import StudyFiles, import_images
from tare.summary import precise_enough
from tare.symptoms import recognised
from tare.workloads import Began, Parsed, plugin_of
from tare.workloads.output import OutputError

PADDING_LIMIT: Final = 4096
AT_ONCE: Final = 2
"""How often a launch with unsteady cores is made again before the other cells of its block have their turn."""

REPEATS: Final = 20
"""How often it is made again at most, in all turns of its block."""

REPEATS_S: Final = 20.0
"""How long launches are made again, times the cells of a block: those that need it may use what others left."""


class Watcher(Protocol):
    """Is told how a run goes on (a progress bar, or nothing)."""

    def round_started(self, number: int, attempt: int) -> None:
        """Note that a round begins, counted from 0."""

    def trial_ended(self, trial: Trial, done: int, total: int) -> None:
        """Note that a trial is stored, and how many of how many are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A cell's launch, prepared once a round: what is started, where it is watched, how long its pods took.

    `chosen` is what the MPI's library took by its own words, where it was asked.
    """

    cell: Cell
    deployed: Deployed
    launch: Launch
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    places: tuple[monitor.Place, ...]
    pods_s: float
    chosen: Chosen | None = None


Tried = tuple[Trial, Mapping[str, object]]
"""A trial that is not stored yet, and its samples."""


@dataclass(slots=True, kw_only=True)
class Patience:
    """For how much longer launches of a block may be made again because the machine's cores were unsteady."""

    left_s: float

    def allows(self, cell: Cell, noise: Mapping[str, float], elapsed_s: float) -> bool:
        """Tell whether a launch that was so noisy and so long is made again; a start-up would find other caches."""
        return (
            is_unsteady(noise)
            and noise["repeated"] < REPEATS
            and elapsed_s < self.left_s
            and cell.workload.startup is None
        )


@dataclass(slots=True, kw_only=True)
class Run:
    """A study on a site that is up."""

    plan: Plan
    store: Store
    site: Site
    files: StudyFiles
    watcher: Watcher
    agent: Path
    cores: CoreWatch
    broken: dict[str, str] = field(default_factory=dict)
    keepers: frozenset[int] = frozenset()

    def blocks(self) -> None:
        """Run what is still to run, until the study is precise enough, its rounds or its budget are used up."""
        started = time.monotonic()
        repeat = self.plan.study.repetition
        while True:
            left = list(remaining_blocks(self.plan, self.store.trials, rounds=self._rounds_wanted()))
            if not left:
                return
            this_round = left[0][0]
            self._round(this_round, [key for key in left if key[0] == this_round])
            if repeat.budget_s is not None and time.monotonic() - started > repeat.budget_s:
                return

    def _rounds_wanted(self) -> int:
        """Return how many rounds are wanted by what is known now; looks only where a look is due."""
        repeat = self.plan.study.repetition
        rounds = repeat.rounds
        while rounds < repeat.max_rounds and not next(
            remaining_blocks(self.plan, self.store.trials, rounds=rounds), None
        ):
            if is_look(rounds, repeat) and precise_enough(self.plan, self.store.trials):
                return rounds
            rounds += 1
        return rounds

    def _round(self, round_: int, blocks: list[tuple[int, int, int]]) -> None:
        self.watcher.round_started(round_, blocks[0][2])
        with ExitStack() as stack:
            ready = self.pods(stack)
            self.site.settle()
            job.wait_for_carriers(each.deployed for each in ready.values())
            pairs = [(each.cell, each.deployed) for each in ready.values()]
            answers = asking.answers(self.site, pairs, self.agent, self.keepers)
            ready = {key: replace(each, chosen=answers.get(asking.pair_of(each.cell))) for key, each in ready.items()}
            for _, block, attempt in blocks:
                self._block(ready, [
                    TrialKey(cell=cell, round=round_, block=block, attempt=attempt)
                    for cell in block_order(self.plan, round_, block, attempt)
                ])  # fmt: skip

    def _block(self, ready: Mapping[str, Ready], keys: Sequence[TrialKey]) -> None:
        """Run the trials of a block in their order; those with unsteady cores again at its end, while patience lasts.

        A trial is stored once it counts. What still waits for its turn when a run is broken off is stored as it is.
        """
        patience = Patience(left_s=REPEATS_S * len(keys) if self.plan.study.repetition.reruns else 0.0)
        turns, waiting = list(enumerate(keys)), dict[TrialKey, Tried]()
        try:
            while turns:
                again = []
                for position, key in turns:
                    one = ready.get(key.cell)
                    before = waiting.get(key)
                    trial, samples = self._tried(key, position, one, patience, repeated_in(before))
                    waiting[key] = trial, samples
                    if one is not None and made_again(one, trial, patience):
                        again.append((position, key))
                    else:
                        self._store(*waiting.pop(key))
                turns = again
        finally:
            for tried in waiting.values():
                self._store(*tried)

    def pods(self, stack: ExitStack) -> dict[str, Ready]:
        """Make the pods of every environment and placement anew; what fails is remembered with its reason."""
        self.broken.clear()
        cells = available(self.plan)
        slots = nic_slots((cell.environment, cell.placement) for cell in self.plan.cells)
        found: dict[tuple[Environment, Placement], Made[Deployed] | str] = {}
        ready: dict[str, Ready] = {}
        for cell in cells:
            pair = (cell.environment, cell.placement)
            if pair not in found:
                found[pair] = self._deploy(stack, *pair, slot=len(found), nic=slots[pair])
            up = found[pair]
            if isinstance(up, str):
                self.broken[cell.key] = up
            else:
                ready[cell.key] = self._prepare(cell, up, number=len(ready))
        self.keepers = frozenset(pid for each in ready.values() for pid in job.keepers_of(each.deployed))
        return ready

    def _deploy(
        self, stack: ExitStack, environment: Environment, placement: Placement, *, slot: int, nic: int
    ) -> Made[Deployed] | str:
        inner = ExitStack()
        make = partial(
            deployed, self.site, environment, placement, slot=slot, nic=nic, files=self.files.of(environment)
        )
        pair = (environment, placement)
        wanted = {each.workload.startup for each in available(self.plan) if (each.environment, each.placement) == pair}
        try:
            up = made(make, inner, wanted)
        except TareError as error:
            inner.close()
            return f"its pods could not be made: {error.message}"
        stack.enter_context(inner)
        return up

    def _prepare(self, cell: Cell, made: Made[Deployed], *, number: int) -> Ready:
        up = made.up
        launch = job.make_launch(self.site, cell, up)
        path = self.site.folder / f"launch-{number}.json"
        write_map(launch, path)
        return Ready(
            cell=cell,
            deployed=up,
            launch=launch,
            argv=launch.argv(str(self.agent)),
            environment={
                **job.head_environment(self.site, cell.environment, up, self.agent),
                "TARE_LAUNCH_MAP": str(path),
            },
            places=tuple(
                monitor.Place(node=side.pod.node, pid=side.pod.pid, watches=side.endpoint.watches, host=side.pod.host)
                for side in up.sides
            ),
            pods_s=made.took_s[cell.workload.startup],
        )

    def trial(self, key: TrialKey, position: int, ready: Ready | None) -> None:
        """Run one trial and store it."""
        self._store(*self._tried(key, position, ready, Patience(left_s=0.0), 0))

    def _tried(self, key: TrialKey, position: int, ready: Ready | None, patience: Patience, repeated: int) -> Tried:
        """Run one trial; where its pods could not be made, or have ended since, it is that."""
        started = time.time()
        missing = self.broken.get(key.cell, "it was not made") if ready is None else job.gone(ready.deployed)
        if ready is None or missing:
            failed = Failed(reason=missing or "it was not made")
            trial = Trial(key=key, position=position, started_unix_s=started, elapsed_s=0.0, outcome=failed)
            return trial, {}
        padding = random.Random(f"{self.plan.study.seed}/{key}").randrange(PADDING_LIMIT)
        dropped = self._set_caches(ready, padding)
        kills = job.memory_kills(ready.deployed)
        result, before, after, noise = self._launched(ready, padding, patience, repeated)
        if result.status != 0:
            job.end_strays(ready.deployed, self.keepers)
        traffic = monitor.traffic(ready.places, before, after)
        outcome, parsed = judge(ready, result, traffic)
        if hit := job.memory_hit(ready.deployed, kills):
            outcome = Failed(reason=hit, status=result.status, stderr_tail=result.stderr_tail)
        if isinstance(outcome, Failed) and (missing := job.gone(ready.deployed)):
            outcome = replace(outcome, reason=f"{missing} while the launch ran ({outcome.reason})")
        trial = Trial(
            key=key,
            position=position,
            started_unix_s=started,
            elapsed_s=result.elapsed_s,
            outcome=outcome,
            argv=ready.argv,
            startup_s=startup(ready.pods_s, result, parsed),
            ranks=_told(parsed, ready.deployed) if parsed else (),
            traffic=traffic,
            counters={**monitor.counters(before, after), **dropped, "environment_padding_bytes": padding},
            mpi_library=parsed.mpi_library if parsed else "",
            noise=noise,
            facts=ready.deployed.facts | ({"transport": ready.chosen.words} if ready.chosen else {}),
        )
        return trial, dict(parsed.samples) if parsed else {}

    def _launched(
        self, ready: Ready, padding: int, patience: Patience, repeated: int
    ) -> tuple[Result, monitor.Reading, monitor.Reading, dict[str, float]]:
        """Run a launch, and again where the cores were unsteady meanwhile; return the last, its readings and noise.

        It was `repeated` so often before.
        """
        last = repeated + AT_ONCE
        while True:
            before = monitor.read(ready.places, self.site.usage_s())
            result = run_launch(ready, padding, self.site)
            after = monitor.read(ready.places, self.site.usage_s())
            cores = self.cores.during(result.began_s, result.began_s + result.elapsed_s)
            noise = {**monitor.noise(before, after), **cores, "repeated": repeated}
            if repeated:
                patience.left_s -= result.elapsed_s
            if result.status != 0 or repeated == last or not patience.allows(ready.cell, noise, result.elapsed_s):
                return result, before, after, noise
            repeated += 1

    def _set_caches(self, ready: Ready, padding: int) -> dict[str, float]:
        """Bring the machine's caches into the state that a start-up wants; return what is recorded of it.

        Warm is what a launch leaves that goes before and counts for nothing: a cold one of another cell may have been
        the last. What that launch has to say it would say again.
        """
        wanted = ready.cell.workload.startup
        if wanted is Caches.COLD:
            caches.drop()
            return {"caches_dropped": 1}
        if wanted is Caches.WARM and run_launch(ready, padding, self.site).status != 0:
            job.end_strays(ready.deployed, self.keepers)
        return {}

    def _store(self, trial: Trial, samples: Mapping[str, object]) -> None:
        stored = self.store.append(trial, samples)  # type: ignore[arg-type]
        total = len(available(self.plan)) * self._rounds_wanted() * self.plan.study.repetition.blocks_per_round
        self.watcher.trial_ended(stored, self._done(), total)

    def _done(self) -> int:
        """Return how many trials are done, those of blocks that were run again counted once."""
        found = attempts(self.store.trials)
        last = (cells for (round_, block, attempt), cells in found.items() if (round_, block, attempt + 1) not in found)
        return sum(not isinstance(trial.outcome, Interrupted) for cells in last for trial in cells.values())


def repeated_in(before: Tried | None) -> int:
    """Return how many launches did not count once a trial that was tried before is tried again."""
    return int(before[0].noise["repeated"]) + 1 if before else 0


def made_again(ready: Ready, trial: Trial, patience: Patience) -> bool:
    """Tell whether a trial gets another turn at the end of its block."""
    failed = isinstance(trial.outcome, Failed)
    return not failed and patience.allows(ready.cell, trial.noise, trial.elapsed_s)


def _told(parsed: Parsed, up: Deployed) -> tuple[RankPlace, ...]:
    """Return what ranks told of themselves, held against their nodes."""
    ranks = job.with_core_sharers(job.with_node_namespaces(parsed.ranks, up), up)
    return job.with_limits(job.with_surroundings(ranks, up), up)


@contextmanager
def running(plan: Plan, store: Store, files: StudyFiles, watcher: Watcher, *, name: str) -> Iterator[Run]:
    """Bring the cluster of a study up and yield its run."""
    cluster = CLUSTERS[plan.study.cluster]
    with cluster.open(name, plan.study.lab, needs(plan, files.seen_by_nodes)) as site:
        agent = write_agent(site.folder, plain_python())
        import_images(site.daemon_nodes, files.every)
        with watching(site, files.every[0].host_prefix / "bin" / "tare-cores") as cores:
            yield Run(plan=plan, store=store, site=site, files=files, watcher=watcher, agent=agent, cores=cores)


def needs(plan: Plan, shown: tuple[str, ...] = ()) -> Needs:
    """Return what a plan's cells need of their cluster."""
    cells = available(plan)
    slots = nic_slots((cell.environment, cell.placement) for cell in plan.cells)
    return Needs(
        nics=1 + max(slots.values(), default=0),
        docker=any(RUNTIMES[c.environment.runtime].needs_daemon for c in cells),
        swarm=any(c.environment.network == "overlay" for c in cells),
        store=any(c.environment.network == "overlay-etcd" for c in cells),
        shown=shown,
    )


def run_launch(ready: Ready, padding: int, site: Site) -> Result:
    """Run a launch to its end or its time limit."""
    before = site.pids()
    environment = {**os.environ, **ready.environment, PADDING: "x" * padding}
    # MPI starts ranks in its own folder, where that is on their node; our programs need none.
    cwd = None if ready.cell.workload.command else Path("/")
    limit_s = ready.cell.workload.time_limit_s
    return run(
        ready.argv,
        env=environment,
        timeout_s=limit_s,
        cwd=cwd,
        check=False,
        started=site.adopt,
        at_limit=lambda: told(site.pids() - before),
    )


def judge(ready: Ready, result: Result, traffic: tuple[InterfaceTraffic, ...]) -> tuple[Outcome, Parsed | None]:
    """Return the outcome of a launch and what it said."""
    limit = ready.cell.workload.time_limit_s
    tail = result.stderr_tail
    said = "".join(f": {words}" for words in (last_words(result.stderr), recognised(result.stderr)) if words)
    if result.timed_out:
        names, _, each = result.at_limit.partition("\n")
        still = f"; still running were {names}" if names else ""
        reason = f"it did not end within its time limit of {limit:g} s{still}"
        return Failed(reason=reason, stderr_tail=f"{tail}\n{each}".strip()), None
    if result.flooded:
        return Failed(reason=f"it {FLOODED}", status=result.status, stderr_tail=tail), None
    try:
        began = Began(launched_s=result.began_s, ended_s=result.began_s + result.elapsed_s, pods_s=ready.pods_s)
        parsed = plugin_of(ready.cell.workload).parse(ready.cell.workload, result.stdout, began)
    except OutputError as error:
        reason = f"it ended with status {result.status}" if result.status else str(error)
        return Failed(reason=f"{reason}{said}", status=result.status, stderr_tail=tail), None
    if parsed.wrong:
        return Failed(reason=f"wrong data in {', '.join(parsed.wrong)}", status=result.status, stderr_tail=tail), parsed
    if result.status != 0:
        reason = f"it ended with status {result.status}{said}"
        return Failed(reason=reason, status=result.status, stderr_tail=tail), parsed
    untreated_because = untreated(ready, parsed, traffic, said_bytes=len(result.stdout))
    if untreated_because:
        return Invalid(reason=untreated_because), parsed
    return Completed(metrics=parsed.metrics, figures=parsed.figures), parsed


def untreated(ready: Ready, parsed: Parsed, traffic: tuple[InterfaceTraffic, ...], *, said_bytes: int) -> str | None:
    """Return why the treatment is not proven, or None."""
    placement = ready.cell.placement
    nodes = [side.pod.node for side in ready.deployed.sides]
    if ready.cell.environment.runtime == "fake":
        return None
    return (
        (ready.chosen.reason if ready.chosen else None)
        or proof.check_places(parsed.ranks, placement, nodes=nodes)
        or proof.check_transport(parsed.ranks)
        or proof.check_traffic(traffic, parsed.payload, said_bytes=said_bytes, ranks=placement.ranks)
    )


def startup(pods_s: float, result: Result, parsed: Parsed | None) -> dict[str, float]:
    """Return the start-up cost, apart from the measured section; the pods are those of the round."""
    if parsed is None:
        return {"pods_s": pods_s}
    launch_s = max(0.0, result.elapsed_s - parsed.measured_s)
    return {"pods_s": pods_s, "mpi_init_s": parsed.init_s, "launch_s": launch_s}
