"""Embed scripts, style sheets and figures in a page, with the policy that lets nothing else run."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

from markupsafe import Markup

from tare.report.plots.figures import Drawing


@cache
def asset(package: str, path: str) -> Markup:
    """Read a script or style sheet that goes into the page as it is; it must not end its own element."""
    text = resources.files(package).joinpath(path).read_text(encoding="utf-8")
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # as a browser reads it, which then takes its hash
    return Markup(text.replace("</script", "<\\/script").replace("</style", "<\\/style"))  # noqa: S704 - our own files


def policy(*, scripts: Sequence[str], styles: Sequence[str]) -> Markup:
    """Return the Content-Security-Policy: these scripts and style sheets run, by their hashes, and nothing else.

    Plotly makes a style element that is empty at first, so the hash of nothing is among those of the styles.
    """
    script, style = (" ".join(f"'sha256-{_hash(text)}'" for text in texts) for texts in (scripts, styles))
    return Markup(f"default-src 'none'; script-src {script}; style-src {style}; img-src data: blob:")  # noqa: S704 - base64


def own_styles(plotly: str) -> tuple[str, ...]:
    """Return the identifiers of style sheets that plotly adds to a page where it has none of that name: those of maps.

    The policy would refuse them, with an error in the console. An empty one of the name keeps plotly from trying.
    """
    return tuple(dict.fromkeys(re.findall(r'getElementById\("([0-9a-f]{64})"\)', plotly)))


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def drawable(value: Any) -> Any:
    """Return what a plot is made of, with nothing in place of an infinite bound: that of two rounds may be."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: drawable(inner) for key, inner in value.items()}
    return [drawable(inner) for inner in value] if isinstance(value, list | tuple) else value


def figure_data(figures: Sequence[Drawing]) -> Markup:
    """Return all figures as JSON that cannot end the script element that holds it."""
    text = json.dumps(
        {figure.ident: drawable(figure.spec) for figure in figures}, separators=(",", ":"), allow_nan=False
    )
    return Markup(text.replace("<", "\\u003c"))  # noqa: S704 - JSON with every `<` escaped
