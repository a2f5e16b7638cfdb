"""The layout is as docs/architecture.md says: places exist, and nothing outgrows its reader."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from pathlib import PurePath

from source_tree import CODE, ROOT, SOURCE, trees

PAGE = (ROOT / "docs" / "architecture.md").read_text()
PLUGINS = {"causes", "clusters", "networks", "runtimes", "mpi", "workloads", "programs"}
"""Folders that grow by a file for each plug-in."""
OUT = {
    "Added", "Asked", "Away", "Began", "Chosen", "Converted", "Desk", "Door", "Doorway", "Drawn", "Elsewhere",
    "Far", "Further", "Gate", "Given", "Gone", "Kept", "Later", "Made", "Maker", "Making", "Numbered", "Plotted",
    "Printed", "Relay", "Said", "Seat", "Seen", "Shown", "Still", "Taken", "Told", "Unread", "Wanted", "Way",
}  # fmt: skip
"""What classes are not called any more: a reader who is new cannot tell what they are."""
LINES, LINES_OF_A_FUNCTION, MODULES_OF_A_PACKAGE = 400, 60, 18


def named_in(code: str) -> set[str]:
    """Return the names that a module defines, those of methods with and without their class."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found.update(f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef))
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def test_every_package_and_file_of_the_page_exists_and_has_what_is_named_beside_it() -> None:
    places = re.findall(r"`((?!tools/)[a-z_]+/[a-z_/]+\.py)`((?:(?:,| and)? `[A-Za-z_.]+`)*)", PAGE)
    assert len(places) > 20
    for file, names in places:
        assert set(re.findall(r"`([^`]+)`", names)) <= named_in(CODE[file]), file
    packages = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    assert list(parts_of_packages()) == [name for name in layers() if name != "errors"]
    assert set(parts_of_packages()) == packages
    assert {path.name for path in SOURCE.glob("*.py")} == {"__init__.py", "errors.py"}


def layers() -> list[str]:
    """Return the packages in the order of the import contract."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return list(contracts[0]["layers"])


def parts_of_packages() -> dict[str, list[str]]:
    """Return the parts of each package as the page orders them; "" stands for its own modules."""
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]*)\|$", PAGE, re.MULTILINE)
    named = {name: re.findall(r"(?:^|; )(?:`(\w+)`|own)", parts) for name, parts in rows}
    return {name: parts or [""] for name, parts in named.items()}


def test_a_part_of_a_package_imports_only_those_that_the_page_names_after_it() -> None:
    wrong = []
    for module, tree in trees():
        room, _, rest = module.partition("/")
        parts = parts_of_packages().get(room, [])
        here = rest.partition("/")[0] if rest.partition("/")[0] in parts else ""
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or not f"{node.module}.".startswith(f"tare.{room}."):
                continue
            for alias in node.names:
                first = f"{node.module}.{alias.name}".split(".")[2]
                there = first if first in parts else ""
                wrong += [f"{module}: {first}"] if parts.index(there) < parts.index(here) else []
    assert wrong == []


def test_each_name_of_a_class_is_used_once_and_says_what_it_is() -> None:
    names = Counter(node.name for _, tree in trees() for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert {name for name, uses in names.items() if uses > 1} | (OUT & set(names)) == set()


def test_no_module_function_or_package_outgrows_its_reader() -> None:
    large = {module: n for module, code in CODE.items() if (n := code.count("\n")) > LINES}
    for module, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.end_lineno is not None:
                lines = node.end_lineno - node.lineno + 1
                large |= {f"{module}: {node.name}": lines} if lines > LINES_OF_A_FUNCTION else {}
    for folder, modules in Counter(PurePath(module).parent for module in CODE).items():
        large |= {str(folder): modules} if modules > MODULES_OF_A_PACKAGE and folder.name not in PLUGINS else {}
    assert large == {}
