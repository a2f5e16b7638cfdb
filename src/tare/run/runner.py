"""Run a study: rounds of pods, blocks of trials in random order; a trial counts only once its treatment is proved.

round: pods up; then per cell: counters -> launch -> counters -> parse -> verify -> proof of treatment -> store.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Final

from tare.agent.remote.conversation import Unreachable
from tare.analysis.stats import is_look
from tare.analysis.summary import study_is_precise_enough
from tare.analysis.summary.disturbance import repeats_left, wants_repeat
from tare.analysis.summary.select import select
from tare.analysis.summary.warnings import crowded_fact
from tare.clusters import Site
from tare.errors import TareError
from tare.model import (
    Caches,
    Cell,
    Completed,
    Environment,
    Failed,
    Metric,
    Placement,
    Plan,
    Trial,
    TrialKey,
)
from tare.mpi.launch import write_agent
from tare.run import facts, in_turns, on_node, transport_probe
from tare.run.core_watch import CoreWatch, watching
from tare.run.deploy.hosts import Deployed
from tare.run.deploy.pods import deployed
from tare.run.deploy.timing import TimedDeployment, made
from tare.run.ending import Ending
from tare.run.job import looked_at
from tare.run.outcome import Pair, ReadyCell, judge, proof_gaps, run_launch
from tare.run.progress import Watcher
from tare.run.site import opened, services_of
from tare.run.trial import Launched, failed_trial, in_the_same_passes, trial_of
from tare.store.writer import Store
from tare.study.feasibility.study_files import StudyFiles
from tare.study.plan import calibration
from tare.study.plan.cells import available, block_order
from tare.study.plan.composition import nic_slots
from tare.system.counters import monitor, values
from tare.system.fault import reach
from tare.system.namespaces import plain_python
from tare.system.process import Result
from tare.workloads import plugin_of
from tare.workloads.kernel_order import in_order

__all__ = ["PADDING_LIMIT", "Launched", "Run", "Watcher", "running"]

PADDING_LIMIT: Final = 4096


@dataclass(slots=True, kw_only=True)
class Run:
    """A study on a site that is up. `rounds` is the number of rounds wanted so far, `done` counts their trials.

    `broken` says why cells are not launched in this round, `unreached` why messages do not arrive in any.
    """

    plan: Plan
    store: Store
    site: Site
    files: StudyFiles
    watcher: Watcher
    agent: Path
    cores: CoreWatch
    broken: dict[str, str] = field(default_factory=dict)
    unreached: dict[Pair, str] = field(default_factory=dict)
    noted: bool = False
    rounds: int = 0
    done: int = 0

    def blocks(self, most_rounds: int | None = None) -> Ending:
        """Run the remaining blocks until the study is precise enough, or its rounds or budget are used up.

        At most `most_rounds` rounds are run, None for all. Returns how the run ended.
        """
        ending = Ending(
            repetition=self.plan.study.repetition,
            nodes=len(self.site.nodes),
            facts=self.store.facts,
            allocation=self.site.allocation,
            most_rounds=most_rounds,
        )
        while True:
            self.rounds = self._rounds_wanted()
            left = list(self.store.ledger.remaining(self.plan, rounds=self.rounds))
            self.done = self.total - len(left) * len(available(self.plan))
            if not left or ending.reached():
                break
            this_round, began = left[0][0], time.monotonic()
            self._round(this_round, [key for key in left if key[0] == this_round])
            self.store.note_facts(**ending.ended_round(this_round, time.monotonic() - began))
            calibration.check_writes(self.plan, self.store.trials if len(ending.rounds) == 1 else ())
        if not ending.reason or self.site.allocation is None:
            self.store.note_look(select(self.plan, self.store.trials).rounds_done)
        return ending

    @property
    def total(self) -> int:
        """Return the number of planned trials, without repeats."""
        return len(available(self.plan)) * self.rounds * self.plan.study.repetition.blocks_per_round

    def _rounds_wanted(self) -> int:
        """Return the number of rounds wanted so far; examine results only when a look is due."""
        repeat = self.plan.study.repetition
        rounds = repeat.rounds
        while rounds < repeat.max_rounds and not next(self.store.ledger.remaining(self.plan, rounds=rounds), None):
            if is_look(rounds, repeat) and study_is_precise_enough(self.plan, self.store.trials):
                return rounds
            rounds += 1
        return rounds

    def _round(self, round_: int, blocks: list[tuple[int, int, int]]) -> None:
        self.watcher.round_started(round_, blocks[0][2])
        with ExitStack() as stack:
            ready = self.pods(stack)
            self.site.settle()
            for up in {id(each.deployed): each.deployed for each in ready.values()}.values():
                up.wait_until_ready()
            ready = self._reached(ready)
            answers = transport_probe.answers(self.site, ready.values(), self.agent)
            ready = {key: replace(each, chosen=answers.get(each.pair)) for key, each in ready.items()}
            if not self.noted:
                self.store.note_facts(**facts.of_site(self.plan, services_of(self.site)), **self.site.described())
                self.noted = True
            for cell in calibration.due(self.plan, self.store.ledger.completed):
                self._calibrate(ready.get(cell.key))
            reach("round:ready")
            for _, block, attempt in blocks:
                order = block_order(self.plan, round_, block, attempt)
                self._block(ready, [TrialKey(cell=cell, round=round_, block=block, attempt=attempt) for cell in order])

    def _reached(self, ready: Mapping[str, ReadyCell]) -> dict[str, ReadyCell]:
        """Leave out the cells whose messages do not arrive, which is tried in the first round."""
        if not self.noted:
            self.unreached = transport_probe.unreached(self.site, ready.values(), self.agent)
            self.site.check_held()
        reasons = {key: reason for key, each in ready.items() if (reason := self.unreached.get(each.pair))}
        self.broken |= reasons
        return {key: each for key, each in ready.items() if key not in reasons}

    def _calibrate(self, ready: ReadyCell | None) -> None:
        """Launch a program once in the baseline; raise `CellsFailed` if it does not run there."""
        if ready is None or ready.deployed.ended():
            return  # its trials report why
        try:
            with looked_at(ready.cell, self.site.pids) as seen:
                launched = self._launched(ready, 0)
        except Unreachable:
            return
        if isinstance(launched.outcome, Failed) and ready.deployed.ended():
            return
        calibration.check(ready.cell, launched.outcome, alone=seen.alone())
        self.store.note_facts(**crowded_fact(self.store.facts, ready.cell.workload.name, seen.more_threads()))
        self.watcher.calibrated(ready.cell, launched.result.elapsed_s)

    def _block(self, ready: Mapping[str, ReadyCell], keys: Sequence[TrialKey]) -> None:
        """Run the trials of a block in order; at its end repeat those that the machine disturbed."""
        due = []
        if self.plan.study.repetition.turns > 1:
            keys = self._in_turns(ready, keys)
        for position, key in enumerate(keys):
            one = ready.get(key.cell)
            trial = self.trial(key, position, one)
            # Repeating a start-up would not find the cache state that it requires.
            if one is not None and one.cell.workload.startup is None and wants_repeat(trial):
                due.append((key, one))
        if not self.plan.study.repetition.reruns:
            return
        for position, (key, one) in enumerate(due, start=len(keys)):
            if not repeats_left(self.store.ledger.launches, self.store.ledger.repeated, self.total):
                return
            self.trial(replace(key, repeat=1), position, one)

    def _in_turns(self, ready: Mapping[str, ReadyCell], keys: Sequence[TrialKey]) -> list[TrialKey]:
        """Run the trials of a block that can take turns, group by group; return the keys of the remaining trials."""
        left = []
        for _, group in groupby(keys, key=lambda key: self._group_of(key.cell)):
            of_group = list(group)
            standing = {key: one for key in of_group if (one := ready.get(key.cell)) and one.deployed.ended() is None}
            may = in_turns.may([each.cell for each in standing.values()], in_turns.memory_bytes())
            listener = self.site.listen() if may else None
            if listener is None:
                left += of_group
                continue
            left += [key for key in of_group if key not in standing]
            self._take_turns(standing, listener)
        return left

    def _group_of(self, cell: str) -> str:
        return next(each.group for each in self.plan.cells if each.key == cell)

    def _take_turns(self, standing: Mapping[TrialKey, ReadyCell], listener: socket.socket) -> None:
        """Run the trials of a group in turns and store them."""
        launches = list[tuple[ReadyCell, int]]()
        for key, one in standing.items():
            self.watcher.launch_started(key, self.done, self.total)
            launches.append((self._drawn(key, one), self._padding(key)))
        self.watcher.launching(tuple(standing))
        started = time.time()
        first = next(iter(standing))
        drawn = f"{self.plan.study.seed}/turns/{first.round}/{first.block}/{first.attempt}"
        turns = self.plan.study.repetition.turns
        try:
            ended = in_turns.run(self.site, listener, launches, turns=turns, drawn=drawn)
            judged = [self._judged(one, watched) for (one, _), watched in zip(launches, ended, strict=True)]
        except Unreachable as lost:
            for position, key in enumerate(standing):
                self._stored(failed_trial(key, position, started, lost.message), None)
            return
        together = zip(standing, launches, in_the_same_passes(judged, turns), strict=True)
        for position, (key, (one, padding), judged_one) in enumerate(together):
            launched = judged_one.with_counters(environment_padding_bytes=padding, turns=turns)
            self._stored(trial_of(key, position, started, one, launched), launched)

    def pods(self, stack: ExitStack) -> dict[str, ReadyCell]:
        """Make new pods for every environment and placement; record failures with their reasons."""
        self.broken.clear()
        cells = available(self.plan)
        slots = nic_slots((cell.environment, cell.placement) for cell in self.plan.cells)
        found: dict[tuple[Environment, Placement], TimedDeployment[Deployed] | str] = {}
        ready: dict[str, ReadyCell] = {}
        for cell in cells:
            pair = (cell.environment, cell.placement)
            if pair not in found:
                found[pair] = self._deploy(stack, *pair, slot=len(found), nic=slots[pair])
            up = found[pair]
            if isinstance(up, str):
                self.broken[cell.key] = up
            else:
                ready[cell.key] = self._prepare(cell, up, number=len(ready))
        return ready

    def _deploy(
        self, stack: ExitStack, environment: Environment, placement: Placement, *, slot: int, nic: int
    ) -> TimedDeployment[Deployed] | str:
        inner = ExitStack()
        make = partial(
            deployed, self.site, environment, placement, slot=slot, nic=nic, files=self.files.of(environment)
        )
        pair = (environment, placement)
        wanted = {each.workload.startup for each in available(self.plan) if (each.environment, each.placement) == pair}
        try:
            up = made(make, inner, wanted, self.site.drop_caches)
        except Unreachable:
            inner.close()
            raise
        except TareError as error:
            inner.close()
            return f"its pods could not be made: {error.on_one_line()}"
        stack.enter_context(inner)
        return up

    def _prepare(self, cell: Cell, made: TimedDeployment[Deployed], *, number: int) -> ReadyCell:
        up = made.up
        command = on_node.prepared(self.site, cell, up, self.agent, name=f"launch-{number}")
        return ReadyCell(cell=cell, deployed=up, command=command, pods_s=made.took_s[cell.workload.startup])

    def trial(self, key: TrialKey, position: int, ready: ReadyCell | None) -> Trial:
        """Run one trial and store it. If its pods could not be made, or have ended since, it is stored as failed."""
        self.watcher.launch_started(key, self.done, self.total)
        self.watcher.launching((key,))
        started = time.time()
        launched = None
        missing = self.broken.get(key.cell, "it was not made") if ready is None else self._ended(ready)
        if ready is not None and not missing:
            ready = self._drawn(key, ready)
            try:
                launched = self._attempt(key, ready)
            except Unreachable as lost:
                missing = lost.message
        if ready is None or launched is None:
            return self._stored(failed_trial(key, position, started, missing or "it was not made"), None)
        return self._stored(trial_of(key, position, started, ready, launched), launched)

    def _ended(self, ready: ReadyCell) -> str | None:
        """Return what of a launch's pods has ended; raise `LabEnded` if that is because the lab itself has."""
        missing = ready.deployed.ended()
        if missing:
            self.site.check_held()
        return missing

    def _attempt(self, key: TrialKey, ready: ReadyCell) -> Launched:
        """Launch a trial, with the caches that it requires; record the length of its environment."""
        padding = self._padding(key)
        dropped = self._set_caches(ready, padding)
        launched = self._launched(ready, padding)
        return launched.with_counters(**dropped, environment_padding_bytes=padding)

    def _drawn(self, key: TrialKey, ready: ReadyCell) -> ReadyCell:
        """Return a launch with its kernels in the order of its round and block."""
        return ready.with_argv(in_order(ready.argv, self.plan.study.seed, key.round, key.block))

    def _padding(self, key: TrialKey) -> int:
        return random.Random(f"{self.plan.study.seed}/{key}").randrange(PADDING_LIMIT)

    def _stored(self, trial: Trial, launched: Launched | None) -> Trial:
        samples = dict(launched.parsed.samples) if launched and launched.parsed else {}
        stored = self.store.append(trial, samples)
        self.done += trial.key.repeat == 0
        self.watcher.trial_ended(stored, self.done, self.total)
        return stored

    def _launched(self, ready: ReadyCell, padding: int) -> Launched:
        """Run a launch between two readings of all counters, and judge it."""
        before = ready.deployed.counters(values.Moment(site_s=self.site.usage_s()))
        result = run_launch(ready, padding, self.site)
        after = ready.deployed.counters(values.Moment(site_s=self.site.usage_s()))
        watched = in_turns.WatchedLaunch(result=result, before=before, after=after, active_s=result.elapsed_s)
        return self._judged(ready, watched)

    def _judged(self, ready: ReadyCell, watched: in_turns.WatchedLaunch) -> Launched:
        """Judge a launch that has ended, and end what it left behind."""
        result, said_bytes = watched.result, len(watched.result.stdout)
        left = ready.deployed.end_left()
        observed = monitor.observed(ready.deployed.watches, watched.before, watched.after, said_bytes=said_bytes)
        outcome, parsed = judge(ready, result, observed)
        if left.memory_hit:
            outcome = Failed(reason=left.memory_hit, status=result.status, stderr_tail=result.stderr_tail)
        if isinstance(outcome, Failed):
            self.site.check_held()  # a network that has ended is no fault of the environment
            if missing := self._ended(ready):
                outcome = replace(outcome, reason=f"{missing} while the launch ran ({outcome.reason})")
        cores = self.cores.during(result.began_s, result.began_s + result.elapsed_s)
        if isinstance(outcome, Completed) and parsed is not None:
            outcome = replace(outcome, metrics=self._with_noise(outcome.metrics, parsed.spans_s, result))
        return Launched(
            result=result,
            outcome=outcome,
            parsed=parsed,
            observed=replace(observed, noise={**observed.noise, **cores}),
            left=left.processes,
            active_s=watched.active_s,
            gaps=proof_gaps(ready, outcome, parsed, observed),
        )

    def _with_noise(
        self, metrics: tuple[Metric, ...], spans_s: Mapping[str, tuple[float, float]], result: Result
    ) -> tuple[Metric, ...]:
        """Return metrics with the state of the cores during each; spans outside of the launch are ignored."""
        ended_s = result.began_s + result.elapsed_s
        told = {key: span for key, span in spans_s.items() if result.began_s <= span[0] <= span[1] <= ended_s}
        return tuple(
            replace(metric, noise=self.cores.during(*told[metric.key])) if metric.key in told else metric
            for metric in metrics
        )

    def _set_caches(self, ready: ReadyCell, padding: int) -> dict[str, float]:
        """Put the machine's caches into the state that the workload requires; return counters that record it.

        Warm is the state after an uncounted launch, because the launch before may have been a cold one of another cell.
        That launch's messages are dropped: the measured launch would repeat them.
        """
        wanted = plugin_of(ready.cell.workload).caches(ready.cell.workload)
        if wanted is Caches.COLD:
            self.site.drop_caches()
            return {"caches_dropped": 1}
        if wanted is Caches.WARM:
            run_launch(ready, padding, self.site)
            ready.deployed.end_left()
        return {}


@contextmanager
def running(
    plan: Plan, store: Store, files: StudyFiles, watcher: Watcher, *, name: str, say: Callable[[str], None]
) -> Iterator[Run]:
    """Bring up a study's cluster and yield its run; `say` is that of `opened`."""
    with opened(plan, files.every, name=name, say=say) as site:
        agent = write_agent(site.folder, plain_python())
        with watching(site, files.every[0].host_prefix / "bin" / "tare-cores") as cores:
            yield Run(plan=plan, store=store, site=site, files=files, watcher=watcher, agent=agent, cores=cores)
