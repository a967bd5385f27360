"""The reference of the Python API, from the docstrings.

``.. python-api:: vpintegrator.nn`` with names in its content documents these: a table of them with
their first sentences, then each with its docstring. Names of other pages may stand in the table,
too: those after ``:also:``. With ``:rest:`` all of ``__all__`` follow that no page names.
``.. python-names:: vpintegrator`` is a table of all that a module's ``__all__`` names, wherever it
is documented; ``.. classical-methods::`` one of the methods, and ``.. values-of:: NAME`` what a
tuple holds.

Names that stand in a docstring as ``Name`` become links where a page documents them.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive, directives
from docutils.statemachine import StringList
from sphinx.addnodes import desc_signature, pending_xref
from sphinx.application import Sphinx
from sphinx.domains.python import PyObject
from sphinx.util.docfields import TypedField
from sphinx.util.nodes import make_refnode

_BLOCK = re.compile(r"^\.\. python-api:: (\S+)\n((?:[ ]+\S.*\n|\n)*)", re.MULTILINE)
_DATA = re.compile(r"^\.\. py:data:: (\S+)$", re.MULTILINE)
_TYPE = re.compile(r"^:(?:var)?type \S+: ")
_KIND = re.compile(r"(?<![\w.])(?:[\w.]+\.)?([A-Z]\w*[a-z]\w*)\b")
_RESULT = re.compile(r"(?<=^:returns: )\*([A-Z]\w*[a-z]\w*)\*")
_SEVERAL = re.compile(r":ivar (\w+(?:, \w+)+): ")
PAGES = Path("reference", "api")
_COLON = "\ue000"  # of no text's
_LITERAL = re.compile(r"(?<![`:])``([A-Z]\w*[a-z]\w*|vpintegrator(?:\.\w+)+)``")
_OF_MODULES = {  # the first page of each
    "compiled": "running",
    "data": "data",
    "dynamics": "systems",
    "maps": "classical-methods",
    "measure": "running",
    "models": "models",
    "nn": "attention",
    "plotting": "plotting",
    "runtime": "running",
    "training": "training",
}


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("python-api", PythonApi)
    app.add_directive("python-names", PythonNames)
    app.add_directive("classical-methods", ClassicalMethods)
    app.add_directive("values-of", ValuesOf)
    app.connect("builder-inited", _find)
    app.connect("autodoc-process-docstring", _hide_colons, priority=400)  # before napoleon
    app.connect("autodoc-process-docstring", _link, priority=600)  # after it
    app.connect("autodoc-process-signature", _returned)
    app.connect("missing-reference", _resolve)
    app.connect("doctree-read", _tidy)
    app.connect("doctree-resolved", _goals_of_sources)
    app.connect("html-collect-pages", _colours)
    for kind in PyObject.doc_field_types:
        # kinds are said in words, "sequence of int", in which no name is looked for but by _link
        if isinstance(kind, TypedField):
            kind.rolename = kind.typerolename = ""
        if kind.name == "variable":
            kind.label = "Attributes"  # as the docstrings call them
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class PythonApi(Directive):
    """Documents names of a module."""

    required_arguments = 1
    has_content = True
    option_spec = {"also": directives.unchanged, "rest": directives.flag}  # noqa: RUF012

    def run(self) -> list[nodes.Node]:
        module = self.arguments[0]
        names = [f"{module}.{name}" for name in " ".join(self.content).split()]
        if "rest" in self.options:
            names += rest(_named(Path(self.state.document.settings.env.srcdir) / PAGES), module)
        also = self.options.get("also", "").split()
        lines = [*table([*names, *also]), *(line for name in names for line in _object(name))]
        return _parsed(self, lines)


class PythonNames(Directive):
    """A table of the names of a module."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        module = importlib.import_module(self.arguments[0])
        return _parsed(self, table([f"{module.__name__}.{name}" for name in module.__all__]))


class ClassicalMethods(Directive):
    """A table of all classical methods."""

    def run(self) -> list[nodes.Node]:
        return _parsed(self, methods())


class ValuesOf(Directive):
    """The texts that a constant holds, in a line."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        values = found(self.arguments[0])
        return _parsed(self, [", ".join(f'``"{value}"``' for value in values) + "."])


def _parsed(directive: Directive, lines: Any) -> list[nodes.Node]:
    node = nodes.Element()
    node.document = directive.state.document
    content = StringList(list(lines), source=f"the docstrings ({directive.arguments})")
    directive.state.nested_parse(content, directive.content_offset, node)
    return node.children


def table(names: list[str]) -> Iterator[str]:
    """Links with the first sentences of docstrings, as a table in reStructuredText."""
    yield from (".. list-table::", "   :widths: 36 64", "   :class: names", "")
    for name in names:
        thing, short = found(name), name.rpartition(".")[2]
        if isinstance(thing, ModuleType) and callable(thing):
            thing, name = getattr(thing, short), f"{name}.{short}"
        if isinstance(thing, ModuleType):
            yield f"   * - :doc:`{short} </reference/api/{_OF_MODULES[short]}>`"
        else:
            yield f"   * - :py:obj:`{short} <{name}>`"
        yield f"     - {first_sentence(thing)}"
    yield ""


def first_sentence(thing: Any) -> str:
    """What its docstring begins with, or the comment before a constant."""
    text = inspect.getdoc(thing) if documented_by_itself(thing) else None
    paragraph = " ".join((text or "").partition("\n\n")[0].split())
    at = re.search(r"\.(?= [A-Z])|\.$", paragraph)
    sentence = paragraph[: at.end()] if at else paragraph
    return _linked(sentence)


def documented_by_itself(thing: Any) -> bool:
    """Whether it has a docstring of its own, as constants have not."""
    return isinstance(thing, ModuleType) or inspect.isclass(thing) or inspect.isroutine(thing)


def found(name: str) -> Any:
    """The object of a dotted name: ``vpintegrator.nn.cayley``, which is also a module's name."""
    first, *parts = name.split(".")
    thing: Any = importlib.import_module(first)
    for number, part in enumerate(parts, 2):
        try:
            thing = getattr(thing, part)
        except AttributeError:
            thing = importlib.import_module(".".join(name.split(".")[:number]))
    return thing


def _object(name: str) -> Iterator[str]:
    thing = found(name)
    if inspect.isclass(thing):
        kind = "exception" if issubclass(thing, BaseException) else "class"
        yield from (f".. auto{kind}:: {name}", "   :members:", "")
    else:
        yield from (f".. autofunction:: {name}", "")


def methods() -> Iterator[str]:
    """All classical methods with what they claim, in their order."""
    from vpintegrator.rollout import METHODS

    yield from (".. list-table::", "   :header-rows: 1", "   :class: methods", "")
    yield from ("   * - name", "     - method", "     - order", "     - keeps", "     - source")
    for name, method in METHODS.items():
        kept = {
            "symplectic": method.form == "symplectic",
            "volume": method.form == "volume",
            "symmetric": method.symmetric,
        }
        yield f"   * - ``{name}``"
        yield f"     - {method.title}"
        yield f"     - {method.order}"
        yield f"     - {', '.join(word for word, holds in kept.items() if holds) or '–'}"
        yield f"     - {method.source}"
    yield ""


def documented(folder: Path) -> list[tuple[str, str]]:
    """The full names that the pages of a folder document, each with the page."""
    names = _named(folder)
    for page in sorted(folder.glob("*.rst")):
        for module, block in _BLOCK.findall(page.read_text(encoding="utf-8") + "\n"):
            if ":rest:" in block:
                names += [(name, page.stem) for name in rest(names, module)]
    return names


def rest(names: list[tuple[str, str]], module: str) -> list[str]:
    """The full names of a module's ``__all__`` that are not among those given."""
    known = {name for name, _ in names}
    every = [f"{module}.{name}" for name in importlib.import_module(module).__all__]
    return [name for name in every if name not in known]


def _named(folder: Path) -> list[tuple[str, str]]:
    """The full names that stand on the pages of a folder, each with the page."""
    from vpintegrator.models import ARCHITECTURES

    names = [
        (f"vpintegrator.models.{model.__name__}", f"model-{name}")
        for name, model in ARCHITECTURES.items()
    ]
    for page in sorted({*folder.glob("*.rst")} - {*folder.glob("model-*.rst")}):
        text = page.read_text(encoding="utf-8") + "\n"
        for module, block in _BLOCK.findall(text):
            content = [line for line in block.splitlines() if not line.strip().startswith(":")]
            names += [(f"{module}.{name}", page.stem) for name in " ".join(content).split()]
        names += [(name, page.stem) for name in _DATA.findall(text)]
    return names


def _find(app: Sphinx) -> None:
    global _names, _pages
    _pages = dict(documented(Path(app.srcdir) / PAGES))
    _names = {id(found(name)): name for name in _pages}


_names: dict[int, str] = {}  # of the documented objects by their identity
_pages: dict[str, str] = {}


def _ends() -> dict[str, str]:
    """The full names by what they end in."""
    return {name.rpartition(".")[2]: name for name in _pages}


def _linked(text: str) -> str:
    """``Name`` as a link, where it is documented."""
    ends = _ends()

    def link(match: re.Match[str]) -> str:
        name = match[1]
        full = name if "." in name else ends.get(name)
        known = full and ("." not in name or _canonical(full))
        return f":py:obj:`{name} <{full}>`" if known else match[0]

    return _LITERAL.sub(link, text)


def _canonical(name: str) -> str | None:
    """The name by which a page documents it."""
    try:
        return _names.get(id(found(name)))
    except (ImportError, ValueError):
        return None


def _hide_colons(
    app: Sphinx, what: str, name: str, thing: object, options: Any, lines: list[str]
) -> None:
    """Of properties napoleon would take what stands before a colon for their type."""
    if what in ("attribute", "property") and lines:
        lines[0] = lines[0].replace(":", _COLON)


def _returned(
    app: Sphinx,
    what: str,
    name: str,
    thing: Any,
    options: Any,
    signature: str | None,
    kind: str | None,
) -> tuple[str | None, str | None] | None:
    """After the arrow of a function stands what it returns, as annotated."""
    if signature is None:
        return None
    if what in ("function", "method"):
        annotated = inspect.signature(thing).return_annotation
        if isinstance(annotated, str) and annotated not in ("None", "Self"):
            kind = annotated
    # defaults that are functions, or made anew, have no text that one could type
    return re.sub(r"<(function )?[^<>]*(<lambda>)?[^<>]*>(?=[,)])", "...", signature), kind


def _link(app: Sphinx, what: str, name: str, thing: object, options: Any, lines: list[str]) -> None:
    lines[:] = _apart([line.replace(_COLON, ":") for line in lines])
    code = False
    for number, line in enumerate(lines):
        code = code and (not line or line.startswith(" "))
        code = code or line.rstrip().endswith("::") or line.lstrip().startswith(">>>")
        if _TYPE.match(line):
            lines[number] = _KIND.sub(_class, line)
        elif not code:
            lines[number] = _linked(_RESULT.sub(_class, line))


def _apart(lines: list[str]) -> list[str]:
    """Attributes that are described together, one by one: as parameters are from the first."""
    result: list[str] = []
    number = 0
    while number < len(lines):
        end = number + 1
        several = _SEVERAL.match(lines[number])
        if several:
            while end < len(lines) and lines[end].startswith(" "):
                end += 1
            rest = [lines[number][several.end() :], *lines[number + 1 : end]]
            for name in several[1].split(", "):
                result += [f":ivar {name}: {rest[0]}", *rest[1:]]
        else:
            result += [lines[number]]
        number = end
    return result


def _class(match: re.Match[str]) -> str:
    link = _linked(f"``{match[1]}``")
    return match[0] if link.startswith("``") else link


def _tidy(app: Sphinx, doctree: nodes.document) -> None:
    """Parameters that have their words in common share an entry; a dash stands before the words.

    Sphinx leaves the dash to smart quotes, which are off.
    """
    for fields in doctree.findall(nodes.field_list):
        for text in list(fields.findall(nodes.Text)):
            if text.startswith(" -- "):
                text.parent.replace(text, nodes.Text(f" – {text[4:]}"))
        for entries in fields.findall(nodes.bullet_list):
            for first, second in reversed(list(pairwise(entries.children))):
                _merge(first, second)


def _merge(first: nodes.Node, second: nodes.Node) -> None:
    (one, *more), (other, *rest) = first.children, second.children
    words = one.astext().partition(" – ")[2]
    same = words and words == other.astext().partition(" – ")[2]
    if same and [node.astext() for node in more] == [node.astext() for node in rest]:
        end = next(i for i, node in enumerate(other.children) if not _is_name(node))
        place = next(i for i, node in enumerate(one.children) if not _is_name(node))
        one[place:place] = [nodes.Text(", "), *other.children[:end]]
        second.parent.remove(second)


def _is_name(node: nodes.Node) -> bool:
    return isinstance(node, nodes.strong) or node == ", "


def _goals_of_sources(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """What ``[docs]`` beside a source leads to.

    viewcode takes all names of a file for those of one module, the one it met first; of a file
    whose names are public in two, this gives the others a second anchor.
    """
    met = getattr(app.env, "_viewcode_modules", {})
    anchors = {
        name: f"{entry[3]}.{name}"
        for entry in filter(None, met.values())
        for name, where in entry[2].items()
        if where == page
    }
    signatures = list(doctree.findall(desc_signature))
    known = {anchor for signature in signatures for anchor in signature["ids"]}
    for signature in signatures:
        anchor = anchors.get(signature.get("fullname", ""))
        if anchor and anchor not in known:
            signature["ids"].append(anchor)
            known.add(anchor)


def _colours(app: Sphinx) -> list[Any]:
    """Of pages of sources, which are made after all others."""
    app.config.highlight_language = "python"
    return []


def _resolve(
    app: Sphinx, env: Any, node: pending_xref, content: nodes.Node
) -> nodes.Element | None:
    """References to a module of the package by where it is documented."""
    if node.get("refdomain") != "py":
        return None
    target = node.get("reftarget", "")
    first, _, rest = target.partition(".")
    if first in _ends():  # ``Report.save``, from another module
        target = f"{_ends()[first]}.{rest}" if rest else _ends()[first]
    full = _canonical(target) if target.startswith("vpintegrator.") else None
    owner, _, member = target.rpartition(".")
    if full is None and _canonical(owner):
        full = f"{_canonical(owner)}.{member}"
    page = _pages.get(full or "") or _pages.get((full or "").rpartition(".")[0])
    if page is None:
        return None
    place = f"reference/api/{page}"
    return make_refnode(app.builder, node["refdoc"], place, full, content, full)
