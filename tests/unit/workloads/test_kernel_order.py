"""The order of kernels within a launch: random by round and block, the same for all cells, large messages last."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tare.workloads.kernel_order import in_flight_bytes, in_order, kernel_order

SMALL = ("latency:bytes=8", "barrier", "alltoallv:bytes=65536", "spacing:bytes=8,rate=10000")
LARGE = ("bw:bytes=1048576,window=16", "bibw:bytes=65536")
PROGRAM = "/opt/tare/bin/tare-kernels"


def order_option(argv: tuple[str, ...]) -> str:
    (option,) = [token for token in argv if token.startswith("--order=")]
    return option


@given(st.integers(0, 99), st.integers(0, 30), st.integers(0, 3), st.permutations([*SMALL, *LARGE]))
def test_each_kernel_runs_once_and_large_ones_last(seed: int, round_: int, block: int, specs: list[str]) -> None:
    order = kernel_order(seed, round_, block, specs)
    assert sorted(order) == list(range(len(specs)))
    assert {specs[index] for index in order[-len(LARGE) :]} == set(LARGE)


def test_the_order_differs_between_blocks_and_rounds_and_repeats_with_the_seed() -> None:
    orders = {kernel_order(1, round_, block, SMALL) for round_ in range(10) for block in range(2)}
    assert len(orders) > 10
    assert kernel_order(1, 3, 1, SMALL) == kernel_order(1, 3, 1, SMALL)
    assert {kernel_order(seed, 0, 0, SMALL) for seed in range(9)} != {kernel_order(1, 0, 0, SMALL)}


def test_every_small_kernel_comes_first_in_some_round() -> None:
    assert {kernel_order(1, round_, 0, SMALL)[0] for round_ in range(40)} == set(range(len(SMALL)))


def test_what_is_in_flight_counts_the_messages_of_a_window() -> None:
    assert in_flight_bytes("latency") == 8
    assert in_flight_bytes("bw:bytes=65536") == 64 * 65536
    assert in_flight_bytes("bw:bytes=65536,window=2") == 131072


def test_the_program_gets_the_order_as_its_first_argument() -> None:
    argv = ("mpirun", "-n", "2", "sh", "-c", "exec", PROGRAM, *SMALL)
    made = in_order(argv, 1, 2, 0)
    at = made.index(PROGRAM) + 1
    assert made[at] == "--order=" + ",".join(map(str, kernel_order(1, 2, 0, SMALL)))
    assert made[:at] + made[at + 1 :] == argv


def test_both_programs_of_a_launch_with_two_sides_get_the_same_order() -> None:
    argv = ("mpirun", "-n", "1", "/host/bin/tare-kernels", *SMALL, ":", "-n", "1", PROGRAM, *SMALL)
    made = in_order(argv, 1, 2, 0)
    options = [token for token in made if token.startswith("--order=")]
    assert len(options) == 2
    assert options[0] == options[1]
    assert made.index(":") == argv.index(":") + 1


def test_one_kernel_and_other_programs_stay_as_they_are() -> None:
    for argv in (("mpirun", PROGRAM, "barrier"), ("mpirun", "/home/u/app", "barrier", "latency")):
        assert in_order(argv, 1, 1, 1) == argv


def test_cells_of_a_block_have_one_order() -> None:
    bare = in_order(("mpirun", PROGRAM, *SMALL), 1, 4, 1)
    docker = in_order(("nsenter", "mpirun", "-x", "A=1", "/other/tare-kernels", *SMALL), 1, 4, 1)
    assert order_option(bare) == order_option(docker)
