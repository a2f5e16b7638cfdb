"""A remedy names what the command has that prints it."""

from __future__ import annotations

import pytest
import typer

from tare.cli.app import app
from tare.cli.usage import KEYS, OPTIONS, worded

CORES = "use fewer ranks per node, or `oversubscribe: true` in the placement (then no verdict is given)"
FEWER = "use fewer ranks per node"


@pytest.mark.parametrize(
    ("text", "quick", "launch"),
    [
        (CORES, FEWER, f"{FEWER}, or `--oversubscribe` (then no verdict is given)"),
        (f"x\n  all 3 cells  (unavailable: y: {CORES})", f"x\n  all 3 cells  (unavailable: y: {FEWER})", None),
        ("use transport: tcp, or mpi: openmpi", "use --transport tcp, or --mpi openmpi", None),
        ("build it again, or name its own MPI with `mpi`", "build it again, or name its own MPI with `--mpi`", None),
        ("y: use host or pasta, or cluster: lab", "y: use host or pasta, or --cluster lab", None),
        ("y: use host, or subnets: 1", "y: use host", "y: use host"),
        ("needs a pod each: use share: none", "needs a pod each: use share: none in a study file", None),
        ("a pod each: use `share: none`.", "a pod each: use `share: none` in a study file.", None),
        ("binds: /nope does not exist", "binds: /nope does not exist", "binds: /nope does not exist"),
        ("tare quick: a.image: unknown image 'b'", "tare quick: a.image: unknown image 'b'", None),
    ],
)
def test_a_remedy_is_an_option_of_its_command_or_left_out_if_there_is_another(
    text: str, quick: str, launch: str | None
) -> None:
    assert worded(text, "quick") == quick
    assert worded(text, "run") == worded(text, "plan") == text
    if launch is not None:
        assert worded(text, "launch") == launch


@pytest.mark.parametrize("command", OPTIONS)
def test_the_options_are_those_of_the_command(command: str) -> None:
    has = {option for each in typer.main.get_command(app).commands[command].params for option in each.opts}  # type: ignore[attr-defined]
    assert set(OPTIONS[command].values()) <= has
    missing = [key for key in KEYS.split("|") if f"--{key.replace('_', '-')}" in has and key not in OPTIONS[command]]
    assert missing == []
