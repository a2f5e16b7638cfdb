"""An error's remedy stands on a line of its own: in a text of another error is its message alone."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator

from source_tree import trees
from tare import errors

OURS = {name for name, found in inspect.getmembers(errors, inspect.isclass) if issubclass(found, errors.TareError)}
SAY_IT = {"cli/app.py", "cli/launch_command.py", "images/__main__.py"}
"""Files that print an error whole."""


def caught(tree: ast.AST) -> Iterator[tuple[ast.ExceptHandler, str]]:
    for handler in ast.walk(tree):
        if isinstance(handler, ast.ExceptHandler) and handler.type is not None and handler.name:
            names = {each.id for each in ast.walk(handler.type) if isinstance(each, ast.Name)}
            if names & OURS:
                yield handler, handler.name


def test_no_text_has_an_error_with_its_remedy_in_it() -> None:
    found = [
        f"{place}:{value.lineno}"
        for place, tree in trees()
        if place not in SAY_IT
        for handler, name in caught(tree)
        for value in ast.walk(handler)
        if isinstance(value, ast.FormattedValue) and isinstance(value.value, ast.Name) and value.value.id == name
    ]
    assert found == [], "use its message"
    assert sum(1 for _, tree in trees() for _ in caught(tree)) > 20
