"""The pictures of docs/explaining.md are small, load nothing from a network, and are all shown."""

from __future__ import annotations

import re
from pathlib import Path

import exports
from factory_explained import Behaviour, plan_of, trials_of
from source_tree import program
from tare.cli.afterwards.options import ExplainOptions

TOOL = program("explain_pictures")
PICTURES: Path = TOOL.PICTURES
PAGE = PICTURES.parent / "explaining.md"


def test_the_page_shows_every_picture_and_all_are_small_and_load_nothing() -> None:
    shown = re.findall(r"!\[[^\]]+\]\(pictures/([^)]+)\)", PAGE.read_text())
    assert sorted(shown) == sorted(path.name for path in PICTURES.glob("explain-*"))
    assert len(shown) == 4
    for path in PICTURES.glob("explain-*"):
        assert path.stat().st_size <= TOOL.MOST_BYTES, path.name
        if path.suffix == ".svg":
            assert not re.search(r"url\((?!#)|href=|@import", path.read_text()), path.name


def test_a_picture_has_the_command_and_what_it_prints(tmp_path: Path) -> None:
    text = """
environments: {plain: {runtime: bare, network: host}, slow: {runtime: bare, network: host, env: {A: 1}}}
workloads: {messages: {kernels: [latency]}}
repetition: {rounds: 8}
"""
    plan = plan_of(tmp_path, text)
    folder = exports.write(tmp_path / "r", plan, list(trials_of(plan, {"slow": Behaviour(factor=1.5)})))
    svg = TOOL.terminal("tare explain results/r", ExplainOptions(results=folder)).replace("&#160;", " ")
    assert "$ tare explain results/r" in svg
    assert "unexplained: nothing that was counted speaks for a cause" in svg
