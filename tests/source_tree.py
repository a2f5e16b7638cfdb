"""Read the modules of tare, for tests that hold the whole tree, and import the programs of other folders."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
SOURCE: Final = ROOT / "src" / "tare"
CODE: Final = {str(path.relative_to(SOURCE)): path.read_text() for path in sorted(SOURCE.rglob("*.py"))}
"""The code of every module, by its path below the package."""


def trees() -> Iterator[tuple[str, ast.Module]]:
    """Yield every module's path with its syntax tree."""
    return ((module, ast.parse(code)) for module, code in CODE.items())


def calls_in(tree: ast.Module) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def program(name: str, folder: str = "tools") -> ModuleType:
    """Import a program of tools/ or benchmarks/, which import each other by their names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / folder))
        return importlib.import_module(name)
