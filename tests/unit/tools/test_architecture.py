"""The layout is as docs/architecture.md says: places exist, and nothing outgrows its reader."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import PurePath

from source_tree import CODE, ROOT, SOURCE, trees

PAGE = (ROOT / "docs" / "architecture.md").read_text()
PLUGINS = {"causes", "cluster", "networks", "runtimes", "mpi", "workloads", "programs"}
"""Folders that grow by a file for each plug-in."""
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
    named = set(re.findall(r"`([a-z_]+)`", PAGE.partition("## One launch")[0]))
    assert packages - {"sources"} <= named
    assert {path.name for path in SOURCE.glob("*.py")} == {"__init__.py", "errors.py"}


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
