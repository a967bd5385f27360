"""Cells of tables that hold sentences are as wide as sentences need: phones scroll instead."""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx

LONG = 45  # letters


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-read", _mark)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _mark(app: Sphinx, doctree: nodes.document) -> None:
    for cell in doctree.findall(nodes.entry):
        if len(cell.astext()) > LONG:
            cell["classes"].append("long")
