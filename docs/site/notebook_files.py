"""Every tutorial as a notebook to take along, with a link at its head.

The source is the page itself (MyST Markdown); jupytext makes an ``.ipynb`` of it, without output.
"""

from __future__ import annotations

from pathlib import Path

import jupytext
from docutils import nodes
from notebooks import is_notebook
from sphinx.application import Sphinx

FOLDER = "notebooks"


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-read", _add_link)
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _add_link(app: Sphinx, doctree: nodes.document) -> None:
    name = app.env.docname
    if not is_notebook(Path(app.env.doc2path(name))):
        return
    up = "../" * name.count("/")
    link = (
        f'<p class="notebook-link"><a href="{up}{FOLDER}/{Path(name).name}.ipynb" download>'
        "Download as a notebook</a></p>"
    )
    title = next(iter(doctree.findall(nodes.title)))
    title.parent.insert(title.parent.index(title) + 1, nodes.raw("", link, format="html"))


def _write(app: Sphinx, error: Exception | None) -> None:
    if error is not None or app.builder.format != "html":
        return
    target = Path(app.outdir) / FOLDER
    target.mkdir(exist_ok=True)
    for name in app.env.found_docs:
        source = Path(app.env.doc2path(name))
        if is_notebook(source):
            jupytext.write(jupytext.read(source, fmt="md:myst"), target / f"{source.stem}.ipynb")
