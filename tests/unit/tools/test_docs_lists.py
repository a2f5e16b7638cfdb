"""The lists in README and docs are those of the registries, no name more and no name less."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from tare.cli.quick import Wanted, environment_names
from tare.cluster import CLUSTERS
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


STATUS = {row[0]: row for row in rows(section(page("README.md"), "## Status"))}


@pytest.mark.parametrize(
    ("row", "registry"),
    [("cluster", CLUSTERS), ("runtime", RUNTIMES), ("network", NETWORKS), ("MPI", MPIS), ("images", RECIPES)],
)
def test_the_status_in_the_readme_names_what_is_registered_and_no_more(row: str, registry: object) -> None:
    assert set(TERM.findall(STATUS[row][1])) == real(registry)


def test_the_readme_calls_nothing_missing_that_is_registered() -> None:
    registered = {part for names in (CLUSTERS, RUNTIMES, NETWORKS, MPIS) for name in names for part in name.split("-")}
    for row, (_, _, missing) in ((row, cells) for row, cells in STATUS.items() if row):
        first = {words.split()[0].lower() for words in re.split(r"[,;()]", missing) if words.split()}
        assert not first & (registered - {"host"}), (row, first & registered)
        assert "Intel MPI" not in missing
        assert "CNI" not in missing


def test_the_readme_counts_the_usual_environments() -> None:
    assert len(environment_names(Wanted(command=("app",)))) == 12
    assert "the twelve usual environments" in (ROOT / "README.md").read_text()


def test_as_many_formats_of_images_as_the_readme_says() -> None:
    number = dict(zip(("five", "six", "seven", "eight", "nine"), range(5, 10), strict=True))
    (told,) = re.findall(r"in (\w+) formats", STATUS["images"][1])
    assert number[told] == len({*FORMATS} - {"sandbox"}), "a sandbox is a directory by another name"


@pytest.mark.parametrize(("title", "registry"), [("## Runtimes", RUNTIMES), ("## Networks", NETWORKS)])
def test_the_tables_of_environments_have_a_row_for_each(title: str, registry: object) -> None:
    listed = rows(section(page("docs/environments.md"), title).partition("\n### ")[0])
    beside = {"bare+image", "bare+dockerd", "{cni: PATH}", "fake"}
    first = {name for row in listed for name in TERM.findall(row[0])} - beside
    assert first == real(registry)


def test_the_study_page_lists_runtimes_mpis_and_ways_of_launching() -> None:
    text = section(page("docs/study.md"), "## Environments")
    by_first = {row[0].strip("`"): row for row in rows(text)}
    assert set(TERM.findall(by_first["runtime"][1])) == {*real(RUNTIMES), "fake"}
    mpis = {name for row in rows(text.partition("| `transport`")[0]) for name in TERM.findall(row[0])} & {*MPIS}
    assert mpis == real(MPIS)
    (launch,) = re.findall(r"^ *launch: (.*)$", text, re.MULTILINE)
    assert set(re.findall(r"[a-z-]+", launch.partition(": ")[0])) >= {str(way) for way in Launching}


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


def test_every_key_of_a_study_is_in_the_study_page() -> None:
    text = page("docs/study.md")
    keys = {name for form in forms(StudyIn) for name in form.model_fields}
    missing = {key for key in keys if not re.search(rf"\b{key}\b\s*:|`{key}`", text)}
    assert missing == set()


def test_the_installation_page_names_every_package_that_set_up_installs() -> None:
    arrays = re.findall(r"^\w+_PACKAGES=\((.*?)\)$", page("tools/bootstrap"), re.MULTILINE | re.DOTALL)
    arrays += re.findall(r"^\w+_PACKAGES=\(([^\n]*)\)$", page("tools/bootstrap"), re.MULTILINE)
    packages = {word for array in arrays for line in array.splitlines() for word in line.partition("#")[0].split()}
    text = page("docs/install.md")
    assert len(packages) > 40
    assert {name for name in packages if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text)} == set()


def test_what_set_up_unpacks_is_in_the_installation_page() -> None:
    unpacked = re.findall(r"\bunpack ([a-z0-9-]+) ", page("tools/bootstrap"))
    folders = re.findall(r"prefix=(/opt/tare/\w+)", page("tools/bootstrap"))
    assert len(folders) >= 3
    for name in (*unpacked, *folders):
        assert name in page("docs/install.md"), name
