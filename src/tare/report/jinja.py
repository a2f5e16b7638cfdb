"""Make the environment of the HTML pages' templates: everything is escaped, and a name that is missing is an error.

Characters that control a terminal or turn the direction of text round are shown by their codes.
"""

from __future__ import annotations

from functools import cache

from jinja2 import Environment as Jinja
from jinja2 import PackageLoader, StrictUndefined

from tare.model.text import printable
from tare.report import units


def _shown(value: object) -> object:
    """Return what a template shows of a value; markup is our own."""
    return printable(value, lines=True) if type(value) is str else value


@cache
def templates(package: str) -> Jinja:
    """Return the environment of the templates in a package."""
    environment = Jinja(
        loader=PackageLoader(package),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["keep_together"] = units.keep_together
    environment.filters["percent"] = lambda fraction: units.percent(fraction, sign=False)
    return environment
