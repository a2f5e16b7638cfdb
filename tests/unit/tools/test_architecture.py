"""The layout is as docs/architecture.md says: places exist, the picture is the code's, nothing outgrows its reader."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tare

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src" / "tare"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
MODULES = [path for path in sorted(SOURCE.rglob("*.py")) if "sources" not in path.relative_to(SOURCE).parts]
PLUGINS = {"causes", "cluster", "networks", "runtimes", "mpi", "workloads", "programs"}
"""Folders that grow by a file for each plug-in."""
LINES, LINES_OF_A_FUNCTION, MODULES_OF_A_PACKAGE = 400, 60, 18


def named_in(path: Path) -> set[str]:
    """Return the names that a module defines, those of methods with and without their class."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
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
        assert (SOURCE / file).is_file(), file
        for name in re.findall(r"`([^`]+)`", names):
            assert name in named_in(SOURCE / file), (file, name)
    packages = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    named = set(re.findall(r"`([a-z_]+)`", PAGE.partition("## One launch")[0]))
    assert packages - {"sources"} <= named
    assert {path.name for path in SOURCE.glob("*.py")} == {"__init__.py", "errors.py"}
    assert tare.__doc__


def test_the_picture_is_that_of_the_imports() -> None:
    check = [sys.executable, ROOT / "tools" / "architecture.py", "--check"]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", [p for p in MODULES if p.name == "__init__.py"], ids=lambda p: p.parent.name)
def test_a_package_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), path


def test_no_module_function_or_package_outgrows_its_reader() -> None:
    large = [f"{path}: {n} lines" for path in MODULES if (n := path.read_text().count("\n")) > LINES]
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.end_lineno is not None:
                lines = node.end_lineno - node.lineno + 1
                large += [f"{path}: {node.name}: {lines} lines"] if lines > LINES_OF_A_FUNCTION else []
    for folder in {path.parent for path in MODULES}:
        count = len([path for path in MODULES if path.parent == folder])
        large += [f"{folder}: {count} modules"] if count > MODULES_OF_A_PACKAGE and folder.name not in PLUGINS else []
    assert large == []
