"""The reference of the commands, from the commands themselves.

``.. command-line:: vp-gen`` writes what ``vp-gen --help`` says as a page with anchors: usage, text,
examples, a description of every option, and of vp-train the arguments of each model.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from importlib.metadata import entry_points

import click
from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.application import Sphinx

_VERBATIM = "\b"  # click's mark of a paragraph that is not to be wrapped


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("command-line", CommandLine)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class CommandLine(Directive):
    """The sections of one command; its argument is the name that one types."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        lines = StringList(list(page(name)), source=f"{name} --help")
        section = nodes.section()
        section.document = self.state.document
        self.state.nested_parse(lines, self.content_offset, section, match_titles=True)
        return section.children


def page(name: str) -> Iterator[str]:
    """The lines of a command's description, in reStructuredText."""
    command = loaded(name)
    context = click.Context(command, info_name=name, **command.context_settings)
    yield from ("::", "", f"    {name} {' '.join(command.collect_usage_pieces(context))}", "")
    yield from _text(command.help or "")
    yield from (f".. program:: {name}", "")
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if isinstance(parameter, click.Option) and record is not None:
            yield from _option(*record)
    if name == "vp-train":
        yield from _models()


def loaded(name: str) -> click.Command:
    """The command of that name, which the package installs."""
    (entry,) = entry_points(group="console_scripts", name=name)
    module, _, attribute = entry.value.partition(":")
    command: click.Command = getattr(importlib.import_module(module), attribute)
    return command


def _text(help: str) -> Iterator[str]:
    """Paragraphs, and those that keep their lines."""
    for paragraph in help.strip().split("\n\n"):
        lines = [line for line in paragraph.splitlines() if line.strip() != _VERBATIM]
        if len(lines) < len(paragraph.splitlines()):
            heading = lines[0].strip() if lines and lines[0].strip().endswith(":") else None
            yield from ([f"**{heading}**", ""] if heading else [])
            yield from (".. code-block:: console", "")
            yield from (f"    $ {line.strip()}" for line in lines[1 if heading else 0 :])
        else:
            yield from (_escaped(line.strip()) for line in lines)
        yield ""


def _option(usage: str, help: str) -> Iterator[str]:
    yield from (f".. option:: {usage.replace(' / ', ', ')}", "", f"    {_escaped(help)}", "")


def _models() -> Iterator[str]:
    from vpintegrator.models.registry import ARCHITECTURES, DESCRIPTIONS
    from vpintegrator.overview import architecture_arguments

    for name, words in DESCRIPTIONS.items():
        title = f"Arguments of {name}"
        yield from (title, "-" * len(title), "", _escaped(words), "")
        yield from (f".. program:: vp-train --model {name}", "")
        for argument, about in architecture_arguments(ARCHITECTURES.find(name)).items():
            usage = f"{argument} {about['value']}"
            yield from _option(usage, f"{about['meaning']}  [{about['default']}]")


def _escaped(text: str) -> str:
    """Words as they are, no mark of reStructuredText is meant; options look like code."""
    for mark in "\\*`|_@":
        text = text.replace(mark, f"\\{mark}")
    return re.sub(r"(?<![\w-])(--[a-z][a-z-]*[a-z])", r"``\1``", text)
