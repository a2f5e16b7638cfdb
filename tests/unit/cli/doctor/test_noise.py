"""`tare doctor --noise` recognises what was planted, measures what it costs, and says who may change it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tare.cli import app
from tare.cli.doctor import noise, noise_activity, noise_effect, noise_schedule
from tare.cli.doctor.noise_activity import ACTIVITIES, Span
from tare.cli.doctor.noise_check import Check, KernelFiles, NoiseState
from tare.cli.doctor.noise_effect import GRAIN_S, core_noise, detours_ns, synchronised_cost
from tare.cli.doctor.noise_settings import SETTINGS
from tare.errors import CommandFailed
from tare.model import Estimate

ROOT = Path(__file__).parents[4]
CPU = "sys/devices/system/cpu"
IDLE, NODES = f"{CPU}/cpu0/cpuidle", "sys/devices/system/node"
GOVERNOR = tuple(f"{CPU}/cpu{n}/cpufreq/scaling_governor" for n in range(2))
HUGE = "sys/kernel/mm/transparent_hugepage/enabled"
BALANCING = "proc/sys/kernel/numa_balancing"
US = 1000.0


def machine(folder: Path, files: Mapping[str, str]) -> KernelFiles:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return KernelFiles(folder)


ALL = f"0-{max(os.sched_getaffinity(0))}"


@pytest.mark.parametrize(
    ("name", "files", "state"),
    [
        ("CPU governor", {GOVERNOR[0]: "performance\n"}, NoiseState.QUIET),
        ("CPU governor", dict(zip(GOVERNOR, ("powersave", "performance"), strict=True)), NoiseState.DISTURBS),
        ("CPU governor", {}, NoiseState.NOTE),
        ("turbo", {f"{CPU}/intel_pstate/no_turbo": "1"}, NoiseState.QUIET),
        ("turbo", {f"{CPU}/intel_pstate/no_turbo": "0"}, NoiseState.DISTURBS),
        ("turbo", {f"{CPU}/cpufreq/boost": "1"}, NoiseState.DISTURBS),
        ("turbo", {f"{CPU}/cpufreq/boost": "0"}, NoiseState.QUIET),
        ("multithreading (SMT)", {f"{CPU}/smt/active": "1"}, NoiseState.DISTURBS),
        ("multithreading (SMT)", {f"{CPU}/smt/active": "0"}, NoiseState.QUIET),
        ("isolated cores", {f"{CPU}/isolated": "\n"}, NoiseState.NOTE),
        ("isolated cores", {f"{CPU}/isolated": ALL, f"{CPU}/nohz_full": ALL}, NoiseState.QUIET),
        ("isolated cores", {f"{CPU}/isolated": "9999"}, NoiseState.NOTE),
        ("cores for tare", {f"{CPU}/online": "0-9998"}, NoiseState.NOTE),
        ("C-states", {f"{IDLE}/state3/latency": "133", f"{IDLE}/state3/name": "C6"}, NoiseState.DISTURBS),
        ("C-states", {f"{IDLE}/state3/latency": "133", f"{IDLE}/state3/disable": "1",
                      f"{IDLE}/state1/latency": "2"}, NoiseState.QUIET),
        ("transparent huge pages", {HUGE: "[always] madvise never"}, NoiseState.DISTURBS),
        ("transparent huge pages", {HUGE: "always [madvise] never"}, NoiseState.QUIET),
        ("NUMA balancing", {BALANCING: "1", f"{NODES}/node0/cpulist": "0",
                            f"{NODES}/node1/cpulist": "1"}, NoiseState.DISTURBS),
        ("NUMA balancing", {BALANCING: "1", f"{NODES}/node0/cpulist": "0"}, NoiseState.QUIET),
    ],
)  # fmt: skip
def test_a_setting_is_recognised_and_what_disturbs_has_a_remedy_and_who_may_do_it(
    tmp_path: Path, name: str, files: Mapping[str, str], state: NoiseState
) -> None:
    check = noise.guarded(name, lambda: SETTINGS[name](machine(tmp_path, files)))
    assert (check.name, check.state) == (name, state)
    if state is NoiseState.DISTURBS:
        assert check.remedy
        assert check.rights


def test_a_slow_clock_is_told_with_its_measured_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tare.cli.doctor.noise_settings.clock_cost_s", lambda: 1.4e-6)
    files = {"sys/devices/system/clocksource/clocksource0/current_clocksource": "acpi_pm"}
    check = SETTINGS["clock source"](machine(tmp_path, files))
    assert check.state is NoiseState.DISTURBS
    assert "1400 ns" in check.effect


def test_what_may_not_be_read_is_named_and_ends_nothing() -> None:
    def forbidden() -> Check:
        raise PermissionError(13, "Permission denied", "/sys/secret")

    check = noise.guarded("turbo", forbidden)
    assert (check.name, check.state, check.rights) == ("turbo", NoiseState.UNREAD, "root")
    assert "/sys/secret" in check.found


STAT = "cpu  {busy} 0 0 1000 0 0 0 {steal} 0 0\n"
PROCESS = "{pid} ({name}) S 1 1 1 0 -1 4194560 0 0 0 0 {ticks} 0 0 0 20 0 1 0 {start} 0 0"


def reading(folder: Path, at_s: float, files: Mapping[str, str]) -> noise_activity.Counters:
    """Return the counters of a made-up machine, on which tare itself has used no time."""
    counters = noise_activity.read(machine(folder, {"proc/stat": STAT.format(busy=0, steal=0), **files}))
    return noise_activity.Counters(
        **{name: getattr(counters, name) for name in counters.__slots__} | {"at_s": at_s, "own_s": 0.0}
    )


def check(tmp_path: Path, name: str, before: Mapping[str, str], after: Mapping[str, str]) -> Check:
    """Return what an activity's check finds in ten seconds between two states of a machine with two cores."""
    first, last = reading(tmp_path / "a", 0.0, before), reading(tmp_path / "b", 10.0, after)
    span = Span(machine=KernelFiles(tmp_path / "b"), before=first, after=last, cores=(0, 1))
    return noise.guarded(name, lambda: ACTIVITIES[name](span))


def process(pid: int, name: str, ticks: int, start: int = 5) -> dict[str, str]:
    return {f"proc/{pid}/stat": PROCESS.format(pid=pid, name=name, ticks=ticks, start=start)}


def busy(ticks: int) -> dict[str, str]:
    return {"proc/stat": STAT.format(busy=ticks, steal=0)}


def test_other_programs_are_named_by_what_they_used_meanwhile(tmp_path: Path) -> None:
    old = process(7, "old (x)", 9000)
    again = process(9, "kworker/1:2-events", 100, start=6)
    after = {**old, **process(8, "cc", 400), **again, **busy(600)}
    found = check(tmp_path, "other programs", {**old, **process(8, "cc", 0)}, after)
    assert found.state is NoiseState.DISTURBS
    assert found.found.startswith("60.0% of a core: cc 40.0%, kworker 10.0%, the rest")
    assert "old" not in found.found
    assert found.effect.startswith("30.0%")


def test_a_process_is_named_by_number_and_start_and_its_name_cannot_control_the_terminal(tmp_path: Path) -> None:
    before, after = process(7, "old", 9000), {**process(7, "new", 100, start=9), **busy(100)}
    assert "new 10.0%" in check(tmp_path, "other programs", before, after).found
    after = {**process(7, "a\x1b[2J", 100, start=9), **busy(100)}
    assert "\x1b" not in check(tmp_path, "other programs", {}, after).found


BURNS = """
import ctypes, time
ctypes.CDLL(None).prctl(15, b"planted", 0, 0, 0)
print(input(), flush=True)
until = time.process_time() + 0.3
while time.process_time() < until: pass
print(input(), flush=True)
input()
"""


def test_a_program_that_really_runs_meanwhile_is_named() -> None:
    argv = [sys.executable, "-c", BURNS]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as burning:
        assert burning.stdin is not None
        assert burning.stdout is not None
        readings = []
        for line in ("named\n", "burnt\n"):
            burning.stdin.write(line)
            assert burning.stdout.readline() == line
            readings.append(noise_activity.read(KernelFiles()))
        burning.stdin.write("end\n")
    used = Span(machine=KernelFiles(), before=readings[0], after=readings[1], cores=(0,)).used()
    assert 0.2 < used["planted"] < 0.4


INTERRUPTS = "    CPU0  CPU1\n LOC: {loc} 0 Local timer interrupts\n 24: {disk} {disk} PCI-MSI 1-edge nvme0q1\n"


@pytest.mark.parametrize(
    ("name", "before", "after", "state", "part"),
    [
        ("steal", {}, {"proc/stat": STAT.format(busy=0, steal=100)}, NoiseState.DISTURBS, "5.0%"),
        ("steal", {}, {"proc/stat": STAT.format(busy=0, steal=1)}, NoiseState.QUIET, ""),
        ("timer", {"proc/interrupts": INTERRUPTS.format(loc=0, disk=0)},
         {"proc/interrupts": INTERRUPTS.format(loc=2500, disk=0)}, NoiseState.NOTE, "250 timer interrupts"),
        ("timer", {"proc/interrupts": INTERRUPTS.format(loc=0, disk=0)},
         {"proc/interrupts": INTERRUPTS.format(loc=10, disk=0)}, NoiseState.QUIET, "1 timer"),
        ("device interrupts", {"proc/interrupts": INTERRUPTS.format(loc=0, disk=0)},
         {"proc/interrupts": INTERRUPTS.format(loc=0, disk=5000)}, NoiseState.DISTURBS, "1,000 per second"),
        ("swap", {"proc/vmstat": "pswpin 5\npswpout 5"}, {"proc/vmstat": "pswpin 105\npswpout 5",
         "proc/swaps": "Filename Type Size Used Priority\n/dev/sda2 partition 4096 2048 -2"}, NoiseState.DISTURBS,
         "10 pages"),
        ("swap", {}, {}, NoiseState.QUIET, ""),
        ("memory pressure", {"proc/vmstat": "pgscan_direct 0\nallocstall_normal 3"},
         {"proc/vmstat": "pgscan_direct 1000\nallocstall_normal 7"}, NoiseState.DISTURBS, "4 allocations"),
        ("temperature", {f"{CPU}/cpu0/thermal_throttle/core_throttle_count": "1"},
         {f"{CPU}/cpu0/thermal_throttle/core_throttle_count": "4"}, NoiseState.DISTURBS, "3 times"),
        ("CPU quota on tare", {"proc/self/cgroup": "0::/job", "sys/fs/cgroup/job/cpu.stat": "throttled_usec 0"},
         {"proc/self/cgroup": "0::/job", "sys/fs/cgroup/job/cpu.stat": "throttled_usec 2000000",
          "sys/fs/cgroup/job/cpu.max": "150000 100000"}, NoiseState.DISTURBS, "20.0% of the time"),
        ("CPU quota on tare", {}, {"proc/self/cgroup": "1:cpu:/job", "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "50000",
         "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000"}, NoiseState.DISTURBS, "0.5 cores"),
        ("CPU quota on tare", {}, {"proc/self/cgroup": "0::/job", "sys/fs/cgroup/job/cpu.stat": "",
         "sys/fs/cgroup/job/cpu.max": "max 100000"}, NoiseState.QUIET, "none"),
        ("container daemons", {}, process(7, "kubelet", 100),
         NoiseState.DISTURBS, "kubelet 10.0%"),
        ("container daemons", {}, process(7, "sshd", 100),
         NoiseState.QUIET, "none"),
    ],
)  # fmt: skip
def test_activity_is_the_growth_of_counters(
    tmp_path: Path, name: str, before: Mapping[str, str], after: Mapping[str, str], state: NoiseState, part: str
) -> None:
    found = check(tmp_path, name, before, after)
    assert (found.name, found.state) == (name, state)
    assert part in f"{found.found} {found.effect}"


def test_timers_within_an_hour_are_listed_and_jobs_of_cron_counted(tmp_path: Path) -> None:
    entries = [
        {"unit": f"{name}.timer", "next": round((1000 + left) * 1e6)}
        for name, left in (("late", 9e3), ("b", 1800), ("a", 60))
    ]
    text = json.dumps([*entries, {"unit": "never.timer", "next": None}, 3])
    assert [name for name, _ in noise_schedule.parse_timers(text, 1000.0)] == ["a.timer", "b.timer"]
    assert noise_schedule.parse_timers("no json", 0.0) == []
    table = "# m h\nSHELL=/bin/sh\n17 * * * * root x\n@daily root y\n\n*/5 * * * * root z\n"
    assert noise_schedule.cron_jobs(machine(tmp_path, {"etc/cron.d/x": table})) == (3, False)


def quanta(count: int = 100_000, quantum_us: float = 10.0) -> np.ndarray:
    """Return undisturbed quanta that vary by half a per cent, in nanoseconds."""
    return np.random.default_rng(1).normal(quantum_us * US, 0.005 * quantum_us * US, count)


def test_planted_detours_are_counted_and_their_share_is_what_was_planted() -> None:
    work = quanta()
    work[::100] += 50 * US  # 50 us lost in every 100 quanta of 10 us: 50 of 1050
    found = core_noise(3, work, np.full(10, 5 * US))
    assert found.detours == 1000
    assert found.detour_median_s == pytest.approx(50e-6, rel=0.01)
    assert found.lost_in_detours == pytest.approx(50 / 1050, rel=0.02)
    assert found.lost.low < 50 / 1050 + 0.001 < found.lost.high + 0.002
    assert found.lost.n == noise_effect.PARTS
    assert found.wake_median_s == pytest.approx(5e-6)


def test_a_slower_pace_is_lost_and_is_no_detour_and_undisturbed_work_loses_nothing() -> None:
    work = quanta()
    work[50_000:] *= 1.25
    found = core_noise(0, work, np.zeros(0))
    assert found.lost.value == pytest.approx(0.125 / 1.125, abs=0.02)
    assert found.lost_in_detours < 0.001
    found = core_noise(0, quanta(), np.zeros(0))
    assert abs(found.lost.value) < 0.001
    assert detours_ns(quanta()).size < 5


def test_no_share_that_is_lost_is_below_zero_however_much_parts_differ() -> None:
    work = quanta()
    work[:2000] *= 5
    lost, (_, cost) = core_noise(0, work, np.zeros(0)).lost, synchronised_cost([work, quanta()])
    assert 0 == lost.low < lost.value < lost.high <= 1
    assert 0 == cost.low < cost.value < cost.high


def test_ranks_that_wait_for_each_other_pay_for_the_detours_of_all() -> None:
    """Each of four cores has a detour of half a step in every fourth step, at another step than the others."""
    steps, size = 400, round(GRAIN_S / 10e-6)
    works = []
    for core in range(4):
        work = np.full(steps * size, 10 * US)
        work[np.arange(core, steps, 4) * size] += GRAIN_S / 2 * 1e9
        works.append(work)
    count, cost = synchronised_cost(works)
    _, alone = synchronised_cost(works[:1])
    assert alone is not None
    assert count == steps
    assert cost.value == pytest.approx(0.5)
    assert alone.value == pytest.approx(0.125)


def test_the_probe_measures_every_core_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise_effect, "measure_hand_overs", lambda *_: ([50e-9, 60e-9, 70e-9], ""))
    cores = sorted(os.sched_getaffinity(0))[:2]
    effect = noise_effect.measure(cores, work_s=0.1, wake_s=0.05)
    assert [(core.core, core.wakes) for core in effect.cores] == [(core, 50) for core in cores]
    assert all(core.quanta >= 1 and core.lost.value <= 1 for core in effect.cores)
    assert effect.hand_over_s == 60e-9


@pytest.mark.measures
def test_the_probe_loses_little_of_an_idle_core() -> None:
    effect = noise_effect.measure(sorted(os.sched_getaffinity(0))[:2], work_s=0.9, wake_s=0.05)
    for core in effect.cores:
        assert core.quanta > 200
        assert core.quanta * core.quantum_s <= 0.91
        assert 0 < core.wake_median_s < 0.05
        assert -0.01 < core.lost.value < 1
    assert effect.steps > 10


def test_a_core_that_cannot_be_used_is_an_error_that_says_which() -> None:
    with pytest.raises(CommandFailed, match="core 99999"):
        noise_effect.measure([99999], work_s=0.05, wake_s=0.01)


CORE = noise_effect.CoreNoise(
    core=0, quanta=1000, quantum_s=1e-5, lost=Estimate(value=0.05, low=0.03, high=0.07, n=20), lost_in_detours=0.02,
    detours=10, detours_per_s=2.0, detour_median_s=5e-6, detour_p99_s=2e-4, detour_max_s=1.5e-3, wakes=100,
    wake_median_s=5e-5, wake_p99_s=1e-4, wake_max_s=1e-3,
)  # fmt: skip
EFFECT = noise_effect.Effect(
    cores=(CORE,), grain_s=1e-3, steps=4000, synchronised=Estimate(value=0.2, low=0.1, high=0.3, n=20), no_hand_over="x"
)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> noise.Noise:
    monkeypatch.setattr(noise, "measure", lambda cores: EFFECT)
    return noise.examine()


def test_every_check_has_a_line_and_is_in_json_and_every_cost_has_n_and_interval(
    found: noise.Noise, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tuple(check.name for check in found.checks) == noise.NAMES
    lines = noise.as_text(found)
    for name in noise.NAMES:
        assert len([line for line in lines if re.match(rf"  (ok|NOISE|note|unread) +{re.escape(name)}: ", line)]) == 1
    assert any("lost 5.0% [3.0%, 7.0%] (95 %, n = 20 parts)" in line for line in lines)
    assert any("20.0% [10.0%, 30.0%] (95 %, n = 20 parts)" in line and "(4,000 steps)" in line for line in lines)
    assert any("5.0% of a core's time, 2.0% by detours, 3.0% by a slower pace" in line for line in lines)
    monkeypatch.setattr("sys.argv", ["tare", "doctor", "--noise", "--json"])
    with pytest.raises(SystemExit) as ended:
        app.main()
    assert ended.value.code == 0
    data = json.loads(capsys.readouterr().out)
    assert [check["name"] for check in data["checks"]] == list(noise.NAMES)
    assert data["measured"]["cores"][0]["lost"] == {"value": 0.05, "low": 0.03, "high": 0.07, "n": 20}


@pytest.mark.parametrize("words", [("--json",), ("--noise", "--locality"), ("--noise", "mpirun")])
def test_options_that_do_not_go_together_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    monkeypatch.setattr("sys.argv", ["tare", "doctor", *words])
    with pytest.raises(SystemExit) as ended:
        app.main()
    assert ended.value.code == 2
    assert "--noise" in capsys.readouterr().err


def test_the_page_lists_the_checks_in_their_order_and_no_other() -> None:
    text = (ROOT / "docs/noise.md").read_text().partition("## The checks")[2].partition("\n## ")[0]
    assert tuple(re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)) == noise.NAMES
