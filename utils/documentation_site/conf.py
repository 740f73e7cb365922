"""The documentation site, by Sphinx: the repository's own pages as they stand, and a reference made from docstrings.

``make docs`` builds it into ``build/site``; a link that leads nowhere, a page that is in no table of contents and any
other warning fail it. The pages are read where they are, below the repository's root, so that their links hold on the
site and in the repository alike. What the site has beyond them, its navigation, is added to them here.

Sphinx rather than MkDocs, whose 1.6.1 of August 2024 is the last release that themes and plugins work with.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sphinx.application import Sphinx

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]

project = "torchbucket"
author = "the torchbucket authors"
root_doc = "README"
include_patterns = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md", "docs/*/*.md"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]

html_theme = "furo"
html_title = "torchbucket and bucketbench"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False

myst_heading_anchors = 5
myst_enable_extensions: list[str] = []

autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # they are in the signatures
python_use_unqualified_type_names = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False

# Of other packages there are no pages here.
nitpick_ignore_regex = [(r"py:.*", r"(?!(torchbucket|bucketbench|buckettestbed)\b).*")]

_NAVIGATION: Final = {
    "README": (HERE / "navigation.md").read_text(encoding="utf-8"),
    "docs/decisions/README": "```{toctree}\n:hidden:\n:glob:\n\n0*\n```\n",
    "docs/results/README": "```{toctree}\n:hidden:\n:glob:\n\n*\n```\n",
}
"""What is added to a page: the pages below it."""


def setup(app: Sphinx) -> dict[str, Any]:
    """Have Sphinx call what follows."""
    app.connect("source-read", _add_navigation)
    app.connect("autodoc-process-docstring", _mark_examples, priority=400)  # before napoleon reads it
    app.connect("missing-reference", _leave_types_of_signatures)
    app.connect("build-finished", _make_index)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _add_navigation(app: Sphinx, name: str, source: list[str]) -> None:
    del app
    if name in _NAVIGATION:
        source[0] = f"{source[0]}\n{_NAVIGATION[name]}"


def _mark_examples(app: Sphinx, what: str, name: str, documented: Any, options: Any, lines: list[str]) -> None:
    """Have an example, which is an indented paragraph of a docstring, be set as code."""
    del app, what, name, documented, options
    for number in range(len(lines) - 1, 1, -1):
        before, blank, line = lines[number - 2 : number + 1]
        begins = line.startswith("    ") and not blank.strip() and before.strip() and not before.startswith((" ", "-"))
        if begins:
            lines[number:number] = ["::", ""]


def _leave_types_of_signatures(app: Sphinx, env: Any, node: Any, contnode: Any) -> Any:
    """Have a type that a signature names, and that is not public, be text; what a docstring refers to must be there."""
    del app, env
    from sphinx.addnodes import desc_signature

    while node is not None and not isinstance(node, desc_signature):
        node = node.parent
    return None if node is None else contnode


def _make_index(app: Sphinx, error: Exception | None) -> None:
    """Give the first page the name that browsers open."""
    if error is None:
        shutil.copyfile(Path(app.outdir) / "README.html", Path(app.outdir) / "index.html")
