"""What Sphinx builds the documentation site from: `make docs`, into site/ (docs/adr/0032-docs-site.md).

The source folder is the root of the repository, so that links between docs/ and README.md work on the site as they do
in the repository. The pages are plain Markdown: their places in the navigation are here.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sphinx.application import Sphinx

NAVIGATION: Final = {
    "Your way in": ("readers/application", "readers/cluster", "readers/paper", "readers/developer"),
    "Tutorials": (
        "tutorials/first-verdict",
        "tutorials/your-application",
        "tutorials/your-cluster",
        "tutorials/why-slow",
    ),
    "How-to": (
        "install",
        "clusters",
        "slurm",
        "kubernetes",
        "images",
        "noise",
        "live",
        "comparing",
        "formats",
        "notebooks",
        "check",
        "troubleshooting",
    ),
    "Reference": (
        "reference/commands",
        "study",
        "environments",
        "networks",
        "compatibility",
        "workloads",
        "kernels",
        "lab",
        "report",
        "reference/claims",
        "errors",
        "glossary",
        "features",
    ),
    "Method": ("method", "startup", "explaining", "reliability"),
    "Papers": ("papers/index",),
    "Development": (
        "/CONTRIBUTING",
        "architecture",
        "adding",
        "adr/index",
        "/CHANGELOG",
        "/SECURITY",
        "/CODE_OF_CONDUCT",
        "/README",
    ),
}
"""The pages of each part of the navigation; those outside docs/ begin with a slash."""
INSIDE: Final = {"docs/papers/index": "/docs/papers/*", "docs/adr/index": "/docs/adr/*"}
"""Pages whose folders are listed below them."""
MENDED: Final = (
    ('role="heading"', 'role="heading" aria-level="2"'),
    ('<aside class="sidebar-drawer">', '<aside class="sidebar-drawer" aria-label="All pages">'),
    ('<aside class="toc-drawer', '<aside aria-label="This page" class="toc-drawer'),
    ("<pre>", '<pre tabindex="0">'),
    ('<div class="table-wrapper', '<div tabindex="0" class="table-wrapper'),
    ('<th class="head"><p></p></th>', "<td></td>"),
    ('<div id="search-results">', '<h1>Search</h1><div id="search-results">'),
)
"""What axe-core finds wrong with pages of Sphinx and Furo, and what is right."""

project = "tare"
author = "the authors of tare"
html_title = "tare"
extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**.md"]
exclude_patterns = ["[!d]*/**", "d[!o]*/**", ".*/**"]
myst_heading_anchors = 4
smartquotes = False
highlight_language = "text"

html_theme = "furo"
html_static_path = ["site/style.css"]
html_css_files = ["style.css"]
html_additional_pages = {"index": "to-docs.html"}
templates_path = ["site"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_show_search_summary = False  # it is fetched, which browsers refuse from a file
html_search_scorer = str(Path(__file__).parent / "site" / "scorer.js")
html_use_index = False


def tree(caption: str, pages: tuple[str, ...]) -> str:
    """Return a part of the navigation as a page has it."""
    glob = ":glob:\n" if any("*" in page for page in pages) else ""
    title = f":caption: {caption}\n" if caption else ""
    return f"\n```{{toctree}}\n:hidden:\n{glob}{title}\n{chr(10).join(pages)}\n```\n"


def add_navigation(_: Sphinx, name: str, source: list[str]) -> None:
    """Add its part of the navigation to a page that has one."""
    if name == root_doc:
        source[0] += "".join(tree(caption, pages) for caption, pages in NAVIGATION.items())
    elif name in INSIDE:
        source[0] += tree("", (INSIDE[name],))


def mend(app: Sphinx, _: Exception | None) -> None:
    """Make what scrolls reachable by keyboard, and headings and landmarks known to screen readers."""
    for page in Path(app.outdir).rglob("*.html"):
        text = page.read_text()
        for wrong, right in MENDED:
            text = text.replace(wrong, right)
        page.write_text(text)


def setup(app: Sphinx) -> None:
    """Add the navigation to pages that are read, and mend those that are written."""
    app.connect("source-read", add_navigation)
    app.connect("build-finished", mend)
