"""The lists in README and docs are those of the registries, and the terms of the glossary those that are used."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from tare.cli.options import QuickOptions
from tare.cli.quick import environment_names
from tare.clusters import CLUSTERS
from tare.images import RECIPES
from tare.images.convert import FORMATS
from tare.model import Launching
from tare.mpi import MPIS
from tare.networks import NETWORKS
from tare.runtimes import RUNTIMES
from tare.study.schema import StudyIn

ROOT = Path(__file__).parents[3]
TERM = re.compile(r"`([^`]+)`")


def real(names: object) -> set[str]:
    return {name for name in names if not name.startswith("fake")}  # type: ignore[attr-defined]


def page(name: str) -> str:
    return (ROOT / name).read_text()


def rows(text: str) -> Iterator[list[str]]:
    """Yield the cells of every row of the tables in a text."""
    for line in text.splitlines():
        if line.startswith("|") and not re.fullmatch(r"[|:\- ]+", line):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def section(text: str, title: str) -> str:
    """Return what follows a heading, up to the next one of the same depth or above."""
    depth = len(title) - len(title.lstrip("#"))
    _, found, rest = text.partition(f"\n{title}\n")
    assert found, f"there is no {title!r}"
    return re.split(rf"^#{{1,{depth}}} ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def test_the_readme_counts_the_usual_environments_and_a_page_names_every_cluster_and_recipe() -> None:
    assert len(environment_names(QuickOptions(command=["app"]))) == 12
    assert "the twelve usual environments" in page("README.md")
    study, images = page("docs/study.md"), page("docs/images.md")
    assert {name for name in real(CLUSTERS) if f"`{name}`" not in study and f"cluster: {name} " not in study} == set()
    assert {name for name in real(RECIPES) if f"`{name}`" not in study + images + page("docs/kubernetes.md")} == set()
    for name in {*FORMATS}:
        assert f"`{name}`" in images


@pytest.mark.parametrize(("title", "registry"), [("## Runtimes", RUNTIMES), ("## Networks", NETWORKS)])
def test_the_tables_of_environments_have_a_row_for_each(title: str, registry: object) -> None:
    listed = rows(section(page("docs/environments.md"), title).partition("\n### ")[0])
    beside = {"bare+image", "bare+dockerd", "{cni: PATH}", "fake"}
    first = {name for row in listed for name in TERM.findall(row[0])} - beside
    assert first == real(registry)


def test_the_page_of_images_says_for_each_runtime_what_programs_of_an_image_run_as() -> None:
    table = page("docs/images.md").partition("| environment | programs of the image run as |")[2].partition("\n\n")[0]
    assert {name for row in rows(table) for name in TERM.findall(row[0])} == real(RUNTIMES) - {"bare"} | {"bare+image"}


def test_the_study_page_lists_every_key_runtimes_mpis_and_ways_of_launching() -> None:
    text = section(page("docs/study.md"), "## Environments")
    by_first = {row[0].strip("`"): row for row in rows(text)}
    assert set(TERM.findall(by_first["runtime"][1])) == {*real(RUNTIMES), "fake"}
    mpis = {name for row in rows(text.partition("| `transport`")[0]) for name in TERM.findall(row[0])} & {*MPIS}
    assert mpis == real(MPIS)
    (launch,) = re.findall(r"^ *launch: (.*)$", text, re.MULTILINE)
    assert set(re.findall(r"[a-z-]+", launch.partition(": ")[0])) >= {str(way) for way in Launching}
    whole = page("docs/study.md")
    keys = {each.alias or name for form in forms(StudyIn) for name, each in form.model_fields.items()}
    assert {key for key in keys if not re.search(rf"\b{key}\b\s*:|`{key}`", whole)} == set()


def forms(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Yield a form of the study file and all that are in it."""
    yield model
    for field in model.model_fields.values():
        yield from (form for inner in inside(field.annotation) for form in forms(inner))


def inside(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from inside(part)


def set_up(table: str) -> set[str]:
    """Return the words of a table of tools/bootstrap, those of all profiles."""
    found = re.search(rf"^declare -Ar {table}=\((.*?)\n?\)", page("tools/bootstrap"), re.MULTILINE | re.DOTALL)
    assert found
    return {word for words in re.findall(r'"(.*?)"', found[1], re.DOTALL) for word in words.split()}


def test_the_installation_page_names_every_package_that_set_up_brings() -> None:
    text = page("docs/install.md")
    unpacked = {word for each in set_up("UNPACKED") for word in re.split("[=,]", each)}
    tools = {word for each in set_up("TOOLS") for word in each.split(":")}
    packages = set_up("PACKAGES")
    assert len(packages) > 40
    names = packages | unpacked | tools
    assert {name for name in names if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text)} == set()


def test_each_target_of_the_makefile_sets_up_a_profile_that_there_is() -> None:
    named = set(re.findall(r"^\t@tools/bootstrap (\w+)$", page("Makefile"), re.MULTILINE))
    found = re.search(r"^declare -Ar BASED=\((.*)\)", page("tools/bootstrap"), re.MULTILINE)
    assert found
    assert named <= set(re.findall(r"\[(\w+)\]", found[1]))
    assert {"run", "test", "live", "all", "kubernetes"} <= named


PAGE = ROOT / "docs" / "glossary.md"
ROWS = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", PAGE.read_text(), re.MULTILINE)
MEANINGS = {term: meaning for term, meaning in ROWS if term != "term"}
TERMS = sorted({word for term in MEANINGS for word in term.split(" / ")})
OTHERS = "\n".join(
    page.read_text() for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if page != PAGE
)


def used(term: str, text: str) -> bool:
    """Tell whether a text has a term, in the singular or the plural, also broken over two lines."""
    words = r"\s+".join(map(re.escape, term.split()))
    return re.search(rf"\b{words}(?:s|es)?\b", text, re.IGNORECASE) is not None


def test_the_glossary_is_in_the_index_and_has_every_family_of_plug_ins_and_no_term_twice() -> None:
    assert len(MEANINGS) >= 28
    assert len(MEANINGS) == len([term for term, _ in ROWS if term != "term"])
    assert set(MEANINGS) >= {"runtime", "network", "cluster", "MPI", "workload"}
    assert "(glossary.md)" in page("docs/index.md")
    assert not used("frobnication floor", OTHERS)
    assert not used("turn", "turnover")


@pytest.mark.parametrize("term", TERMS)
def test_a_term_of_the_glossary_is_used_in_the_documentation(term: str) -> None:
    assert used(term, OTHERS), f"neither README nor docs/ has {term!r}"
