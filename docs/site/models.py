"""The table of the models and a page for each, from the models themselves.

``.. models::`` writes the table: names, a line about each, and the structure that the models of two
systems have. The pages are written before Sphinx reads its sources.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.application import Sphinx

import vpintegrator as vp
from vpintegrator.models.registry import ARCHITECTURES, DESCRIPTIONS

SYSTEMS = ("pendulum", "rigid-body")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("models", Models)
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_pages(app: Sphinx) -> None:
    """Write ``reference/api/model-NAME.rst`` of each model."""
    for name in ARCHITECTURES:
        path = Path(app.srcdir) / "reference" / "api" / f"model-{name}.rst"
        text = "\n".join(page(name)) + "\n"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def page(name: str) -> Iterator[str]:
    """The lines of a model's page, in reStructuredText."""
    title = f"Model {name}"
    yield from (title, "=" * len(title), "", ".. python-api:: vpintegrator.models", "")
    yield f"   {ARCHITECTURES[name].__name__}"


class Models(Directive):
    """The table of the models, on a page in Markdown."""

    def run(self) -> list[nodes.Node]:
        section = nodes.section()
        section.document = self.state.document
        lines = StringList(list(table()), source="vp-show models")
        self.state.nested_parse(lines, self.content_offset, section, match_titles=True)
        return section.children


def table() -> Iterator[str]:
    """The lines of the table, in Markdown."""
    titles = [f"structure: {vp.load_system(name).title}" for name in SYSTEMS]
    yield from (f"| name | model | {' | '.join(titles)} |", "|---" * (2 + len(SYSTEMS)) + "|")
    for name, words in DESCRIPTIONS.items():
        yield f"| `{name}` | {words} | {' | '.join(structure(name, each) for each in SYSTEMS)} |"


def structure(name: str, system: str) -> str:
    """The structure of a model of a system in words."""
    try:
        model = vp.models.build(vp.load_system(system), name)
    except vp.InputError:
        return "–"
    return ", ".join(model.structure.words) or "none"
