"""Embed scripts, style sheets and plot data in the page, with a policy that blocks everything else."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any

from markupsafe import Markup

from tare.report.plots.figures import Drawing


@cache
def asset(package: str, path: str) -> Markup:
    """Read a script or style sheet to embed verbatim; closing tags in it are escaped."""
    text = resources.files(package).joinpath(path).read_text(encoding="utf-8")
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # a browser normalises line ends before it hashes
    return Markup(text.replace("</script", "<\\/script").replace("</style", "<\\/style"))  # noqa: S704 - our own files


def policy(*, scripts: Sequence[str], styles: Sequence[str]) -> Markup:
    """Return the Content-Security-Policy, which allows exactly these scripts and style sheets, by their hashes.

    Plotly creates a style element that is empty at first, so the styles must include the empty string.
    """
    script, style = (" ".join(f"'sha256-{_hash(text)}'" for text in texts) for texts in (scripts, styles))
    return Markup(f"default-src 'none'; script-src {script}; style-src {style}; img-src data: blob:")  # noqa: S704 - base64


def find_style_ids(plotly: str) -> tuple[str, ...]:
    """Return the identifiers of the style sheets (for maps) that plotly adds to a page that lacks them.

    The policy would refuse them, with an error in the console. An empty element with the identifier prevents that.
    """
    return tuple(dict.fromkeys(re.findall(r'getElementById\("([0-9a-f]{64})"\)', plotly)))


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def drop_infinities(value: Any) -> Any:
    """Return plot data with None in place of infinite values; the interval of two rounds can be infinite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: drop_infinities(inner) for key, inner in value.items()}
    return [drop_infinities(inner) for inner in value] if isinstance(value, list | tuple) else value


def with_json(figure: Drawing) -> Drawing:
    """Return a plot with its data as JSON only: as lists, those of many plots would take gigabytes."""
    return replace(figure, spec={}, json=figure_json(figure))


def figure_json(figure: Drawing) -> str:
    """Return a plot's data as JSON."""
    if figure.json:
        return figure.json
    try:
        return json.dumps(figure.spec, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return json.dumps(drop_infinities(figure.spec), separators=(",", ":"), allow_nan=False)


def figure_data(figures: Mapping[str, str]) -> Markup:
    """Return all plots, given as JSON by their identifiers, as one JSON text that cannot close its script element."""
    text = ",".join(f"{json.dumps(ident)}:{data}" for ident, data in figures.items())
    return Markup(f"{{{text}}}".replace("<", "\\u003c"))  # noqa: S704 - JSON with every `<` escaped
