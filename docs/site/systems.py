"""The catalogue of systems, from the systems themselves.

``.. catalogue::`` writes a section for each subject and system: equations, parameters, invariants
and symmetries as a notebook shows them, and the suggested step.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.application import Sphinx

import vpintegrator as vp
from vpintegrator.overview import system_summaries


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("catalogue", Catalogue)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class Catalogue(Directive):
    """All systems under their subjects, on a page in Markdown."""

    def run(self) -> list[nodes.Node]:
        lines = StringList("\n".join(markdown()).splitlines(), source="vp-show systems")
        section = nodes.section()
        section.document = self.state.document
        self.state.nested_parse(lines, self.content_offset, section, match_titles=True)
        return section.children


def markdown() -> Iterator[str]:
    """The lines of all sections."""
    for subject, group in itertools.groupby(system_summaries(), key=lambda each: each["subject"]):
        yield f"\n## {subject}"
        for summary in group:
            system = vp.load_system(summary["name"])
            suggested = (f"{name} {value:g}" for name, value in system.defaults.items())
            yield f"\n### {system.title} (`{system.name}`)\n"
            yield system._repr_markdown_()
            yield f"- suggested: {', '.join(suggested)}\n"
