"""The examples of tutorials and of the pages on clusters are what tare takes; live tests run them (`make test-all`)."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main

from tare import study
from tare.cli.app import app

DOCS = Path(__file__).parents[3] / "docs"
TUTORIALS = tuple(f"tutorials/{path.stem}" for path in sorted((DOCS / "tutorials").glob("*.md")))
PAGES = ("clusters", "slurm", "kubernetes", *TUTORIALS)
SETS_UP = ("pip install", "docker login", "make setup", "tools/networks", "mpicc ")
"""Commands that set up a machine, or compile a program of the page."""
BEFORE = ("salloc", "sed")
"""Programs that a user of these clusters has as well."""


def blocks(page: str, language: str) -> list[str]:
    """Return the blocks of a page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / f"{page}.md").read_text(), flags=re.DOTALL | re.MULTILINE)


def commands(page: str) -> list[str]:
    """Return the commands of a page's scripts, without the files that they write."""
    scripts = (re.sub(r"^cat > \S+ << 'END'\n.*?^END\n", "", text, flags=re.DOTALL | re.MULTILINE)
               for text in blocks(page, "sh"))  # fmt: skip
    return [line for script in scripts for line in script.splitlines() if line]


def files(page: str) -> dict[str, str]:
    """Return the files that a page's scripts write, by name."""
    found = [re.findall(r"^cat > (\S+) << 'END'\n(.*?)^END\n", text, re.DOTALL | re.MULTILINE)
             for text in blocks(page, "sh")]  # fmt: skip
    return {name: text for each in found for name, text in each}


@pytest.mark.parametrize(("page", "line"), [(page, line) for page in PAGES for line in commands(page)])
def test_a_command_of_a_page_has_only_arguments_and_options_that_tare_takes(page: str, line: str) -> None:
    before, tare, words = line.partition("tare ")
    if line.startswith((*SETS_UP, "sed ")):
        return
    assert tare, line
    assert not before or before.split()[0] in BEFORE, line
    command: Any = typer.main.get_command(app)
    name, arguments, parent = "tare", shlex.split(words), None
    while hasattr(command, "resolve_command"):
        parent = command.context_class(command, info_name=name, parent=parent)
        name, command, arguments = command.resolve_command(parent, arguments)
    command.make_context(name, list(arguments), parent=parent).close()


@pytest.mark.parametrize("page", ["clusters", "slurm", *TUTORIALS])
def test_a_study_that_a_page_writes_is_one(page: str, tmp_path: Path) -> None:
    assert files(page)
    for name, text in files(page).items():
        (tmp_path / name).write_text(text)
        assert name.endswith(".c") or study.load(tmp_path / name).workloads


@pytest.mark.parametrize("page", TUTORIALS)
def test_a_tutorial_is_short_and_all_of_its_commands_are_run(page: str) -> None:
    text = (DOCS / f"{page}.md").read_text()
    assert 300 <= len(text.split()) <= 600
    fences = re.findall(r"^```.*", text, re.MULTILINE)
    assert set(fences[::2]) <= {"```sh", "```text"}
    assert set(fences[1::2]) == {"```"}


def loaded(folder: Path, text: str) -> study.Study:
    (folder / "example.yaml").write_text(text)
    return study.load(folder / "example.yaml")


def test_the_yaml_of_the_page_on_clusters_is_what_a_study_takes(tmp_path: Path) -> None:
    more = "environments: [bare, docker]\nworkloads: {w: {command: [true]}}\n"
    *hosts, pods = blocks("clusters", "yaml")
    assert all(loaded(tmp_path, f"{block}\n{more}").lab.hosts for block in hosts)
    assert loaded(tmp_path, pods).lab.kubernetes.selector == "pool=hpc"


def test_the_yaml_of_the_page_on_slurm_is_what_a_study_takes(tmp_path: Path) -> None:
    for block in blocks("slurm", "yaml"):
        more = "cluster: slurm\n" if "cluster:" not in block else "environments: [bare, apptainer]\n"
        assert loaded(tmp_path, f"{block}\n{more}workloads: {{w: {{command: [true]}}}}\n").cluster == "slurm", block


def test_the_page_on_kubernetes_has_the_study_that_its_commands_name(tmp_path: Path) -> None:
    (text,) = (block for block in blocks("kubernetes", "yaml") if "selector: pool=hpc" in block)
    assert loaded(tmp_path, text).lab.kubernetes.selector == "pool=hpc"
