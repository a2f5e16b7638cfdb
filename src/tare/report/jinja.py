"""Make the environment of the HTML pages' templates: everything is escaped, and a name that is missing is an error."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment as Jinja
from jinja2 import PackageLoader, StrictUndefined

from tare.report import units


@cache
def templates(package: str) -> Jinja:
    """Return the environment of the templates in a package."""
    environment = Jinja(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["keep_together"] = units.keep_together
    environment.filters["percent"] = lambda fraction: units.percent(fraction, sign=False)
    return environment
