"""The state of a virtual machine's cores during a launch is told from samples: distance, share elsewhere, speed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tare.run.core_watch import CoreWatch, is_virtual, place, speed
from tare.summary.disturbance import migrated_within

NEAR_NS, FAR_NS = (33.0, 31.0, 36.0, 34.0), (152.0, 147.0, 163.0, 157.0)


def written(folder: Path, *samples: tuple[float, float], tail: str = "") -> CoreWatch:
    file = folder / "cores.log"
    file.write_text("".join(f"{moment:.3f} {hand_over:.1f} 880\n" for moment, hand_over in samples) + tail)
    return CoreWatch(file=file)


def seconds(values_ns: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(value * 1e-9 for value in values_ns)


def test_what_is_within_the_spread_of_one_place_has_not_moved() -> None:
    noise = place(seconds(NEAR_NS), seconds(NEAR_NS * 5 + FAR_NS))
    assert noise["cores_elsewhere"] == 0
    assert not migrated_within(noise)
    assert noise["core_hand_over_s"] == pytest.approx(33.5e-9)


@pytest.mark.parametrize(
    ("within", "elsewhere", "migrated"),
    [(FAR_NS, 1.0, False), (NEAR_NS + FAR_NS[:1], 0.2, True), (NEAR_NS[:1] + FAR_NS, 0.8, True), ((11.0,), 1.0, False)],
    ids=["across", "in part", "mostly", "nearer"],
)
def test_what_is_elsewhere_has_moved_and_in_part_it_migrated_within_the_launch(
    within: tuple[float, ...], elsewhere: float, migrated: bool
) -> None:
    noise = place(seconds(within), seconds(NEAR_NS * 9))
    assert noise["cores_elsewhere"] == pytest.approx(elsewhere)
    assert migrated_within(noise) == migrated


def test_cores_that_stay_where_they_went_are_usual_there_after_half_a_minute(tmp_path: Path) -> None:
    near = [(float(moment), 33.0) for moment in range(100)]
    far = [(float(moment), 152.0) for moment in range(100, 140)]
    watch = written(tmp_path, *near, *far)
    assert watch.during(100.0, 102.0)["cores_elsewhere"] == 1.0
    assert watch.during(135.0, 139.0)["cores_elsewhere"] == 0.0


def test_samples_are_read_on_and_a_torn_line_is_waited_for(tmp_path: Path) -> None:
    watch = written(tmp_path, (1.0, 33.0), (2.0, 34.0), tail="3.000 15")
    assert watch.during(0.0, 9.0)["core_hand_over_s"] == pytest.approx(33.5e-9)
    assert watch.file is not None
    with watch.file.open("a") as file:
        file.write("2.0 880\n4.000 150.0 1400\n")
    assert watch.moments_s == [1.0, 2.0], "a torn line waits"
    assert watch.during(2.5, 9.0)["cores_elsewhere"] == 1.0
    assert watch.during(2.5, 9.0)["core_counting_s"] == pytest.approx(1140e-9)


def test_cores_beside_another_guest_take_longer_for_the_same_arithmetic() -> None:
    beside = speed(seconds((1150.0, 1400.0, 1300.0)))
    assert beside == {"core_counting_s": pytest.approx(1300e-9)}
    assert not migrated_within(beside)
    assert speed(()) == {}


@pytest.mark.parametrize("tail", ["", "tare-cores: no real-time priority: Operation not permitted\n"])
def test_where_nothing_is_known_nothing_has_moved(tail: str, tmp_path: Path) -> None:
    assert written(tmp_path, tail=tail).during(0.0, 9.0) == {}
    assert CoreWatch().during(0.0, 9.0) == {}
    assert CoreWatch(file=tmp_path / "none").during(0.0, 9.0) == {}
    assert not migrated_within({})


def test_a_virtual_machine_is_known_by_its_cpus(tmp_path: Path) -> None:
    cpus = tmp_path / "cpuinfo"
    cpus.write_text("processor\t: 0\nflags\t\t: fpu vme hypervisor lahf_lm\n")
    assert is_virtual(cpus)
    cpus.write_text("processor\t: 0\nflags\t\t: fpu vme lahf_lm\n")
    assert not is_virtual(cpus)
    assert not is_virtual(tmp_path / "none")
