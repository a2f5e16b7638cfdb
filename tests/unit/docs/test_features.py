"""docs/features.md names every command, runtime, network, MPI and cluster, with tests that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from tare.cli.app import app
from tare.clusters import CLUSTERS
from tare.mpi import MPIS
from tare.networks import NETWORKS
from tare.runtimes import RUNTIMES

ROOT = Path(__file__).parents[3]
ROWS = [
    tuple(cell.strip() for cell in line.strip("|").split("|"))
    for line in (ROOT / "docs" / "features.md").read_text().splitlines()
    if line.startswith("| ") and "`tests/" in line
]


def commands(group: Any, name: str) -> Iterator[str]:
    for word, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{name} {word}")
        elif not command.hidden:
            yield f"{name} {word}"


def test_every_command_and_plug_in_has_a_row() -> None:
    named = {name for feature, _ in ROWS for name in re.findall(r"`([^`]+)`", feature)}
    families = (CLUSTERS, MPIS, NETWORKS, RUNTIMES)
    members = {name for family in families for name, member in family.items() if not member.is_fake}
    assert {*commands(typer.main.get_command(app), "tare"), *members} - named == set()


@pytest.mark.parametrize(("feature", "tests"), ROWS)
def test_the_tests_of_a_feature_exist(feature: str, tests: str) -> None:
    for named in re.findall(r"`([^`]+)`", tests):
        file, _, name = named.partition("::")
        tree = ast.parse((ROOT / file).read_text())
        found = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        assert name in found if name else any(each.startswith("test_") for each in found), (feature, named)
