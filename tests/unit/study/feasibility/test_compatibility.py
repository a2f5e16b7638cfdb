"""Whether application, launcher, image and machine fit together is judged before a launch, with what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compatibility_table import FILE, MPIS_SHOWN, Seen, predicted, written
from tare.images import mpi_wheels
from tare.mpi import MPIS
from tare.study.feasibility import compatibility
from tare.study.feasibility.compatibility import Application, JobOutcome, Launcher, MpiFacts, RankHost, controls, starts
from tare.study.feasibility.preflight import mpi_here

OPEN4, OPEN5, MPICH4, MPICH5 = (MPIS_SHOWN[name] for name in ("openmpi", "openmpi5", "mpich", "mpich5"))
versions = st.tuples(st.integers(1, 9), st.integers(0, 9))


def judged(
    application: Application | None = None,
    launcher: Launcher | None = None,
    image: RankHost | None = None,
    cpu: int = 3,
) -> str | None:
    return compatibility.fits(
        application or Application(),
        launcher or Launcher(mpi=OPEN4, daemon=OPEN4),
        image or RankHost(glibc=(2, 36)),
        cpu,
    )


@pytest.mark.parametrize("mpi", MPIS_SHOWN.values(), ids=str)
def test_what_is_of_one_make_fits(mpi: MpiFacts) -> None:
    assert judged(Application(mpi=mpi), Launcher(mpi=mpi, daemon=mpi)) is None


def test_pmix_lets_open_mpi_4_and_5_start_each_other_and_minor_versions_of_a_daemon_may_differ() -> None:
    assert starts(OPEN4, OPEN5) == starts(OPEN5, OPEN4) == (JobOutcome.WORKS, "")
    assert controls(OPEN4, MpiFacts(family="openmpi", version=(4, 0, 3))) is None
    assert controls(OPEN4, MpiFacts(family="openmpi")) is None


@pytest.mark.parametrize(("one", "other"), [((1, 2, 5), (4, 2)), ((4, 2), (2, 0, 3))])
def test_pmix_before_2_1_is_named_and_which_side_is_to_be_renewed(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    old = MpiFacts(family="openmpi", version=(3, 0), pmix=one)
    new = MpiFacts(family="openmpi", version=(4, 1), pmix=other)
    result, reason = starts(old, new, "app")
    assert result is JobOutcome.FAILS
    assert "which are compatible from 2.1 on" in reason
    assert ".".join(map(str, one)) in reason
    assert reason.endswith(f"use a newer Open MPI {'3.0' if one < (2, 1) else '4.1'}")


@given(st.sampled_from(["openmpi", "mpich"]), versions, versions, versions, versions)
def test_two_of_a_family_never_leave_ranks_alone(family: str, a: object, b: object, c: object, d: object) -> None:
    one, other = MpiFacts(family=family, version=a, pmix=b), MpiFacts(family=family, version=c, pmix=d)  # type: ignore[arg-type]
    result, reason = starts(one, other)
    assert result is not JobOutcome.ALONE
    assert (reason == "") == (result is JobOutcome.WORKS)
    assert starts(other, one)[0] is result


@given(st.sampled_from([OPEN4, OPEN5]), st.sampled_from([MPICH4, MPICH5]), st.booleans())
def test_two_families_never_work_and_both_are_named(one: MpiFacts, other: MpiFacts, turned: bool) -> None:
    application, launcher = (other, one) if turned else (one, other)
    result, reason = starts(application, launcher, "app")
    assert result is not JobOutcome.WORKS
    assert reason.startswith(f"app is built for {application}")
    assert str(launcher) in reason
    assert f"build it for {'Open MPI' if turned else 'MPICH'}" in reason


def test_what_is_unknown_or_asks_for_nothing_is_not_judged_and_what_lacks_a_daemon_told() -> None:
    assert judged(Application(mpi=None)) is None
    assert judged(Application(glibc=(0, 0)), image=RankHost()) is None
    reason = judged(launcher=Launcher(mpi=OPEN4, daemon=None))
    assert str(reason).startswith("the image has no MPI whose daemon Open MPI 4.1 could start")


@pytest.mark.parametrize(("launcher", "daemon"), [(OPEN4, OPEN5), (OPEN5, OPEN4), (MPICH5, MPICH4), (OPEN4, MPICH4)])
def test_a_daemon_of_another_version_or_make_is_refused_with_ways_out(launcher: MpiFacts, daemon: MpiFacts) -> None:
    reason = controls(launcher, daemon)
    assert reason.startswith(f"the launcher is {launcher}, which cannot work with the daemon of {daemon} in the image")
    for way in ("ssh", "daemon", "hybrid", "host-mpi"):
        assert way in reason


@pytest.mark.parametrize(
    ("there", "reason"),
    [
        ((), "app needs the GNU C library, but the image has none: use an image with glibc"),
        ((2, 31), "app needs glibc 2.34, but the image has 2.31: use a newer image, or build the program in this one"),
        ((2, 34), None),
        ((2, 100), None),
    ],
)
def test_an_older_c_library_cannot_serve_and_is_named(there: tuple[int, ...], reason: str | None) -> None:
    assert judged(Application(name="app", glibc=(2, 34)), image=RankHost(glibc=there)) == reason


@given(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4))
def test_the_cpu_must_have_what_program_and_image_need(program: int, image: int, machine: int) -> None:
    reason = judged(Application(cpu=program), image=RankHost(glibc=(2, 36), cpu=image), cpu=machine)
    assert (reason is None) == (machine == 0 or max(program, image) <= machine)
    if reason is not None:
        assert f"compiled for x86-64-v{max(program, image)}" in reason


def test_the_page_has_the_tables_that_are_predicted_and_writing_one_changes_nothing_else() -> None:
    text = (Path(__file__).parents[4] / FILE).read_text()
    assert written(text, predicted()) == text
    assert text.count("| works |") + text.count("| works ") > 8
    every = {(a, b): JobOutcome.FAILS for a in MPIS_SHOWN for b in MPIS_SHOWN}
    changed = written(text, Seen(starts=every, controls=every))
    assert changed != text
    assert "| works" not in changed.partition("<!-- srun:")[0]
    assert written(changed, predicted()) == text


@pytest.mark.parametrize("name", MPIS_SHOWN)
def test_what_the_page_says_is_of_the_versions_that_are_here(name: str) -> None:
    lock = (Path(__file__).parents[4] / "lock" / "mpis.txt").read_text()
    if name in mpi_wheels.PACKAGES:
        found = re.search(rf"^{mpi_wheels.PACKAGES[name]}==(\d+)\.(\d+)", lock, re.MULTILINE)
        assert MPIS_SHOWN[name].version == tuple(map(int, found.groups()))
    here = mpi_here(name)
    assert here.family == MPIS[name].family == MPIS_SHOWN[name].family
    assert here.version[:2] in {(), MPIS_SHOWN[name].version}
    assert here.pmix[:2] in {(), MPIS_SHOWN[name].pmix}
